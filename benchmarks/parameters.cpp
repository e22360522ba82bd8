// SPDX-License-Identifier: Apache-2.0
// The cost of setting parameters of a graph before its replay, beside a bare launch; and of inputs that are patched,
// beside inputs that are copied.

#include <functional>
#include <iterator>
#include <vector>

#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::Parameter;
using reprise::ParameterValue;
using reprise::StreamRef;

/// A graph of kernels with a parameter each, and two sets of values for them.
struct Patched {
  explicit Patched(unsigned count) : first(small_kernel_values), second(small_kernel_values) {
    first.fill_bytes_async(0);
    second.fill_bytes_async(0);
    for (unsigned i = 0; i < count; ++i) parameters.emplace_back(first.data());
    graph = reprise::capture([&] { launch_marked_kernels(parameters); });
    for (const Parameter<float*>& parameter : parameters) {
      of_first.emplace_back(parameter, first.data());
      of_second.emplace_back(parameter, second.data());
    }
  }

  /// Other values than those before.
  void set_others() { graph.set((is_second = !is_second) ? of_second : of_first); }
  void set_same() { graph.set(is_second ? of_second : of_first); }

  reprise::Buffer<float> first, second;
  std::vector<Parameter<float*>> parameters;
  std::vector<ParameterValue> of_first, of_second;
  reprise::CUDAGraph graph;
  bool is_second = false;
};

void compare_sets(const Settings& settings, const StreamRef& stream, unsigned count) {
  Patched patched(count);
  const std::function<void()> bare = bare_launch(settings.device, patched.graph.raw_cuda_graph_exec(), stream.native());
  const std::function<void()> turns[] = {
      bare,
      [&] { patched.graph.replay(); },
      [&] { patched.set_same(), patched.graph.replay(); },
      [&] { patched.set_others(), patched.graph.replay(); },
  };
  Samples sides[std::size(turns)], same;
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    // The first round warms up and is discarded.
    if (round == 1) {
      for (Samples& side : sides) side = {};
      same = {};
    }
    for (unsigned i = 0; i < std::size(turns); ++i) {
      const std::size_t turn = turn_of(round, i, std::size(turns));
      sides[turn].add(submit_seconds(stream, turns[turn]));
    }
    constexpr unsigned calls = 1000;
    same.add(seconds([&] {
               for (unsigned i = 0; i < calls; ++i) patched.set_same();
             }) /
             calls / count);
  }
  print("{:>10}", count);
  for (const Samples& side : sides) print("  {:>10.2f}", 1e6 * side.median());
  print("  {:>12.1f}\n", 1e9 * same.median());
}

/// In seconds a step, until the device is done.
double done_seconds(const StreamRef& stream, const std::function<void()>& step) {
  constexpr unsigned steps = 10;
  stream.synchronize();
  return seconds([&] {
           for (unsigned i = 0; i < steps; ++i) step();
           stream.synchronize();
         }) /
         steps;
}

/// Eight inputs, each copied to another array by the graph: set to one of two places, or copied from there.
void compare_inputs(const Settings& settings, const StreamRef& stream, std::size_t bytes) {
  constexpr std::size_t count = 8;
  const reprise::Buffer<std::byte> captured(count * bytes), first(count * bytes), second(count * bytes),
      outputs(count * bytes);
  reprise::CUDAGraph graph = reprise::capture([&] {
    for (std::size_t i = 0; i < count; ++i)
      reprise::copy_async(outputs.data() + i * bytes, captured.data() + i * bytes, bytes);
  });
  std::vector<Parameter<std::byte*>> parameters;
  for (std::size_t i = 0; i < count; ++i) parameters.push_back(graph.parameter(captured.data() + i * bytes));
  bool is_second = false;
  const auto source = [&] { return (is_second = !is_second) ? second.data() : first.data(); };
  std::vector<ParameterValue> values;
  const std::function<void()> patched = [&] {
    values.clear();
    std::byte* const from = source();
    for (std::size_t i = 0; i < count; ++i) values.emplace_back(parameters[i], from + i * bytes);
    graph.set(values);
    graph.replay();
  };
  const std::function<void()> copied = [&] {
    const std::byte* const from = source();
    for (std::size_t i = 0; i < count; ++i) reprise::copy_async(captured.data() + i * bytes, from + i * bytes, bytes);
    graph.replay();
  };
  const std::function<void()> turns[] = {patched, copied};
  Samples sides[std::size(turns)];
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    if (round == 1)
      for (Samples& side : sides) side = {};
    for (unsigned i = 0; i < std::size(turns); ++i) {
      const std::size_t turn = turn_of(round, i, std::size(turns));
      sides[turn].add(done_seconds(stream, turns[turn]));
    }
  }
  print("{:>10}  {:>10.2f}  {:>10.2f}\n", bytes, 1e6 * sides[0].median(), 1e6 * sides[1].median());
}

}  // namespace

void parameters(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  print("A graph of a kernel for each parameter, the host's part of a step, us; a value that does not change, ns\n");
  print("{:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}\n", "parameters", "bare", "replay", "same set", "others set",
        "same, ns each");
  for (const unsigned count : {1U, 8U, 64U}) compare_sets(settings, stream, count);
  print("A graph that reads 8 inputs, us a step until the device is done\n");
  print("{:>10}  {:>10}  {:>10}\n", "bytes each", "patched", "copied");
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20}) compare_inputs(settings, stream, bytes);
}

}  // namespace benchmarks
