// SPDX-License-Identifier: Apache-2.0
// A model that generates tokens: captured kernels around a choice on the host, which reads the scores of each step and
// which no graph can hold. Shows that the captured step chooses the same tokens as the eager one, and the cost of a
// step of each. Runs on any device, also without a GPU.

#include <optional>
#include <string>
#include <vector>

#include "model.h"
#include "reprise/reprise.h"
#include "support/program.h"

namespace eager_parts {
namespace {

using example::microseconds;
using example::say;

struct Options {
  std::optional<std::string> device;
  unsigned tokens = 32;
  unsigned seed = 1;
  Shape shape;
};

/// A sequence, and the step that makes its next token.
struct Sequence {
  explicit Sequence(const Options& options) : model(options.shape), sampler(options.seed) {}

  void step() {
    model.score();
    const reprise::Buffer<int> token = reprise::eager([this] { return sampler.choose(model.scores()); });
    model.append(token);
  }

  Model model;
  Sampler sampler;
};

void say_times(Sequence& eager, Sequence& captured, reprise::BreakableGraph& graph) {
  constexpr unsigned calls = 50;
  const double by_launches = microseconds(calls, [&] { eager.step(); });
  const double by_segments = microseconds(calls, [&] { graph.replay(); });
  const double of_choice = microseconds(calls, [&] { captured.sampler.choose(captured.model.scores()); });
  say("time      {:.1f} us a token eagerly, {:.1f} us replayed; {:.1f} us of each are the choice on the host\n",
      by_launches, by_segments, of_choice);
}

bool run(const Options& options) {
  const reprise::Device device = options.device ? example::parse_device(*options.device) : reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  say("device    {} ({})\n", device.str(), device.name());
  say("step      {} kernels and copies, a choice among {} tokens on the host, one kernel\n",
      2 * options.shape.layers + 1, options.shape.vocabulary);

  Sequence eager(options), captured(options);
  reprise::BreakableGraph graph = reprise::breakable({.name = "step"}, [&] { captured.step(); });  // the first token
  std::size_t nodes = 0;
  for (std::size_t i = 0; i < graph.segment_count(); ++i) nodes += graph.segment(i).node_count();
  say("graph     {} segments of {} nodes, {} eager part\n", graph.segment_count(), nodes, graph.segment_count() - 1);
  for (unsigned token = 0; token < options.tokens; ++token) {
    eager.step();  // outside of a capture, eager() calls its function
    if (token > 0) graph.replay();
  }
  const bool same = eager.sampler.chosen() == captured.sampler.chosen();
  say("tokens    {}\n", fmt::join(captured.sampler.chosen(), " "));
  say("captured  {}\n", same ? "the same tokens as eagerly" : "NOT the same tokens as eagerly");
  say_times(eager, captured, graph);
  return same;
}

}  // namespace
}  // namespace eager_parts

int main(int argc, char** argv) {
  eager_parts::Options options;
  CLI::App app("A captured step around a choice on the host, by breakable() and eager().", "eager_parts");
  app.add_option("--device", options.device,
                 "Where to run: host, cuda, cuda:1, ... (default: the first CUDA device, or "
                 "else the simulated host device)")
      ->type_name("DEVICE");
  app.add_option("--tokens", options.tokens, "Tokens to generate")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 100000));
  app.add_option("--layers", options.shape.layers, "Layers of the model")
      ->capture_default_str()
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seed", options.seed, "Seed of the choice")->capture_default_str()->type_name("SEED");
  return example::run(app, argc, argv, [&] { return eager_parts::run(options); });
}
