// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/device.h"
#include "reprise/stream.h"

// What guards do, for a framework that has guards of its own.

namespace reprise::backend {

/// Makes a device the calling thread's current one.
void set_current_device(Device device) noexcept;

/// Makes a stream the calling thread's current one of its device; returns the one before. The current device stays.
StreamRef exchange_current_stream(const StreamRef& stream);

}  // namespace reprise::backend
