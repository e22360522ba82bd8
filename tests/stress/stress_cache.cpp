// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/stress/stress_test.h"

// Caches of graphs, used by several threads.

namespace reprise::graphs::test {
namespace {

constexpr int threads_at_once = 8;
constexpr int keys = 12;  // more than there are graphs
constexpr int calls = 150;

constexpr std::size_t bucket = 64;  // of padded lengths

GraphCacheOptions stress_options(std::uint64_t seed) {
  return {.max_entries = 8,
          .capture_after = seed % 3,
          .check_every = seed % 2 == 0 ? 5u : 0u,
          .inputs = seed % 2 == 0 ? CacheInputs::patch : CacheInputs::copy,
          .outputs = seed % 4 < 2 ? CacheOutputs::copy : CacheOutputs::alias,
          .padding = [](std::size_t length) { return (length + bucket - 1) / bucket * bucket; }};
}

/// A cache with results that lie in its entries: who uses one keeps other calls of that key away meanwhile.
struct Shared {
  explicit Shared(GraphCacheOptions options) : outputs(options.outputs), cache(std::move(options)) {}

  const CacheOutputs outputs;
  GraphCache cache;
  std::array<std::mutex, keys> in_use;
};

/// Calls with random keys; each result is that of its key and input.
void call_at_random(Shared& shared, unsigned seed) {
  GraphCache& cache = shared.cache;
  std::mt19937 random(seed);
  const Stream stream, other;
  for (int i = 0; i < calls; ++i) {
    const StreamGuard guard(random() % 4 == 0 ? other : stream);
    const int key = static_cast<int>(random() % keys);
    const bool padded = random() % 3 == 0;
    const std::size_t length = padded ? 1 + random() % n : n;
    std::vector<int> values(length);
    for (int& value : values) value = static_cast<int>(random() % 1000);
    Buffer<int> x(values);
    const auto add_key = [&](std::size_t size, DeviceView<const int> in) {
      Buffer<int> scratch(size), made(size);
      launch(LaunchConfig::cover(size, 64), AddTo{}, in.data(), key, scratch.data(), size);
      launch(LaunchConfig::cover(size, 64), AddTo{}, static_cast<const int*>(scratch.data()), 1, made.data(), size);
      return made;
    };
    {
      std::unique_lock lock(shared.in_use[static_cast<std::size_t>(key)], std::defer_lock);
      if (shared.outputs == CacheOutputs::alias) lock.lock();
      const CacheResult<int> y =
          padded ? cache.run_padded({key, "padded"}, length, inputs(x), add_key)
                 : cache.run({key}, inputs(x), [&](DeviceView<const int> in) { return add_key(n, in); });
      for (int& value : values) value += key + 1;
      EXPECT_EQ(y.read(), values);
    }
    if (random() % 50 == 0) cache.forget({key});
    if (random() % 200 == 0) cache.clear();
    if (random() % 20 == 0) static_cast<void>(cache.statistics().str());
  }
}

template <class CacheOf>
void run_threads(const CacheOf& cache_of, unsigned seed) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < threads_at_once; ++i)
    threads.emplace_back([&, i] { call_at_random(cache_of(i), seed * threads_at_once + i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(StressCaches, EightThreadsWithOneCache) {
  const LogSink before = set_log_sink([](std::string_view) {});
  for (unsigned seed = 0; seed < 6; ++seed) {
    Shared shared(stress_options(seed));
    run_threads([&](unsigned) -> Shared& { return shared; }, seed);
    const GraphCacheStatistics counts = shared.cache.statistics();
    EXPECT_EQ(counts.hits + counts.captures.number + counts.eager.number, threads_at_once * calls);
    EXPECT_EQ(counts.failed_captures.number, 0u);
    EXPECT_LE(counts.entries, 8u);
  }
  set_log_sink(before);
}

/// Calls with keys of this thread alone, and drops each result as soon as work that reads it is submitted.
void drop_results_at_once(GraphCache& cache, int thread) {
  const Stream stream;
  const StreamGuard guard(stream);
  std::vector<int> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<int>(i);
  const Buffer<int> x(values);
  std::vector<Buffer<int>> found;
  for (int i = 0; i < calls; ++i) {
    const auto y = cache.run({thread, i}, inputs(x), [&](DeviceView<const int> in) {
      Buffer<int> made(n);
      launch(LaunchConfig::cover(n, 64), AddTo{}, in.data(), thread * calls + i, made.data(), n);
      return made;
    });
    found.emplace_back(n);
    launch_host(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });  // others overtake
    launch(LaunchConfig::cover(n, 64), AddTo{}, y.data(), 0, found.back().data(), n);
  }
  for (int i = 0; i < calls; ++i) {
    std::vector<int> expected = values;
    for (int& value : expected) value += thread * calls + i;
    EXPECT_EQ(found[static_cast<std::size_t>(i)].read(), expected) << i;
  }
}

TEST(StressCaches, FourThreadsThatDropResultsWhichWorkStillReads) {
  const LogSink before = set_log_sink([](std::string_view) {});
  GraphCache cache({.max_entries = 2, .capture_after = 0});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { drop_results_at_once(cache, i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cache.statistics().evictions.number, 100u);
  set_log_sink(before);
}

TEST(StressCaches, EightThreadsWithACacheEach) {
  const LogSink before = set_log_sink([](std::string_view) {});
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::vector<std::unique_ptr<Shared>> caches;
    for (int i = 0; i < threads_at_once; ++i) caches.push_back(std::make_unique<Shared>(stress_options(seed)));
    run_threads([&](unsigned i) -> Shared& { return *caches[i]; }, seed);
    for (const auto& each : caches) EXPECT_EQ(each->cache.statistics().failed_captures.number, 0u);
  }
  set_log_sink(before);
}

}  // namespace
}  // namespace reprise::graphs::test
