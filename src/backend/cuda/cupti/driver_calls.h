// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cupti_callbacks.h>

#include "backend/cuda/monitor/call_monitor.h"

// The driver's calls, as reported by CUPTI.

namespace reprise::backend::cuda {

/// The kind of a call, and its stream.
/// \param id CUPTI's number of the call, in the domain of the driver.
DriverCall driver_call(CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept;

}  // namespace reprise::backend::cuda
