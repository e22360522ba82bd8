// SPDX-License-Identifier: Apache-2.0
#include "small_kernels.h"

#include <stdexcept>

#include "reprise/kernel.h"
#include "reprise/philox.h"

// A file of its own, so that the compiler for kernels sees nothing else.

namespace benchmarks {
namespace {

struct Increment {
  REPRISE_KERNEL void operator()(reprise::Thread t, float* values) const { values[t.global_x()] += 1; }
};

// A number for each value, of the thread that it belongs to.
struct Randomize {
  REPRISE_KERNEL void operator()(reprise::Thread t, reprise::PhiloxState state, float* values) const {
    values[t.global_x()] += reprise::Philox(state, t.global_x()).uniform();
  }
};

}  // namespace

void launch_small_kernels(unsigned count, float* values) {
  const auto config = reprise::LaunchConfig::cover(small_kernel_values, small_kernel_values);
  for (unsigned i = 0; i < count; ++i) reprise::launch(config, Increment{}, values);
}

#ifdef __CUDACC__
namespace {
__global__ void increment(float* values) {
  values[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}
}  // namespace

void launch_plain_kernels(unsigned count, float* values) {
  cudaStream_t const stream = reprise::current_stream().native();
  for (unsigned i = 0; i < count; ++i) increment<<<1, small_kernel_values, 0, stream>>>(values);
  if (const cudaError_t error = cudaPeekAtLastError(); error != cudaSuccess)
    throw std::runtime_error(cudaGetErrorString(error));
}

std::string nvcc_release() {
  return std::to_string(__CUDACC_VER_MAJOR__) + "." + std::to_string(__CUDACC_VER_MINOR__);
}
#else
void launch_plain_kernels(unsigned /*count*/, float* /*values*/) {
  throw std::logic_error("no nvcc compiled the kernels");
}

std::string nvcc_release() {
  return {};
}
#endif

void launch_marked_kernels(std::span<const reprise::Parameter<float*>> values) {
  const auto config = reprise::LaunchConfig::cover(small_kernel_values, small_kernel_values);
  for (const reprise::Parameter<float*>& each : values) reprise::launch(config, Increment{}, each);
}

void launch_drawing_kernels(unsigned count, float* values, const reprise::Generator& generator) {
  const auto config = reprise::LaunchConfig::cover(small_kernel_values, small_kernel_values);
  for (unsigned i = 0; i < count; ++i) reprise::launch(config, Randomize{}, generator.philox_state(1), values);
}

}  // namespace benchmarks
