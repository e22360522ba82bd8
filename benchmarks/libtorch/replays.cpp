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

struct Compared {
  Samples bare, ours, their_bare, theirs;
};

void print_row(unsigned kernels, const char* kind, const Compared& us, bool has_theirs) {
  const double bare = us.bare.median(), ours = us.ours.median();
  print("  {:>7}  {:<8} {:>8.2f} {:>8.2f} {:>+8.1f} % {:>+8.0f} ns ", kernels, kind, bare, ours,
        100 * (ours - bare) / bare, 1e3 * (ours - bare));
  if (has_theirs)
    print("{:>8.2f} {:>10.2f}\n", us.their_bare.median(), us.theirs.median());
  else
    print("{:>8} {:>10}\n", "-", "-");
}

void compare(const Settings& settings, const reprise::StreamRef& stream, unsigned kernels, const torch::Tensor& x) {
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
  Compared compared[2];
  std::vector<Samples*> samples;
  for (int i = 0; i < 2; ++i) {
    bodies[i]();  // once eagerly
    reprise::capture(ours[i], bodies[i]);
    sides.push_back(bare_launch(settings.device, ours[i].raw_cuda_graph_exec(), stream.native()));
    samples.push_back(&compared[i].bare);
    sides.emplace_back([&graph = ours[i]] { graph.replay(); });
    samples.push_back(&compared[i].ours);
    if (!has_theirs) continue;
    capture_theirs(theirs[i].emplace(), bodies[i]);
    sides.push_back(bare_launch(settings.device, theirs[i]->raw_cuda_graph_exec(), stream.native()));
    samples.push_back(&compared[i].their_bare);
    sides.emplace_back([&graph = *theirs[i]] { graph.replay(); });
    samples.push_back(&compared[i].theirs);
  }
  for (unsigned round = 0; round <= settings.rounds; ++round)
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::size_t side = turn_of(round, i, sides.size());
      const double took = submit_seconds(stream, sides[side]);
      if (round > 0) samples[side]->add(1e6 * took);  // the first one warms up
    }
  print_row(kernels, "none", compared[0], has_theirs);
  print_row(kernels, "drawn", compared[1], has_theirs);
}

}  // namespace

void replays(const Settings& settings) {
  const torch::Device device = tensor_device(settings);
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  const torch::Tensor x = torch::zeros({256}, device);
  print("Replays of small kernels of tensors, the host's part, us a replay\n");
  print("  {:>7}  {:<8} {:>8} {:>8} {:>10} {:>11} {:>8} {:>10}\n", "kernels", "random", "bare", "replay", "over",
        "over", "bare", "CUDAGraph");
  for (const unsigned kernels : {1U, 10U, 100U}) compare(settings, stream, kernels, x);
}

}  // namespace benchmarks
