// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

#include "reprise/stream.h"

namespace reprise::libtorch {

/// Device memory for tensors: the CachingAllocator of the calling thread's current host device, for its current stream.
c10::Allocator* device_allocator();

/// Pinned host memory. A freed block is reused, without waiting, once the work noted by pinned_memory_used() is done;
/// none is returned to the system.
c10::Allocator* pinned_allocator();

/// Notes that the stream's work so far uses the pinned memory around `address`. No-op in a capture: a graph uses the
/// memory as long as it is replayed, so the caller has to keep it.
void pinned_memory_used(const void* address, const StreamRef& stream);

}  // namespace reprise::libtorch
