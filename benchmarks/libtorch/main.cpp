// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>

#include "libtorch/benchmarks.h"
#include "reprise/libtorch/graph.h"
#include "reprise/libtorch/host_device.h"
#include "run.h"

namespace benchmarks {

torch::Device tensor_device(const Settings& settings) {
  const int index = settings.device.index();
  if (settings.device.type() == reprise::DeviceType::host) return reprise::libtorch::host_device(index);
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // as the first tensor would: not every part makes one
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace benchmarks

namespace {

constexpr benchmarks::Benchmark all[] = {
    {"operators", "operators on tensors of the host device beside the CPU's", benchmarks::operators_of_host_device},
    {"replays", "replays beside bare launches and at::cuda::CUDAGraph", benchmarks::replays},
    {"graphed", "graphed callables beside bare launches of their graphs", benchmarks::graphed},
    {"steps", "whole training steps: eager, graphed callables, one graph, bare launches of it", benchmarks::steps},
    {"allocator", "the caching allocator beside libtorch's, with several threads", benchmarks::tensor_allocator},
};

}  // namespace

int main(int argc, char** argv) {
  return benchmarks::main_of({"reprise_libtorch_benchmarks", all}, argc, argv);
}
