// SPDX-License-Identifier: Apache-2.0
// An all-reduce of NCCL over all GPUs of the machine, from one process, captured as one graph: the streams of all
// devices are forked from the first one and joined again. Replayed with changing inputs, and checked. With one GPU
// there is one rank, and nothing to reduce, but the program runs.

#include <cstddef>
#include <vector>

#include "ranks.h"
#include "reprise/reprise.h"
#include "support/program.h"

namespace nccl_allreduce {
namespace {

using example::microseconds;
using example::say;

bool run(std::size_t values) {
  const std::vector<reprise::Device> devices = example::require_cuda_devices("NCCL");
  for (const reprise::Device device : devices) say("GPU       {} ({})\n", device.str(), device.name());
  Ranks ranks(devices, values);
  const reprise::StreamGuard guard(ranks.first_stream());
  const double bytes = static_cast<double>(values * sizeof(float));
  say("sum       {} floats, {:.1f} MiB, over {} rank{}\n", values, bytes / (1 << 20), ranks.count(),
      ranks.count() == 1 ? "" : "s");

  // Once eagerly: NCCL connects the ranks at the first call, which is not possible in a capture.
  ranks.prepare(0);
  ranks.all_reduce();
  bool right = ranks.correct(0);
  say("eager     {}\n", right ? "right" : "WRONG");

  reprise::GraphOptions options;
  options.stream = ranks.first_stream();
  options.capture_error_mode = reprise::CaptureMode::thread;  // does not restrict NCCL's own threads
  // Destroyed before the communicators.
  reprise::CUDAGraph graph = reprise::capture(options, [&] { ranks.all_reduce(); });
  say("graph     {} nodes\n", graph.node_count());

  constexpr unsigned rounds = 5;
  for (unsigned round = 1; round <= rounds; ++round) {
    ranks.prepare(round);
    graph.replay();
    right &= ranks.correct(round);
  }
  say("replayed  {} times with new inputs: {}\n", rounds, right ? "right" : "WRONG");

  constexpr unsigned calls = 100;
  const double eager = microseconds(calls, [&] { ranks.all_reduce(); });
  const double replay = microseconds(calls, [&] { graph.replay(); });
  say("time      {:.1f} us eager, {:.1f} us replayed: {:.1f} GB/s of each rank's array\n", eager, replay,
      bytes / replay / 1e3);
  return right;
}

}  // namespace
}  // namespace nccl_allreduce

int main(int argc, char** argv) {
  std::size_t values = std::size_t{1} << 24;
  CLI::App app("An all-reduce of NCCL over all GPUs of the machine, captured as one graph and replayed.",
               "nccl_allreduce");
  app.add_option("--values", values, "How many floats each rank has")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
  return example::run(app, argc, argv, [&] { return nccl_allreduce::run(values); });
}
