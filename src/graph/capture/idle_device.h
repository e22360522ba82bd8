// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/device.h"

namespace reprise::graphs {

/// Waits for the device and returns its cached memory to the driver, unless a capture is underway: the wait would break
/// it. No capture of this library begins during the wait.
/// \throws BackendError if the device cannot be synchronized; 900 if a capture that this library did not begin is
///         underway on it.
void synchronize_if_no_capture(Device device);

}  // namespace reprise::graphs
