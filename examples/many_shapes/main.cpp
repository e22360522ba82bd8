// SPDX-License-Identifier: Apache-2.0
// A model that is served with sequences of many lengths: eagerly, with a graph for each length, and with a cache of
// graphs, whose keys are the lengths themselves or lengths that are rounded up. Runs on any device, also without a GPU.
// Shows that all have the same results, and the time and the memory of each; --svg draws them.

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "plot.h"
#include "reprise/reprise.h"
#include "sequence_model.h"
#include "support/program.h"

namespace many_shapes {
namespace {

using example::say;
using reprise::Buffer;
using reprise::DeviceView;
using reprise::GraphCache;

struct Options {
  std::optional<std::string> device;
  std::optional<std::string> svg;
  std::size_t lengths = 67;
  std::size_t entries = 67;
  std::size_t rounds = 10;
  std::size_t layers = 8;
  std::size_t width = 16;
};

/// A way to serve a sequence.
class Server {
 public:
  virtual ~Server() = default;
  virtual std::vector<float> serve(const Buffer<float>& tokens, std::size_t length) = 0;
  virtual std::size_t graphs() const { return 0; }

 protected:
  Server() = default;
  Server(const Server&) = default;
  Server& operator=(const Server&) = default;
};

class EagerServer final : public Server {
 public:
  explicit EagerServer(const SequenceModel& model) : model_(model) {}
  std::vector<float> serve(const Buffer<float>& tokens, std::size_t length) override {
    return model_.forward(tokens, length).read();
  }

 private:
  const SequenceModel& model_;
};

/// A graph for each length, with memory of its own.
class GraphServer final : public Server {
 public:
  explicit GraphServer(const SequenceModel& model) : model_(model) {}
  std::vector<float> serve(const Buffer<float>& tokens, std::size_t length) override {
    Captured& captured = by_length_[length];
    if (captured.input.empty()) {
      captured.input = Buffer<float>(tokens.size());
      captured.graph =
          reprise::capture([&] { captured.result = model_.forward(DeviceView<float>(captured.input), length); });
    }
    reprise::copy_async(captured.input.data(), tokens.data(), tokens.size_bytes());
    captured.graph.replay();
    return captured.result.read();
  }
  std::size_t graphs() const override { return by_length_.size(); }

 private:
  struct Captured {
    Buffer<float> input, result;
    reprise::CUDAGraph graph;
  };
  const SequenceModel& model_;
  std::map<std::size_t, Captured> by_length_;
};

class CacheServer final : public Server {
 public:
  CacheServer(const SequenceModel& model, std::size_t entries, bool padded) : model_(model), padded_(padded) {
    cache_.emplace(reprise::GraphCacheOptions{.name = "model",
                                              .max_entries = entries,
                                              .capture_after = 0,  // eager runs before have warmed up
                                              .padding = [](std::size_t length) { return (length + 7) / 8 * 8; },
                                              .key_fields = {"length"}});
  }
  std::vector<float> serve(const Buffer<float>& tokens, std::size_t length) override {
    if (!padded_)
      return cache_
          ->run({length}, reprise::inputs(tokens),
                [&](DeviceView<const float> in) { return model_.forward(in, length); })
          .read();
    const auto body = [&](std::size_t rows, DeviceView<const float> in) { return model_.forward(in, rows); };
    return cache_->run_padded({}, length, reprise::inputs(tokens), body).read();
  }
  std::size_t graphs() const override { return cache_->size(); }
  std::string statistics() const { return cache_->statistics().str(); }

