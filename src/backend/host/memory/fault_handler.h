// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::backend::host {

class DeviceMemory;

/// Explains faults at addresses of this memory on standard error (address, block, stack), then calls the previous
/// handler, so that the process ends as without this one. At most 32 memories.
void watch_faults(const DeviceMemory& memory);
/// Ends that, before the memory is destroyed.
void forget_faults(const DeviceMemory& memory) noexcept;

}  // namespace reprise::backend::host
