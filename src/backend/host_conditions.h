// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/types.h"

namespace reprise::backend {

/// Sets the value of a condition from a kernel that runs on a host device, as `cudaGraphSetConditional` does on CUDA.
/// \throws UsageError if there is no such handle.
void set_host_condition(ConditionalHandle handle, unsigned value);

}  // namespace reprise::backend
