// SPDX-License-Identifier: Apache-2.0
// The cost of calls of a GraphCache: hits beside a bare launch of the same graph, on one stream and on two in turn,
// with inputs and results; then misses, which capture, and evictions.

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

void compare_hits(const Settings& settings, const StreamRef& stream, unsigned kernels) {
  Cached plain(kernels, {.capture_after = 0}),
      copying(kernels, {.capture_after = 0, .inputs = CacheInputs::copy, .outputs = CacheOutputs::copy});
  reprise::CUDAGraph graph = reprise::capture([&] { launch_small_kernels(kernels, plain.values.data()); });
  const std::function<void()> bare = bare_launch(settings.device, graph.raw_cuda_graph_exec(), stream.native());
  const Stream second(settings.device);
  const std::function<void()> turns[] = {
      bare,
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
                               "CUDAGraph::replay",
                               "hit",
                               "hit, two streams in turn",
                               "hit, the same input",
                               "hit, two inputs in turn",
                               "hit, input copied",
                               "hit, result",
                               "hit, result copied"};
  Samples sides[std::size(turns)];
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    if (round == 1)  // the first round warms up and is discarded
      for (Samples& side : sides) side = {};
    for (std::size_t i = 0; i < std::size(turns); ++i) {
      const std::size_t at = turn_of(round, i, std::size(turns));
      sides[at].add(submit_seconds(stream, turns[at]));
      second.synchronize();
    }
  }
  for (std::size_t i = 0; i < std::size(turns); ++i)
    print("  {:5} kernels  {:<26}{:8.2f} us  {:+8.2f} us\n", kernels, names[i], sides[i].median() * 1e6,
          (sides[i].median() - sides[0].median()) * 1e6);
}

void compare_misses(const Settings& settings, const StreamRef& stream, unsigned kernels) {
  constexpr int calls = 8;
  Samples eager, miss, with_eviction;
  for (unsigned round = 0; round <= settings.rounds; ++round) {
    Cached running(kernels, {.capture_after = 1000}), capturing(kernels, {.max_entries = calls, .capture_after = 0});
    const auto time = [&](Samples& side, Cached& cached, int first) {
      stream.synchronize();
      const double total = seconds([&] {
        for (int key = first; key < first + calls; ++key) cached.call(key);
      });
      stream.synchronize();
      if (round > 0) side.add(total / calls);
    };
    time(eager, running, 0);
    time(miss, capturing, 0);
    time(with_eviction, capturing, calls);
  }
  print("  {:5} kernels  {:<26}{:8.2f} us\n", kernels, "eager", eager.median() * 1e6);
  print("  {:5} kernels  {:<26}{:8.2f} us\n", kernels, "miss", miss.median() * 1e6);
  print("  {:5} kernels  {:<26}{:8.2f} us\n", kernels, "miss with an eviction", with_eviction.median() * 1e6);
}

}  // namespace

void cache(const Settings& settings) {
  const Stream stream(settings.device);
  const StreamGuard guard(stream);
  print("Calls of a GraphCache: the host's time to submit one, and how much more than a bare launch\n");
  for (const unsigned kernels : {1U, 50U}) compare_hits(settings, stream, kernels);
  print("Calls that do not find a graph\n");
  for (const unsigned kernels : {1U, 50U}) compare_misses(settings, stream, kernels);
}

}  // namespace benchmarks
