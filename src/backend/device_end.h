// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reprise/device.h"
#include "reprise/export.h"
#include "support/callbacks.h"

namespace reprise::backend {

/// Called when the device of a HostSimulator is closed, on any thread, without a lock. Drops what is kept for the
/// device, since the next simulator may get the same Backend object. The device is idle, no object of the user uses it,
/// and its calls still work; injected failures do not apply to them.
using DeviceEndCallback = support::Callback<const Device&>;

REPRISE_EXPORT_INTERNAL inline constinit support::CallbackList<const Device&> device_end_callbacks;

/// Called when a HostSimulator ends, for what waits for launches on its device: the first argument is the device, the
/// second waits until it is idle. Called with null, too, when a simulator is made: pending resources must be released,
/// since they may keep devices open.
REPRISE_EXPORT_INTERNAL inline constinit support::CallbackList<const Device*, const std::function<void()>*>
    pending_release_callbacks;

}  // namespace reprise::backend
