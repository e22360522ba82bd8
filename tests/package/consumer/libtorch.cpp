// SPDX-License-Identifier: Apache-2.0
// Uses the component libtorch: tensors on the host device, and a graph of their operators.

#include <ATen/ATen.h>
#include <cstdio>

#include <reprise/libtorch/host_device.h>
#include <reprise/reprise.h>

int main() {
  const c10::Device device = reprise::libtorch::host_device();
  at::Tensor x = at::ones({4}, device);
  const reprise::Stream stream(reprise::Device::parse("host"));
  const reprise::StreamGuard guard(stream);
  reprise::CUDAGraph graph;
  reprise::capture(graph, {}, [&] { x.mul_(2); });
  for (int i = 0; i < 10; ++i) graph.replay();
  std::printf("%zu node, ten replays on %s: %g\n", graph.node_count(), device.str().c_str(), x[0].item<double>());
}
