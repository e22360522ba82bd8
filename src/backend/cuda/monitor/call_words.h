// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/rules/capture_rules.h"
#include "reprise/error.h"

// What the monitor knows of calls by their names.

namespace reprise::backend::cuda {

/// The rule that a failed call of CUDA met; null if it is no matter of captures.
/// \param driver_name the driver's name; the runtime's if the driver was not called.
/// \param on_capture was it given a stream of the capture?
const CaptureRule* rule_of_failure(const char* driver_name, Result result, bool on_capture) noexcept;

/// Would a call of the runtime do work on the device that a capture should have recorded?
bool runtime_does_work(const char* name) noexcept;

/// Does a call of the runtime return a result of its own? Some return an earlier error, or something else altogether.
bool runtime_returns_result(const char* name) noexcept;

}  // namespace reprise::backend::cuda
