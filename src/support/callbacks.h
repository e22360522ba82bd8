// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::support {

/// A function that is called whenever something happens. To be of static storage and constant-initialized: it is never
/// destroyed, and so works while static objects are.
template <class... Arguments>
class Listener {
 public:
  using Function = void (*)(Arguments...) noexcept;
  constexpr explicit Listener(Function function) noexcept : function_(function) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  template <class...>
  friend class Listeners;
  const Function function_;
  Listener* next_ = nullptr;
};

/// The listeners of one kind of thing, likewise. Thread-safe, without locks.
template <class... Arguments>
class Listeners {
 public:
  constexpr Listeners() noexcept = default;
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// From now on `listener` is called, until the process ends. To be added once.
  void add(Listener<Arguments...>& listener) noexcept {
    listener.next_ = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(listener.next_, &listener, std::memory_order_acq_rel)) continue;
  }
  /// Calls all of them, on this thread.
  void call(Arguments... arguments) const noexcept {
    const Listener<Arguments...>* listener = first_.load(std::memory_order_acquire);
    for (; listener != nullptr; listener = listener->next_) listener->function_(arguments...);
  }

 private:
  std::atomic<Listener<Arguments...>*> first_{nullptr};
};

}  // namespace reprise::support
