// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

namespace reprise::libtorch {

/// Device memory for tensors: the CachingAllocator of the calling thread's current host device, for its current stream.
c10::Allocator* device_allocator();

/// Pinned host memory.
c10::Allocator* pinned_allocator();

}  // namespace reprise::libtorch
