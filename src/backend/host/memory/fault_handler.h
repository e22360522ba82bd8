// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::backend::host {

class DeviceMemory;

/// From now on, a fault at an address of this memory is explained on standard error (address, block, stack) before the
/// process ends as it would have without us: the handler that was there before is called. At most 16 memories.
void watch_faults(const DeviceMemory& memory);

}  // namespace reprise::backend::host
