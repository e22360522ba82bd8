// SPDX-License-Identifier: Apache-2.0
#include "kernels/condition_kernel.h"

// A file of its own: cudaGraphSetConditional is in libcudadevrt, so this one is compiled with -rdc=true and linked with
// -dlink. condition_record.cpp looks the kernel up by this name.

namespace reprise::backend {

extern "C" __global__ void reprise_set_condition(cudaGraphConditionalHandle handle, const std::uint32_t* flag,
                                                 LoopState* loop, std::uint32_t limit, std::uint32_t begins) {
  cudaGraphSetConditional(handle, next_condition(flag, loop, limit, begins));
}

}  // namespace reprise::backend
