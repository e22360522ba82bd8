// SPDX-License-Identifier: Apache-2.0
// The cost of calls of a GraphCache: hits beside a bare launch of the same graph, on one stream and on two in turn,
// with inputs and results; then misses, which capture, and evictions.

#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "small_kernels.h"
#include "submit.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::Buffer;
using reprise::CacheInputs;
using reprise::CacheOutputs;
using reprise::DeviceView;
using reprise::GraphCache;
using reprise::GraphCacheOptions;
using reprise::Stream;
using reprise::StreamGuard;
using reprise::StreamRef;

/// A cache with one body, whose graphs have `kernels` kernels, and one more for a result.
struct Cached {
  Cached(unsigned count, GraphCacheOptions options) : kernels(count), cache(std::move(options)) {
    for (Buffer<float>* const each : {&values, &others}) each->fill_bytes_async(0);
  }

  void call(int key = 0) {
    cache.run({key}, [&] { launch_small_kernels(kernels, values.data()); });
  }
  void call_with_input(Buffer<float>& x) {
    cache.run({"input"}, reprise::inputs(reprise::inout(x)),
              [&](DeviceView<float> in) { launch_small_kernels(kernels, in.data()); });
  }
  void call_with_result() {
    cache.run({"result"}, [&] {
      Buffer<float> y(small_kernel_values);
      launch_small_kernels(kernels, y.data());
      return y;
    });
  }

  const unsigned kernels;
  Buffer<float> values{small_kernel_values}, others{small_kernel_values};
  GraphCache cache;
  bool turn = false;
};

void compare_hits(const Settings& settings, const StreamRef& stream, unsigned kernels, Table& table) {
  Cached plain(kernels, {.capture_after = 0}),
      copying(kernels, {.capture_after = 0, .inputs = CacheInputs::copy, .outputs = CacheOutputs::copy});
  reprise::CUDAGraph graph = reprise::capture([&] { launch_small_kernels(kernels, plain.values.data()); });
  const std::function<void()> bare = bare_launch(settings.device, graph.raw_cuda_graph_exec(), stream.native());
  const Stream second(settings.device);
  const std::function<void()> bare_on_second =
      bare_launch(settings.device, graph.raw_cuda_graph_exec(), second.ref().native());
  const reprise::Event order(settings.device, {.timing = false});
  const std::function<void()> turns[] = {
      bare,
      [&] {
        // What CUDA itself needs: an event between launches on two streams.
        const bool to_second = (plain.turn = !plain.turn);
        order.record(to_second ? stream : second);
        order.wait(to_second ? second : stream);
        to_second ? bare_on_second() : bare();
      },
      [&] { graph.replay(); },
      [&] { plain.call(); },
      [&] {
        std::optional<StreamGuard> other;
        if ((plain.turn = !plain.turn)) other.emplace(second);
        plain.call();
      },
      [&] { plain.call_with_input(plain.values); },
      [&] { plain.call_with_input((plain.turn = !plain.turn) ? plain.values : plain.others); },
      [&] { copying.call_with_input(copying.values); },
      [&] { plain.call_with_result(); },
      [&] { copying.call_with_result(); },
  };
  const char* const names[] = {"bare launch",
                               "bare launch, two streams in turn",
                               "CUDAGraph::replay",
                               "hit",
                               "hit, two streams in turn",
                               "hit, the same input",
                               "hit, two inputs in turn",
                               "hit, input copied",
                               "hit, result",
                               "hit, result copied"};
  const std::vector<double> us = medians(settings, std::size(turns), [&](std::size_t side) {
    const double took = submit_seconds(stream, turns[side]);
    second.synchronize();
    return 1e6 * took;
  });
  for (std::size_t i = 0; i < std::size(turns); ++i) table.row({1.0 * kernels, names[i], us[i], us[i] - us[0]});
}

void compare_misses(const Settings& settings, const StreamRef& stream, unsigned kernels, Table& table) {
  constexpr int calls = 8;
  std::optional<Cached> running, capturing;
  const auto time = [&](Cached& cached, int first) {
    stream.synchronize();
    const double total = seconds([&] {
      for (int key = first; key < first + calls; ++key) cached.call(key);
    });
    stream.synchronize();
    return 1e6 * total / calls;
  };
  const auto us = medians_of<3>(settings, 1, [&](std::size_t) -> std::array<double, 3> {
    running.emplace(kernels, GraphCacheOptions{.capture_after = 1000});
    capturing.emplace(kernels, GraphCacheOptions{.max_entries = calls, .capture_after = 0});
    const double eager = time(*running, 0), miss = time(*capturing, 0);
    return {eager, miss, time(*capturing, calls)};
  });
  table.row({1.0 * kernels, us[0][0], us[0][1], us[0][2]});
}

}  // namespace

void cache(const Settings& settings) {
  const Stream stream(settings.device);
  const StreamGuard guard(stream);
  Table hits(settings, "cache_hits",
             "Calls of a GraphCache that find a graph: the host's part, and how much more than a bare launch",
             {{"kernels", "", 0}, {"", "", 0, 33}, {"call", "us"}, {"over bare", "us"}});
  for (const unsigned kernels : {1U, 50U}) compare_hits(settings, stream, kernels, hits);
  Table misses(settings, "cache_misses", "Calls of a GraphCache that find none, the host's part",
               {{"kernels", "", 0}, {"eager", "us"}, {"capture", "us"}, {"capture and eviction", "us"}});
  for (const unsigned kernels : {1U, 50U}) compare_misses(settings, stream, kernels, misses);
}

}  // namespace benchmarks
