// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_abi/side.inc"

namespace reprise::test {

static __global__ void add_tag(int tag, int* x, std::size_t n) {
  const std::size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += tag;
}

template <class T>
__global__ void add_tag_by_shared_memory(T tag, T* x, std::size_t n) {
  extern __shared__ T tags[];
  tags[threadIdx.x] = tag;
  const std::size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += tags[threadIdx.x];
}

void launch_global_function(const StreamRef& stream, int tag, int* x, std::size_t n) {
  reprise::launch(stream, LaunchConfig::cover(n, static_cast<unsigned>(block_threads)), add_tag, tag, x, n);
}

void launch_global_template(int tag, int* x, std::size_t n) {
  LaunchConfig config = LaunchConfig::cover(n, static_cast<unsigned>(block_threads));
  config.shared_bytes = static_cast<unsigned>(block_threads * sizeof(int));
  reprise::launch(config, add_tag_by_shared_memory<int>, tag, x, n);
}

Side side_of_nvcc() {
  return make_side("nvcc");
}

}  // namespace reprise::test
