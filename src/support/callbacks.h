// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace reprise::support {

/// A function for a CallbackList. To be of static storage and constant-initialized: it is never destroyed, and so works
/// while static objects are.
template <class... Arguments>
class Callback {
 public:
  using Function = void (*)(Arguments...) noexcept;
  constexpr explicit Callback(Function function) noexcept : function_(function) {}
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;

 private:
  template <class...>
  friend class CallbackList;
  const Function function_;
  Callback* next_ = nullptr;
};

/// The functions that are called at one kind of event, such as the end of a stream. Of static storage, likewise.
/// Thread-safe, without locks. What takes part in a capture is no callback, but a graphs::CaptureListener.
template <class... Arguments>
class CallbackList {
 public:
  constexpr CallbackList() noexcept = default;
  CallbackList(const CallbackList&) = delete;
  CallbackList& operator=(const CallbackList&) = delete;

  /// Adds `callback`, which is called until the process ends. To be added once.
  void add(Callback<Arguments...>& callback) noexcept {
    callback.next_ = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(callback.next_, &callback, std::memory_order_acq_rel)) continue;
  }
  /// Calls all of them, on this thread.
  void call(Arguments... arguments) const noexcept {
    const Callback<Arguments...>* callback = first_.load(std::memory_order_acquire);
    for (; callback != nullptr; callback = callback->next_) callback->function_(arguments...);
  }

 private:
  std::atomic<Callback<Arguments...>*> first_{nullptr};
};

}  // namespace reprise::support
