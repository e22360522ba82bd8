// SPDX-License-Identifier: Apache-2.0
// The cost of allocating and freeing device memory: a cached block of the caching allocator, and the device runtime.

#include <latch>
#include <string>
#include <thread>

#include "backend/backend.h"
#include "backend/check.h"
#include "support.h"

namespace benchmarks {
namespace {

using reprise::StreamRef;
namespace backend = reprise::backend;

struct FromCache {
  static void allocate_and_free(const StreamRef& stream, std::size_t bytes) {
    auto& allocator = reprise::CachingAllocator::of(stream.device());
    allocator.deallocate(allocator.allocate(bytes, stream));
  }
};

struct FromRuntime {
  static void allocate_and_free(const StreamRef& stream, std::size_t bytes) {
    const backend::Checked runtime(stream.device().backend());
    void* pointer = nullptr;
    runtime.memory_allocate(&pointer, bytes);
    runtime.memory_free(pointer);
  }
};

/// Each thread allocates and frees `pairs` times, for its own stream. Returns seconds a pair, per thread.
template <class Source>
double run(reprise::Device device, unsigned threads, std::size_t bytes, unsigned pairs) {
  std::latch ready(threads), finished(threads);
  std::vector<double> times(threads);
  const auto work = [&](unsigned index) {
    const reprise::Stream stream(device);
    Source::allocate_and_free(stream, bytes);  // cached from here on
    ready.arrive_and_wait();
    times[index] = seconds([&] {
      for (unsigned i = 0; i < pairs; ++i) Source::allocate_and_free(stream, bytes);
    });
    finished.arrive_and_wait();
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  return *std::max_element(times.begin(), times.end()) / pairs;
}

/// Pairs that take about a hundredth of a second together.
template <class Source>
unsigned pairs_of_a_round(const Settings& settings, std::size_t bytes) {
  constexpr double wanted = 0.01;
  const double one = run<Source>(settings.device, 1, bytes, 10);
  return static_cast<unsigned>(std::clamp(wanted / one, 10.0, 100'000.0));
}

std::string size_text(std::size_t bytes) {
  if (bytes >= 1 << 20) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

void compare(const Settings& settings, std::size_t bytes) {
  const unsigned cache_pairs = pairs_of_a_round<FromCache>(settings, bytes);
  const unsigned runtime_pairs = pairs_of_a_round<FromRuntime>(settings, bytes);
  Samples cache[2], runtime[2];
  for (unsigned round = 0; round < settings.rounds; ++round)
    for (unsigned threads = 1; threads <= 2; ++threads) {
      cache[threads - 1].add(run<FromCache>(settings.device, threads, bytes, cache_pairs));
      runtime[threads - 1].add(run<FromRuntime>(settings.device, threads, bytes, runtime_pairs));
    }
  const auto ns = [](const Samples& samples) { return 1e9 * samples.median(); };
  print("{:>7}  {:>12.0f} {:>12.0f}  {:>12.0f} {:>12.0f}\n", size_text(bytes), ns(cache[0]), ns(runtime[0]),
        ns(cache[1]), ns(runtime[1]));
}

}  // namespace

void allocator(const Settings& settings) {
  print("Allocating and freeing device memory, ns a pair\n");
  print("{:>7}  {:^25}  {:^25}\n", "", "one thread", "each of two threads");
  print("{:>7}  {:>12} {:>12}  {:>12} {:>12}\n", "size", "cached", "runtime", "cached", "runtime");
  for (const std::size_t bytes : {std::size_t{512}, std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{16} << 20})
    compare(settings, bytes);
}

}  // namespace benchmarks
