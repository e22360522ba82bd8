// SPDX-License-Identifier: Apache-2.0
// The cost of capturing a graph of small kernels, and of destroying it.

#include "small_kernels.h"
#include "support.h"

namespace benchmarks {
namespace {

void measure(const Settings& settings, unsigned kernels) {
  reprise::Buffer<float> values(small_kernel_values);
  Samples capture, instantiate, first_replay, reset;
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    // The first round warms up and is discarded.
    if (round == 1) capture = instantiate = first_replay = reset = {};
    reprise::CUDAGraph graph(reprise::KeepGraph::yes);
    capture.add(seconds([&] {
      graph.capture_begin();
      launch_small_kernels(kernels, values.data());
      graph.capture_end();
    }));
    instantiate.add(seconds([&] { graph.instantiate(); }));
    first_replay.add(seconds([&] { graph.replay(); }));
    reprise::current_stream().synchronize();
    reset.add(seconds([&] { graph.reset(); }));
  }
  const auto us = [](const Samples& samples) { return 1e6 * samples.median(); };
  print("{:>7}  {:>10.1f} {:>12.1f} {:>13.1f} {:>10.1f} {:>24.3f}\n", kernels, us(capture), us(instantiate),
        us(first_replay), us(reset), (us(capture) + us(instantiate)) / kernels);
}

}  // namespace

void capture(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("Making a graph of small kernels, us of the host\n");
  print("{:>7}  {:>10} {:>12} {:>13} {:>10} {:>24}\n", "kernels", "capture", "instantiate", "first replay", "reset",
        "capture + inst. a kernel");
  for (const unsigned kernels : {1U, 100U, 1000U}) measure(settings, kernels);
}

}  // namespace benchmarks
