// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/device.h"

namespace reprise::memory {

/// Has the framework, if there is one, release its cached memory of a device to the driver. To be called without a
/// lock.
void empty_framework_cache(const Device& device) noexcept;

}  // namespace reprise::memory
