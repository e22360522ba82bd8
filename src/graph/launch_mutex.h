// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::graphs {

/// A mutex for what is held for the time of a launch, or of a call of a cache, and nearly always free: inline, and one
/// word. Without waiting threads it touches nothing else; a std::atomic<bool> would notify through a table of the
/// standard library, which launches leave in no cache. For std::lock_guard.
class LaunchMutex {
 public:
  void lock() noexcept {
    int expected = unlocked;
    if (!state_.compare_exchange_strong(expected, locked, std::memory_order_acquire, std::memory_order_relaxed))
        [[unlikely]]
      wait();
  }
  void unlock() noexcept {
    // Ordered before the query in notify_one() whether a thread waits.
    if (state_.exchange(unlocked, std::memory_order_seq_cst) == contended) [[unlikely]]
      state_.notify_one();
  }

 private:
  static constexpr int unlocked = 0, locked = 1, contended = 2;  // contended: locked, and threads may wait

  [[gnu::cold, gnu::noinline]] void wait() noexcept {
    while (state_.exchange(contended, std::memory_order_acquire) != unlocked)
      state_.wait(contended, std::memory_order_relaxed);
  }

  std::atomic<int> state_{unlocked};
};

}  // namespace reprise::graphs
