// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// Autocast of operators on the host device: as on CUDA, with half as the default type. `aten` is for the key
/// AutocastPrivateUse1.
void register_autocast(torch::Library& aten);

}  // namespace reprise::libtorch
