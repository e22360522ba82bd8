// SPDX-License-Identifier: Apache-2.0
// What a step of many small kernels costs: each kernel launched by itself, the step replayed as a graph, and the same
// executable graph launched by a bare call of the device runtime.

#include <functional>
#include <iterator>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::StreamRef;

/// Both in seconds a step.
struct Cost {
  Samples submit;  ///< until the host has handed the step over
  Samples done;    ///< until the device is done
};

/// Steps follow each other without a pause, and the device is waited for once at the end.
template <class F>
void measure(Cost& cost, unsigned steps, const StreamRef& stream, F&& step) {
  stream.synchronize();
  double submit = 0;
  const double done = seconds([&] {
    submit = seconds([&] {
      for (unsigned i = 0; i < steps; ++i) step();
    });
    stream.synchronize();
  });
  cost.submit.add(submit / steps);
  cost.done.add(done / steps);
}

void compare(const Settings& settings, const StreamRef& stream, unsigned kernels) {
  reprise::Buffer<float> values(small_kernel_values);
  values.fill_bytes(0);
  const auto eager = [&] { launch_small_kernels(kernels, values.data()); };
  reprise::CUDAGraph graph;
  reprise::capture(graph, {}, eager);
  reprise::backend::Backend& backend = settings.device.backend();
  const auto bare = [&, exec = graph.raw_cuda_graph_exec(), native = stream.native()] {
    reprise::backend::check(backend, reprise::backend::Call::graph_launch, backend.graph_launch(exec, native));
  };

  const unsigned steps = std::clamp(5000 / kernels, 10U, 500U);
  Cost by_launches, by_replay, by_runtime;
  const std::function<void()> turns[] = {
      [&] { measure(by_launches, steps, stream, eager); },
      [&] { measure(by_replay, steps, stream, [&] { graph.replay(); }); },
      [&] { measure(by_runtime, steps, stream, bare); },
  };
  // The first round warms up and is thrown away. Each round begins with another side, since a side finds the caches as
  // the one before it left them.
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    if (round == 1) by_launches = by_replay = by_runtime = {};
    for (unsigned i = 0; i < std::size(turns); ++i) turns[(round + i) % std::size(turns)]();
  }
  const auto us = [](const Samples& samples) { return 1e6 * samples.median(); };
  print("{:>7}  {:>10.2f} {:>10.2f} {:>10.2f}  {:>10.2f} {:>10.2f} {:>10.2f}\n", kernels, us(by_launches.submit),
        us(by_replay.submit), us(by_runtime.submit), us(by_launches.done), us(by_replay.done), us(by_runtime.done));
}

}  // namespace

void replay(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("A step of small kernels, us a step; \"bare\" is the runtime's graph launch of the same executable graph\n");
  print("{:>7}  {:^32}  {:^32}\n", "", "the host's part", "until the device is done");
  print("{:>7}  {:>10} {:>10} {:>10}  {:>10} {:>10} {:>10}\n", "kernels", "eager", "replay", "bare", "eager", "replay",
        "bare");
  for (const unsigned kernels : {1U, 10U, 100U, 1000U}) compare(settings, stream, kernels);
}

}  // namespace benchmarks
