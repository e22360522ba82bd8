// SPDX-License-Identifier: Apache-2.0
// The host's cost of a replay of a graph of tensors, without and with random numbers: a bare launch of the executable,
// libtorch's own graphs, and this library's.

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <optional>
#include <vector>

#include "libtorch/benchmarks.h"
#include "reprise/libtorch/graph.h"
#include "submit.h"

namespace benchmarks {
namespace {

// A graph of libtorch's own for the same work.
void capture_theirs(at::cuda::CUDAGraph& graph, const std::function<void()>& body) {
  torch::cuda::synchronize();
  const c10::StreamGuard guard(c10::cuda::getStreamFromPool());
  graph.capture_begin();
  body();
  graph.capture_end();
}

void compare(const Settings& settings, const reprise::StreamRef& stream, unsigned kernels, const torch::Tensor& x,
             Table& table) {
  const std::function<void()> bodies[] = {
      [&] {
        for (unsigned i = 0; i < kernels; ++i) x.add_(1);
      },
      [&] {
        for (unsigned i = 0; i < kernels; ++i) x.uniform_();
      },
  };
  const bool has_theirs = x.is_cuda();
  reprise::CUDAGraph ours[2];
  std::optional<at::cuda::CUDAGraph> theirs[2];
  std::vector<std::function<void()>> sides;
  for (int i = 0; i < 2; ++i) {
    bodies[i]();  // once eagerly
    reprise::capture(ours[i], bodies[i]);
    sides.push_back(bare_launch(settings.device, ours[i].raw_cuda_graph_exec(), stream.native()));
    sides.emplace_back([&graph = ours[i]] { graph.replay(); });
    if (!has_theirs) continue;
    capture_theirs(theirs[i].emplace(), bodies[i]);
    sides.push_back(bare_launch(settings.device, theirs[i]->raw_cuda_graph_exec(), stream.native()));
    sides.emplace_back([&graph = *theirs[i]] { graph.replay(); });
  }
  const std::vector<double> us =
      medians(settings, sides.size(), [&](std::size_t side) { return 1e6 * submit_seconds(stream, sides[side]); });
  const char* const kinds[] = {"none", "drawn"};
  for (std::size_t i = 0; i < 2; ++i) {
    const double* const at = us.data() + i * sides.size() / 2;
    table.row({1.0 * kernels, kinds[i], at[0], at[1], 1e3 * (at[1] - at[0]), 100 * (at[1] - at[0]) / at[0],
               has_theirs ? Cell(at[2]) : Cell(), has_theirs ? Cell(at[3]) : Cell()});
  }
}

}  // namespace

void replays(const Settings& settings) {
  const torch::Device device = tensor_device(settings);
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  const torch::Tensor x = torch::zeros({256}, device);
  Table table(settings, "tensor_replays", "Replays of small kernels of tensors, the host's part",
              {{"kernels", "", 0},
               {"random"},
               {"bare", "us"},
               {"replay", "us"},
               {"over bare", "ns", 0},
               {"over bare", "%", 1},
               {"bare, theirs", "us"},
               {"at::cuda::CUDAGraph", "us"}});
  for (const unsigned kernels : {1U, 10U, 100U}) compare(settings, stream, kernels, x, table);
}

}  // namespace benchmarks
