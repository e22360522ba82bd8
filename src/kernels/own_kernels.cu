// SPDX-License-Identifier: Apache-2.0
#include "kernels/advance_kernel.h"
#include "kernels/batch_kernels.h"

// The library's own kernels for CUDA, one file for nvcc. Their bodies are shared with the host device; batch.cpp and
// capture_draws.cpp look them up by these names.

namespace reprise {
namespace memory {

__device__ inline Block this_block() {
  return Block(Dim3(blockIdx.x), Dim3(blockDim.x), Dim3(gridDim.x), nullptr, 0);
}

extern "C" __global__ void __launch_bounds__(batch_block_threads)
    reprise_copy_batch(const __grid_constant__ CopyTable table) {
  Block block = this_block();
  copy_chunk(block, table);
}

extern "C" __global__ void __launch_bounds__(batch_block_threads)
    reprise_fill_batch(const __grid_constant__ FillTable table) {
  Block block = this_block();
  fill_chunk(block, table);
}

}  // namespace memory

namespace random {

extern "C" __global__ void reprise_advance_random(GraphRngState* words, Advance by) {
  advance(words, by);
}

extern "C" __global__ void reprise_derive_random(GraphRngState* words, const GraphRngState* parent, std::uint64_t drawn,
                                                 const std::uint32_t* iteration, std::uint64_t each) {
  derive(words, parent, drawn, iteration, each);
}

}  // namespace random
}  // namespace reprise
