// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::graphs {

/// A mutex for what is held for the time of a launch, or of a call of a cache, and nearly always free: half of what
/// std::mutex costs then. For std::lock_guard.
class LaunchMutex {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) taken_.wait(true, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    taken_.store(false, std::memory_order_release);
    taken_.notify_one();
  }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace reprise::graphs
