// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/rules/capture_rules.h"
#include "reprise/error.h"

// Properties of calls by name, for the monitor.

namespace reprise::backend::cuda {

/// The rule that explains a failed call of CUDA, and what to do instead.
/// \param driver_name the driver's name; the runtime's if the driver was not called.
/// \param on_capture true if a stream of the capture was passed to it.
const CaptureRule* rule_of_failure(const char* driver_name, ErrorCode result, bool on_capture) noexcept;

/// True if a call of the runtime does work on the device that a capture should have recorded.
bool runtime_does_work(const char* name) noexcept;

/// True if a call of the runtime returns its own result. Some return an earlier error, or another value.
bool runtime_returns_result(const char* name) noexcept;

}  // namespace reprise::backend::cuda
