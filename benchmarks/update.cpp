// SPDX-License-Identifier: Apache-2.0
// The cost of updating the executable of a graph to another capture, beside the device runtime's bare update and beside
// making a new executable; and of capturing again with an update in place. Each kernel of both captures has other
// parameters; in a further update, one alone.

#include <functional>
#include <iterator>

#include "backend/backend.h"
#include "backend/check.h"
#include "small_kernels.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::backend::Checked;

/// Two kept captures of small kernels on buffers of their own.
struct Captures {
  explicit Captures(unsigned count) : kernels(count) {
    for (int i = 0; i < 2; ++i) {
      values[i].fill_bytes_async(0);
      reprise::capture(graphs[i], [&] { launch_small_kernels(kernels, values[i].data()); });
    }
    graphs[0].instantiate();
  }

  const unsigned kernels;
  reprise::Buffer<float> values[2] = {reprise::Buffer<float>(small_kernel_values),
                                      reprise::Buffer<float>(small_kernel_values)};
  reprise::CUDAGraph graphs[2] = {reprise::CUDAGraph(reprise::KeepGraph::yes),
                                  reprise::CUDAGraph(reprise::KeepGraph::yes)};
};

void compare(const Settings& settings, unsigned kernels, Table& table) {
  const Checked runtime(settings.device.backend());
  Captures bare(kernels);
  const reprise::GraphHandle templates[2] = {bare.graphs[0].raw_cuda_graph(), bare.graphs[1].raw_cuda_graph()};
  reprise::GraphExecHandle exec = nullptr;
  runtime.graph_instantiate(&exec, templates[0], reprise::InstantiateFlags::none, nullptr);

  reprise::Buffer<float> values[2] = {reprise::Buffer<float>(small_kernel_values),
                                      reprise::Buffer<float>(small_kernel_values)};
  reprise::CUDAGraph graph, others[2], recaptured, changed_in_one, one_differs;
  const auto capture_into = [&](reprise::CUDAGraph& made, int i) {
    reprise::capture(made, [&] { launch_small_kernels(kernels, values[i].data()); });
  };
  capture_into(graph, 0), capture_into(others[0], 0), capture_into(others[1], 1), capture_into(recaptured, 0);
  capture_into(changed_in_one, 0);
  reprise::capture(one_differs, [&] {
    launch_small_kernels(kernels - 1, values[0].data());
    launch_small_kernels(1, values[1].data());
  });

  int next = 0;  // the other one of two each time
  const std::function<void()> instantiate = [&] {
    reprise::GraphExecHandle made = nullptr;
    runtime.graph_instantiate(&made, templates[0], reprise::InstantiateFlags::none, nullptr);
    runtime.graph_exec_destroy(made);
  };
  const std::function<void()> update_bare = [&] {
    reprise::backend::UpdateInfo info;
    runtime.graph_exec_update(exec, templates[next ^= 1], &info);
  };
  const std::function<void()> update = [&] { graph.update(others[next ^= 1]); };
  bool differs = false;
  const std::function<void()> update_one = [&] {
    differs = !differs;
    changed_in_one.update(differs ? one_differs : others[0]);
  };
  const std::function<void()> capture_anew = [&] {
    reprise::CUDAGraph made;
    capture_into(made, next ^= 1);
  };
  const std::function<void()> recapture = [&] {
    next ^= 1;
    recaptured.recapture([&] { launch_small_kernels(kernels, values[next].data()); });
  };

  const std::function<void()>* const calls[] = {&instantiate,  &update_bare, &update,
                                                &capture_anew, &recapture,   &update_one};
  const unsigned repeats = kernels < 1000 ? 20 : 5;
  const std::vector<double> us = medians(settings, std::size(calls), [&](std::size_t side) {
    const double time = seconds([&] {
      for (unsigned k = 0; k < repeats; ++k) (*calls[side])();
    });
    return 1e6 * time / repeats;
  });
  runtime.graph_exec_destroy(exec);
  table.row({1.0 * kernels, us[0], us[1], us[2], us[3], us[4], us[5]});
}

}  // namespace

void update(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table table(settings, "update", "A new executable, and updates to another capture; \"bare\" are calls of the runtime",
              {{"kernels", "", 0},
               {"bare instantiate", "us", 1},
               {"bare update", "us", 1},
               {"update()", "us", 1},
               {"capture, instantiate", "us", 1},
               {"recapture()", "us", 1},
               {"update(), one node differs", "us", 1}});
  for (const unsigned kernels : {1U, 10U, 100U, 1000U}) compare(settings, kernels, table);
}

}  // namespace benchmarks
