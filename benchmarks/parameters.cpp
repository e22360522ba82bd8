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

  /// Sets other values than the last time.
  void set_others() { graph.set((is_second = !is_second) ? of_second : of_first); }
  void set_same() { graph.set(is_second ? of_second : of_first); }

  reprise::Buffer<float> first, second;
  std::vector<Parameter<float*>> parameters;
  std::vector<ParameterValue> of_first, of_second;
  reprise::CUDAGraph graph;
  bool is_second = false;
};

void compare_sets(const Settings& settings, const StreamRef& stream, unsigned count, Table& table) {
  Patched patched(count);
  const std::function<void()> bare = bare_launch(settings.device, patched.graph.raw_cuda_graph_exec(), stream.native());
  const std::function<void()> turns[] = {
      bare,
      [&] { patched.graph.replay(); },
      [&] { patched.set_same(), patched.graph.replay(); },
      [&] { patched.set_others(), patched.graph.replay(); },
  };
  const std::vector<double> us =
      medians(settings, std::size(turns), [&](std::size_t side) { return 1e6 * submit_seconds(stream, turns[side]); });
  constexpr unsigned calls = 1000;
  const std::vector<double> same = medians(settings, 1, [&](std::size_t) {
    return 1e9 / calls / count * seconds([&] {
             for (unsigned i = 0; i < calls; ++i) patched.set_same();
           });
  });
  table.row({1.0 * count, us[0], us[1], us[2], us[3], same[0]});
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
void compare_inputs(const Settings& settings, const StreamRef& stream, std::size_t bytes, Table& table) {
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
  const std::vector<double> us =
      medians(settings, std::size(turns), [&](std::size_t side) { return 1e6 * done_seconds(stream, turns[side]); });
  table.row({static_cast<double>(bytes), us[0], us[1]});
}

}  // namespace

void parameters(const Settings& settings) {
  const reprise::Stream stream(settings.device);
  const reprise::StreamGuard guard(stream);
  Table sets(settings, "parameters",
             "A graph of a kernel for each parameter: the host's part of a step, and of a value that does not change",
             {{"parameters", "", 0},
              {"bare", "us"},
              {"replay", "us"},
              {"same set", "us"},
              {"others set", "us"},
              {"same, each", "ns", 1}});
  for (const unsigned count : {1U, 8U, 64U}) compare_sets(settings, stream, count, sets);
  Table inputs(settings, "inputs", "A graph that reads 8 inputs, a step until the device is done",
               {{"bytes each", "", 0}, {"patched", "us"}, {"copied", "us"}});
  for (const std::size_t bytes : {std::size_t{4} << 10, std::size_t{1} << 20})
    compare_inputs(settings, stream, bytes, inputs);
}

}  // namespace benchmarks
