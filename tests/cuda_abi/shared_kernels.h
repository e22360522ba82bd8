// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "reprise/kernel.h"
#include "reprise/stream.h"

// Kernels that are launched from a file compiled by nvcc and from one compiled by the host compiler. Both files
// instantiate the same templates, with bodies that differ; the linker must keep both.

namespace reprise::test {

/// x[i] = 10 * i + tag
struct Tag {
  REPRISE_KERNEL void operator()(Thread t, int tag, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] = static_cast<int>(10 * t.global_x()) + tag;
  }
};

/// sums[block] = tag + the sum of the block's part of x, by way of shared memory
struct SumBlocks {
  REPRISE_KERNEL void operator()(Block& block, int tag, const int* x, int* sums) const {
    int* sum = block.shared<int>(1);
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) *sum = tag;
    });
    block.for_each_thread([&](const Thread& t) { atomic_add(sum, x[t.global_x()]); });
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) sums[t.block_idx.x] = *sum;
    });
  }
};

constexpr std::size_t blocks = 3;
constexpr std::size_t block_threads = 64;
constexpr std::size_t threads = blocks * block_threads;

/// What one of the two files did, seen from it.
struct Side {
  const char* compiler;     ///< of that file
  const KernelRecord* tag;  ///< its record of Tag
  bool has_cuda_function;   ///< true if that file finds Tag on a CUDA device
  void (*launch)(const StreamRef& stream, int tag, int* x, int* sums);  ///< launches both kernels there
};

/// Launches a `__global__` function, which only nvcc can compile: x[i] += tag, for i below n.
void launch_global_function(const StreamRef& stream, int tag, int* x, std::size_t n);
/// The same, on the current stream, by an instance of a template with `extern __shared__` memory.
void launch_global_template(int tag, int* x, std::size_t n);

Side side_of_nvcc();
Side side_of_host_compiler();

}  // namespace reprise::test
