// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reprise/kernel.h"

// Kernels that belong to the library itself: src/kernels/*.cu. They lie in the library as data, and nothing of CUDA is
// linked. nvcc compiles them to machine code for some architectures and, except for the one that sets conditions, PTX
// for later ones. NVRTC of CUDA 12.4 compiles the same to PTX for all, for builds without nvcc and for drivers of an
// older major version than nvcc's, which load nothing that nvcc compiled.

namespace reprise::backend {

/// Why the kernels of the library cannot run on the CUDA devices of this process, and what to do, as a clause for
/// errors; empty if they can.
const std::string& own_kernels_unavailable();

/// The same for the kernel that sets conditions, which only nvcc can compile: it is linked with libcudadevrt.
const std::string& condition_kernel_unavailable();

/// The same for conditional nodes of type `switch`, and of type `if` with two bodies, which older drivers lack.
const std::string& branches_unavailable();

/// True if a driver of the version `driver` loads what nvcc of the version `nvcc` compiled: machine code of any minor
/// version of its own major version, or of an older one.
constexpr bool takes_code_of(int nvcc, int driver) noexcept {
  return driver / 1000 >= nvcc / 1000;
}

/// For KernelRecord::cuda_function of a kernel of the library: finds the `extern "C"` kernel whose name is
/// `kernel.symbol`, as text, on the current device. Returns CUDA's code.
int find_own_kernel(const KernelRecord& kernel, FunctionHandle* function);

}  // namespace reprise::backend
