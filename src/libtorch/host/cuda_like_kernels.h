// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/library.h>

namespace reprise::libtorch {

/// Operators that libtorch does otherwise on CUDA than on a device that it does not know: with a kernel of their own,
/// or without waiting. Here they are done as on CUDA.
void register_cuda_like_kernels(torch::Library& aten);

/// Those whose derivative asks the host for a value, except on CUDA.
void register_cuda_like_autograd(torch::Library& aten_autograd);

/// Copies of conjugated and negated views, which the kernel of copies resolves itself. For the keys of these views.
void register_lazy_views(torch::Library& aten);

}  // namespace reprise::libtorch
