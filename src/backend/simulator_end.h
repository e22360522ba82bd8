// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/device.h"
#include "support/callbacks.h"

namespace reprise::backend {

/// Called when a HostSimulator has ended and when a later one is to use its device again, on any thread, without a
/// lock: the memory and the state that are kept for the next user of the device must be dropped.
inline constinit support::CallbackList<const Device&> simulator_end_callbacks;

}  // namespace reprise::backend
