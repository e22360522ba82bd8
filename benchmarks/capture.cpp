// SPDX-License-Identifier: Apache-2.0
// The cost of capturing a graph of small kernels, and of destroying it, beside the bare calls of the device runtime
// that do the same.

#include <algorithm>
#include <array>
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

/// Costs of one side, in us: begin, kernels, end, instantiation; destruction of template and executable.
using Cost = std::array<double, 2>;

/// Makes and destroys graphs, one after the other.
template <class Make, class Destroy>
Cost measure(unsigned graphs, Make&& make, Destroy&& destroy) {
  double making = 0, destroying = 0;
  for (unsigned i = 0; i < graphs; ++i) {
    making += seconds(make);
    destroying += seconds(destroy);
  }
  return {1e6 * making / graphs, 1e6 * destroying / graphs};
}

void compare(const Settings& settings, const reprise::StreamRef& stream, unsigned kernels, Table& table) {
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

  const auto replay_first = [&]() -> Cost {
    capture();
    const double replay = seconds([&] { graph.replay(); });
    stream.synchronize();
    reset();
    return {1e6 * replay, 0};
  };

  const unsigned graphs = std::max(1U, 200 / kernels);
  const std::function<Cost()> sides[] = {
      [&] { return measure(graphs, capture, reset); },
      [&] { return measure(graphs, capture_bare, destroy_bare); },
      replay_first,
  };
  const auto us = medians_of<2>(settings, std::size(sides), [&](std::size_t side) { return sides[side](); });
  table.row({1.0 * kernels, us[0][0], us[1][0], us[0][0] / us[1][0], us[0][0] / kernels, us[0][1], us[1][1], us[2][0]});
}

}  // namespace

void capture(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "capture",
              "Making and destroying a graph of small kernels, the host's time; \"bare\" are the runtime's calls alone",
              {{"kernels", "", 0},
               {"capture and instantiate", "us"},
               {"bare", "us"},
               {"ratio"},
               {"a kernel", "us", 3},
               {"reset", "us"},
               {"bare", "us"},
               {"first replay", "us"}});
  for (const unsigned kernels : {1U, 10U, 100U, 1000U, 10000U}) compare(settings, stream, kernels, table);
}

}  // namespace benchmarks