 private:
  const SequenceModel& model_;
  const bool padded_;
  std::optional<GraphCache> cache_;
};

/// What each round serves: every length once, in an order that is another one in each round.
std::vector<std::size_t> order_of(const Options& options, std::size_t round) {
  std::size_t step = 29;
  while (std::gcd(step, options.lengths) != 1) ++step;  // else it comes back before it was everywhere
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < options.lengths; ++i) lengths.push_back(1 + (i * step + round * 7) % options.lengths);
  return lengths;
}

struct Measured {
  bool right = true;
  Bar bar;
};

Measured measure(const char* name, Server& server, const Options& options, const std::vector<Buffer<float>>& tokens,
                 const std::vector<std::vector<float>>& expected) {
  // What is left when all cached memory is released to the driver.
  const auto needed = [] {
    reprise::CachingAllocator& allocator = reprise::CachingAllocator::of(reprise::current_device());
    allocator.empty_cache();
    return allocator.statistics().reserved_bytes;
  };
  Measured measured;
  const std::uint64_t before = needed();
  std::vector<double> times;
  double first_round = 0;  // with the captures: until all lengths have been served once
  for (std::size_t round = 0; round < options.rounds; ++round)
    for (const std::size_t length : order_of(options, round)) {
      std::vector<float> result;
      const double time = example::microseconds(1, [&] { result = server.serve(tokens[length - 1], length); });
      measured.right &= result == expected[length - 1];
      if (round == 0) first_round += time;
      if (round + 1 == options.rounds) times.push_back(time);
    }
  std::sort(times.begin(), times.end());
  measured.bar = {name, times[times.size() / 2], needed() - before};
  say("{:<9} {}, {:9.1f} ms for the first round, {:8.1f} us a call, {:3} graphs, {:9.1f} KiB\n", name,
      measured.right ? "the same as eager" : "NOT the same as eager", first_round / 1000, measured.bar.microseconds,
      server.graphs(), static_cast<double>(measured.bar.bytes) / 1024);
  return measured;
}

bool run(const Options& options) {
  const reprise::Device device = options.device ? example::parse_device(*options.device) : reprise::default_device();
  const reprise::Stream stream(device);
  const reprise::StreamGuard guard(stream);
  say("device    {} ({})\n", device.str(), device.name());
  say("model     {} layers, tokens of {} values, {} lengths, {} rounds\n", options.layers, options.width,
      options.lengths, options.rounds);

  const SequenceModel model(options.layers, options.width);
  EagerServer eager(model);
  std::vector<Buffer<float>> tokens;
  std::vector<std::vector<float>> expected;
  for (std::size_t length = 1; length <= options.lengths; ++length) {
    tokens.push_back(make_tokens(length, length, options.width));
    expected.push_back(eager.serve(tokens.back(), length));
  }
  GraphServer graphs(model);
  CacheServer cache(model, options.entries, false), padded(model, options.entries, true);
  std::vector<Measured> all;
  all.push_back(measure("eager", eager, options, tokens, expected));
  all.push_back(measure("graphs", graphs, options, tokens, expected));
  all.push_back(measure("cache", cache, options, tokens, expected));
  all.push_back(measure("padded", padded, options, tokens, expected));
  say("KiB of device memory, without what the driver keeps for graphs (reprise::graph_memory() estimates that)\n");
  say("\nThe cache, padded:\n{}", padded.statistics());
  if (options.svg) {
    std::vector<Bar> bars;
    for (const Measured& each : all) bars.push_back(each.bar);
    write_plot(*options.svg, bars);
    say("\nplot      {}\n", *options.svg);
  }
  return std::all_of(all.begin(), all.end(), [](const Measured& each) { return each.right; });
}

}  // namespace
}  // namespace many_shapes

int main(int argc, char** argv) {
  many_shapes::Options options;
  CLI::App app("A model that is served with many lengths: eagerly, with a graph each, with a cache of graphs.",
               "many_shapes");
  app.add_option("--device", options.device,
                 "Where to run: host, cuda, cuda:1, ... (default: the first CUDA device, or "
                 "else the simulated host device)")
      ->type_name("DEVICE");
  const auto number = [&](const char* name, std::size_t& value, const char* what, std::size_t most) {
    app.add_option(name, value, what)->capture_default_str()->type_name("N")->check(CLI::Range(std::size_t{1}, most));
  };
  number("--lengths", options.lengths, "Lengths of sequences, from 1", 4096);
  number("--entries", options.entries, "Graphs that the caches hold at most", 4096);
  number("--rounds", options.rounds, "How often each length is served", 1000);
  number("--layers", options.layers, "Layers of the model", 256);
  number("--width", options.width, "Values of a token", 1024);
  app.add_option("--svg", options.svg, "Draws time and memory to this file")->type_name("FILE");
  return example::run(app, argc, argv, [&] { return many_shapes::run(options); });
}
