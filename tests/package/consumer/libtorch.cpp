// SPDX-License-Identifier: Apache-2.0
// Uses the component libtorch: a module on the host device, as a graph.

#include <torch/nn/modules/linear.h>

#include <cstdio>

#include <reprise/libtorch/graphed_callables.h>
#include <reprise/libtorch/host_device.h>
#include <reprise/version.h>

int main() {
  const torch::Device device = reprise::libtorch::host_device();
  torch::nn::Linear layer(8, 4);
  layer->to(device);
  const torch::Tensor x = torch::rand({16, 8}, device);
  const auto graphed = reprise::libtorch::make_graphed_callables(layer, x);
  const bool equal = torch::equal(graphed(x).cpu(), layer->forward(x).cpu());
  std::printf("graphed and eager results of reprise %s are %s\n", REPRISE_VERSION, equal ? "equal" : "not equal");
  return equal ? 0 : 1;
}
