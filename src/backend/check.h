// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "reprise/error.h"

// The one way from a backend's result code to an exception, and its twin for destructors.

namespace reprise::backend {

/// Throws BackendError with the call's name, the code, CUDA's name for it and what the backend knows beyond it.
[[noreturn]] void raise(const Backend& backend, Call call, Result result, SourceLocation where);

/// Passes success; anything else becomes a BackendError.
inline void check(const Backend& backend, Call call, Result result, SourceLocation where = SourceLocation::current()) {
  if (result != Result::success) [[unlikely]]
    raise(backend, call, result, where);
}

/// For destructors: anything but success goes to the warning sink. Returns whether it was success.
bool warn_on_error(const Backend& backend, Call call, Result result,
                   SourceLocation where = SourceLocation::current()) noexcept;

/// Puts the calling thread into relaxed capture mode until the end of the scope: our own allocations, frees and queries
/// then break nobody's capture.
class RelaxedCaptureMode {
 public:
  explicit RelaxedCaptureMode(Backend& backend) noexcept : backend_(backend), exchanged_(exchange()) {}
  ~RelaxedCaptureMode() {
    if (exchanged_) exchange();
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  // A failure is reported and the exchange tried once more: nobody else would ever give the thread its mode back.
  bool exchange() noexcept { return try_exchange() || try_exchange(); }
  bool try_exchange() noexcept {
    return warn_on_error(backend_, Call::thread_exchange_capture_mode, backend_.thread_exchange_capture_mode(&mode_));
  }

  Backend& backend_;
  CaptureErrorMode mode_ = CaptureErrorMode::relaxed;
  const bool exchanged_;  // after mode_, which the first exchange needs
};

}  // namespace reprise::backend
