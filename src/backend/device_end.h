// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reprise/device.h"
#include "support/callbacks.h"

namespace reprise::backend {

/// Called when the device of a HostSimulator is closed: it is idle, nothing of the user's uses it, and its calls still
/// work, except that none can be made to fail. For what keeps something for each device: the next simulator may get the
/// same Backend object. On any thread, without a lock.
using DeviceEndCallback = support::Callback<const Device&>;

inline constinit support::CallbackList<const Device&> device_end_callbacks;

/// Called when a HostSimulator ends, for what waits for launches on its device: the first argument is the device, the
/// second waits until it is idle. Called with null, too, when a simulator is made: pending resources must be released,
/// since they may keep devices open.
inline constinit support::CallbackList<const Device*, const std::function<void()>*> pending_release_callbacks;

}  // namespace reprise::backend
