// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::libtorch {

/// From now on libtorch's allocator, when it runs out of memory of a CUDA device, empties the cache of this library's
/// before it gives up. (The other way round: empty_cuda_cache().) To be called once.
void share_memory_with_libtorch();

}  // namespace reprise::libtorch
