// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// Operators that libtorch implements differently on CUDA than on an unknown device: with their own kernel, or without
/// waiting. Here they work as on CUDA.
void register_cuda_like_kernels(torch::Library& aten);

/// The fused cells of recurrent networks, whose derivatives are those of their parts.
void register_cuda_like_autograd(torch::Library& aten_autograd);

/// Copies of conjugated and negated views, which the kernel of copies resolves itself. For the keys of these views.
void register_lazy_views(torch::Library& aten);

/// Autocast of operators, with half as the default type. `aten` is for the key AutocastPrivateUse1.
void register_autocast(torch::Library& aten);

}  // namespace reprise::libtorch
