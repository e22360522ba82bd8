// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "support/heavy_barrier.h"

namespace reprise::graphs {

/// A mutex for what is held for the time of a launch, or of a call of a cache, and nearly always free: inline, one
/// atomic operation to lock, and a plain store to unlock. For std::lock_guard.
///
/// The store of an unlock may become visible after the query whether a thread waits; a thread that begins to wait
/// therefore makes all others pass a barrier, after which they see that it does.
class LaunchMutex {
 public:
  void lock() noexcept {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  void unlock() noexcept {
    state_.store(unlocked, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  static constexpr int unlocked = 0, locked = 1;

  bool try_lock() noexcept {
    int expected = unlocked;
    return state_.compare_exchange_strong(expected, locked, std::memory_order_acquire, std::memory_order_relaxed);
  }
  [[gnu::cold, gnu::noinline]] void wait() noexcept {
    waiting_.fetch_add(1, std::memory_order_seq_cst);
    const bool woken = support::heavy_barrier();
    while (!try_lock()) {
      if (woken)
        state_.wait(locked, std::memory_order_relaxed);
      else
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  [[gnu::cold, gnu::noinline]] void wake() noexcept {
    state_.fetch_add(0, std::memory_order_seq_cst);  // before the query in notify_one() whether a thread sleeps
    state_.notify_one();
  }

  std::atomic<int> state_{unlocked};
  std::atomic<int> waiting_{0};  // threads in wait()
};

/// While it lives, `thread` names the calling thread; then what it named before.
class NamedThread {
 public:
  explicit NamedThread(std::atomic<std::thread::id>& thread) noexcept
      : thread_(thread), before_(thread.load(std::memory_order_relaxed)) {
    thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~NamedThread() { thread_.store(before_, std::memory_order_relaxed); }
  NamedThread(const NamedThread&) = delete;
  NamedThread& operator=(const NamedThread&) = delete;

 private:
  std::atomic<std::thread::id>& thread_;
  const std::thread::id before_;
};

}  // namespace reprise::graphs
