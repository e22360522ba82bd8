// SPDX-License-Identifier: Apache-2.0
// The cost of capturing a graph of small kernels, and of destroying it, beside the bare calls of the device runtime
// that do the same.

#include <algorithm>
#include <functional>
#include <iterator>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::backend::Checked;

/// Of one side, in seconds.
struct Cost {
  Samples make;     ///< begin, kernels, end, instantiation
  Samples destroy;  ///< of template and executable
};

/// Makes and destroys graphs, one after the other.
template <class Make, class Destroy>
void measure(Cost& cost, unsigned graphs, Make&& make, Destroy&& destroy) {
  double making = 0, destroying = 0;
  for (unsigned i = 0; i < graphs; ++i) {
    making += seconds(make);
    destroying += seconds(destroy);
  }
  cost.make.add(making / graphs);
  cost.destroy.add(destroying / graphs);
}

void compare(const Settings& settings, const reprise::StreamRef& stream, unsigned kernels) {
  reprise::Buffer<float> values(small_kernel_values);
  const auto launch = [&] { launch_small_kernels(kernels, values.data()); };

  reprise::CUDAGraph graph;
  const auto capture = [&] {
    graph.capture_begin();
    launch();
    graph.capture_end();
  };
  const auto reset = [&] { graph.reset(); };

  const Checked runtime(settings.device.backend());
  reprise::GraphHandle template_graph = nullptr;
  reprise::GraphExecHandle exec = nullptr;
  const auto capture_bare = [&] {
    runtime.stream_begin_capture(stream.native(), reprise::CaptureMode::global);
    launch();
    runtime.stream_end_capture(stream.native(), &template_graph);
    runtime.graph_instantiate(&exec, template_graph, reprise::InstantiateFlags::none, nullptr);
  };
  const auto destroy_bare = [&] {
    runtime.graph_exec_destroy(exec);
    runtime.graph_destroy(template_graph);
  };

  const unsigned graphs = std::max(1U, 200 / kernels);
  Cost library, bare;
  Samples first_replay;
  const std::function<void()> turns[] = {
      [&] { measure(library, graphs, capture, reset); },
      [&] { measure(bare, graphs, capture_bare, destroy_bare); },
  };
  // The first round warms up and is discarded.
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    if (round == 1) library = bare = {}, first_replay = {};
    for (unsigned i = 0; i < std::size(turns); ++i) turns[turn_of(round, i, std::size(turns))]();
    capture();
    first_replay.add(seconds([&] { graph.replay(); }));
    stream.synchronize();
    reset();
  }
  const auto us = [](const Samples& samples) { return 1e6 * samples.median(); };
  print("{:>7}  {:>10.2f} {:>10.2f} {:>13.2f} {:>10.3f}  {:>10.2f} {:>10.2f}  {:>12.2f}\n", kernels, us(library.make),
        us(bare.make), us(library.make) / us(bare.make), us(library.make) / kernels, us(library.destroy),
        us(bare.destroy), us(first_replay));
}

}  // namespace

void capture(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("Making a graph of small kernels, us of the host; \"bare\" are the runtime's calls alone\n");
  print("{:>7}  {:^46}  {:^21}\n", "", "capture and instantiation", "destruction");
  print("{:>7}  {:>10} {:>10} {:>13} {:>10}  {:>10} {:>10}  {:>12}\n", "kernels", "capture", "bare", "capture/bare",
        "a kernel", "reset", "bare", "first replay");
  for (const unsigned kernels : {1U, 10U, 100U, 1000U}) compare(settings, stream, kernels);
}

}  // namespace benchmarks
