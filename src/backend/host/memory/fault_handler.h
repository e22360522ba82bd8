// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::backend::host {

class DeviceMemory;

/// Installs a handler of faults (SIGSEGV, SIGBUS) for threads that execute an operation of a simulated device: it
/// prints the operation and the address to standard error, and calls the previous handler, so that the process ends as
/// without this one. May be called again, without effect.
void explain_faults();

/// Explains faults of other threads at addresses of this memory, too (address, block, stack). At most 32 memories.
void watch_faults(const DeviceMemory& memory);
/// Ends that, before the memory is destroyed.
void forget_faults(const DeviceMemory& memory) noexcept;

}  // namespace reprise::backend::host
