// SPDX-License-Identifier: Apache-2.0
// Work on several streams, forked and joined by events, captured as one graph. Runs on any device, also without a GPU.
// Shows that eager work, replays and the host have the same result, and the cost of a run both ways.

#include <filesystem>
#include <optional>
#include <string>

#include "pipeline.h"
#include "reprise/reprise.h"
#include "support/program.h"

namespace multi_stream {
namespace {

using example::microseconds;
using example::say;

struct Options {
  std::optional<std::string> device;
  unsigned branches = 4;
  std::size_t values = 4096;
  std::filesystem::path dot;
};

bool run(const Options& options) {
  const reprise::Device device = options.device ? example::parse_device(*options.device) : reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  Pipeline pipeline(options.branches, options.values);
  say("device    {} ({})\n", device.str(), device.name());
  say("work      {} kernels on {} values: one, then {} branches of {}, then one\n", pipeline.kernels(), options.values,
      options.branches, Pipeline::rounds);

  pipeline.run(stream);
  bool right = pipeline.result(stream) == pipeline.expected();
  say("eager     {}\n", right ? "the same as on the host" : "NOT the same as on the host");

  reprise::CUDAGraph graph = reprise::capture([&](reprise::StreamRef captured) { pipeline.run(captured); });
  say("graph     {} nodes\n", graph.node_count());
  for (int i = 0; i < 3; ++i) {
    pipeline.forget_result(stream);
    graph.replay(stream);
    right &= pipeline.result(stream) == pipeline.expected();
  }
  say("replayed  {}\n", right ? "the same as on the host, three times" : "NOT the same as on the host");

  constexpr unsigned calls = 200;
  const double eager = microseconds(calls, [&] { pipeline.run(stream); });
  const double replay = microseconds(calls, [&] { graph.replay(stream); });
  say("time      {:.1f} us eager, {:.1f} us replayed, {:.2f} x\n", eager, replay, eager / replay);

  if (!options.dot.empty()) {
    graph.debug_dump(options.dot);
    say("picture   {}: dot -Tsvg makes a picture of it\n", options.dot.string());
  }
  return right;
}

}  // namespace
}  // namespace multi_stream

int main(int argc, char** argv) {
  multi_stream::Options options;
  CLI::App app("Work on several streams, forked and joined by events, captured as one graph and replayed.",
               "multi_stream");
  app.add_option("--device", options.device,
                 "Where to run: host, cuda, cuda:1, ... (default: the first CUDA device, or "
                 "else the simulated host device)")
      ->type_name("DEVICE");
  app.add_option("--branches", options.branches, "Branches between fork and join")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 64));
  app.add_option("--values", options.values, "Values that each kernel works on")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--dot", options.dot, "Where to write the graph in Graphviz's language")->type_name("FILE");
  return example::run(app, argc, argv, [&] { return multi_stream::run(options); });
}
