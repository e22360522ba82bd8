// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reprise::libtorch {

/// From now on whoever of the two allocators runs out of memory of a CUDA device empties the cache of the other one
/// before it gives up, and a capture that begins on an idle device begins with both of them empty. To be called once.
void share_memory_with_libtorch();

}  // namespace reprise::libtorch
