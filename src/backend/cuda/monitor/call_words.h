// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/capture_report.h"

// What the monitor knows of calls by their names.

namespace reprise::backend::cuda {

/// The rule that a failed call of CUDA met, and what to do instead.
/// \param driver_name the driver's name; the runtime's if the driver was not called.
/// \param on_capture was it given a stream of the capture?
void explain_failure(CaptureReport::Call& call, const char* driver_name, bool on_capture);

/// Would a call of the runtime do work on the device that a capture should have recorded?
bool runtime_does_work(const char* name) noexcept;

/// Does a call of the runtime return a result of its own? Some return an earlier error, or something else altogether.
bool runtime_returns_result(const char* name) noexcept;

}  // namespace reprise::backend::cuda
