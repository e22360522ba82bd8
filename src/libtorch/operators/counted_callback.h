// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/record_function.h>

#include <mutex>

namespace reprise::libtorch {

/// A callback of at::RecordFunction that is on as long as it was added more often than removed. Thread-safe.
class CountedCallback {
 public:
  explicit CountedCallback(const at::RecordFunctionCallback& callback) : callback_(callback) {}

  void add() {
    const std::lock_guard lock(mutex_);
    if (handle_ == at::INVALID_CALLBACK_HANDLE)
      handle_ = at::addGlobalCallback(callback_);
    else if (count_ == 0)
      at::reenableCallback(handle_);
    ++count_;
  }
  void remove() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) at::disableCallback(handle_);
  }

 private:
  const at::RecordFunctionCallback callback_;
  std::mutex mutex_;
  int count_ = 0;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace reprise::libtorch
