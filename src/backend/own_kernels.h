// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/kernel.h"

// Kernels that belong to the library itself: src/kernels/*.cu. nvcc compiles them to machine code for some
// architectures and, except for the one that sets conditions, PTX for later ones, which lies in the library as data:
// nothing of CUDA is linked.

namespace reprise::backend {

/// True if this build has its own kernels for CUDA devices; false if nvcc was missing when it was built.
bool has_own_kernels() noexcept;

/// For KernelRecord::cuda_function of a kernel of the library: finds the `extern "C"` kernel whose name is
/// `kernel.symbol`, as text, on the current device. Returns CUDA's code.
int find_own_kernel(const KernelRecord& kernel, FunctionHandle* function);

}  // namespace reprise::backend
