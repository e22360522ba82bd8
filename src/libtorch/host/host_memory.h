// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

#include "reprise/stream.h"

namespace reprise::libtorch {

/// Device memory for tensors: the CachingAllocator of the calling thread's current host device, for its current stream.
c10::Allocator* device_allocator();

/// Pinned host memory. A block that is freed is given out again, without waiting, once the work is done that
/// pinned_memory_used() told of; none goes back to the system.
c10::Allocator* pinned_allocator();

/// What the stream was given so far uses pinned memory, of which `address` is any byte. Nothing in a capture: a graph
/// uses the memory for as long as it is replayed, and so the caller has to keep it.
void pinned_memory_used(const void* address, const StreamRef& stream);

}  // namespace reprise::libtorch
