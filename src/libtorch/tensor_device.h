// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "captures/registry.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/libtorch/graph.h"

namespace reprise::libtorch {

/// The device of this library on which tensors of a device of libtorch can be captured.
/// \throws UsageError if there is none.
REPRISE_EXPORT_INTERNAL Device device_of_tensors(c10::Device device);

/// What the current stream of a device has to do with captures; nothing on a device that cannot be captured.
captures::Found capture_of(c10::Device device);

}  // namespace reprise::libtorch
