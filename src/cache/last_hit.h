// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <initializer_list>

namespace reprise::caches {

/// What the last hit of a cache read, to be fetched into the processor's cache at the beginning of the next one: a
/// launch leaves little of it there, and each part is found through the one before. Addresses are never read here, so
/// that those of a released entry do no harm. Thread-safe.
class LastHit {
 public:
  static constexpr std::size_t most = 8;

  void prefetch() const noexcept {
    for (const std::atomic<const void*>& each : memory_) __builtin_prefetch(each.load(std::memory_order_relaxed));
  }
  /// True if `entry` was the first one that remember() was passed last.
  bool is(const void* entry) const noexcept { return memory_.front().load(std::memory_order_relaxed) == entry; }
  void remember(std::initializer_list<const void*> memory) noexcept {
    std::size_t i = 0;
    for (const void* const each : memory) memory_[i++].store(each, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<const void*>, most> memory_{};
};

}  // namespace reprise::caches
