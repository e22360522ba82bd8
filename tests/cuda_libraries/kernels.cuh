// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels that several tests launch. Included by files that nvcc compiles as one (CMakeLists.txt).

namespace reprise::test {
namespace {

constexpr unsigned n = 256;  // elements of most buffers

__global__ void add_plainly(int* x, int amount, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += amount;
}

}  // namespace
}  // namespace reprise::test
