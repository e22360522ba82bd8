// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// What autocast does with operators on the host device: as with CUDA's, which types are half unless the caller sets
/// another. `aten` is for the key AutocastPrivateUse1.
void register_autocast(torch::Library& aten);

}  // namespace reprise::libtorch
