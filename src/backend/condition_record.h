// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/kernel.h"

namespace reprise::backend {

/// The kernel of this library that sets the condition of a conditional node, for one thread, on every kind of device.
/// Parameters: the handle (ConditionalHandle); the flag (`const std::uint32_t*`), the state of the loop
/// (LoopState*), the limit and whether the loop begins (std::uint32_t), as next_condition() takes them
/// (kernels/condition_kernel.h).
REPRISE_EXPORT_INTERNAL const KernelRecord& condition_record();

}  // namespace reprise::backend
