// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::libtorch {

/// Makes libtorch's allocator, when it runs out of memory of a CUDA device, empty the cache of this library's allocator
/// before it fails. (The other way round: empty_cuda_cache().) To be called once.
void share_memory_with_libtorch();

}  // namespace reprise::libtorch
