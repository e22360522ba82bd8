// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// Convolutions: `aten::convolution` calls an operator of another name on a device unknown to libtorch, of which the
/// CPU has no kernel.
void register_convolution_kernels(torch::Library& aten);

}  // namespace reprise::libtorch
