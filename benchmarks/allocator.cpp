// SPDX-License-Identifier: Apache-2.0
// The cost of allocating and freeing device memory: a cached block of the caching allocator, and the device runtime.

#include <functional>
#include <iterator>
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

struct FromRuntimeAsync {
  static void allocate_and_free(const StreamRef& stream, std::size_t bytes) {
    const backend::Checked runtime(stream.device().backend());
    void* pointer = nullptr;
    runtime.memory_allocate_async(&pointer, bytes, stream.native());
    runtime.memory_free_async(pointer, stream.native());
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
    stream.synchronize();  // what is freed in its order is free then
    finished.arrive_and_wait();
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  return *std::max_element(times.begin(), times.end()) / pairs;
}

/// Pairs that take about five thousandths of a second together.
template <class Source>
unsigned pairs_of_a_round(const Settings& settings, std::size_t bytes) {
  constexpr double wanted = 0.005;
  const double one = run<Source>(settings.device, 1, bytes, 10);
  return static_cast<unsigned>(std::clamp(wanted / one, 10.0, 100'000.0));
}

std::string size_text(std::size_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} B", bytes);
}

/// How many pairs a round has of each source, for one size.
struct Pairs {
  unsigned from_cache, in_stream_order, from_runtime;
};

void compare(const Settings& settings, std::size_t bytes, const Pairs& pairs, unsigned threads, Table& table) {
  // On a host device memory that is freed in the order of a stream is not there before the stream comes to it.
  constexpr std::size_t most_bytes = std::size_t{256} << 20;
  const auto ordered_pairs =
      static_cast<unsigned>(std::min<std::size_t>(pairs.in_stream_order, most_bytes / bytes / threads));
  const std::function<double()> sides[] = {
      [&] { return run<FromCache>(settings.device, threads, bytes, pairs.from_cache); },
      [&] { return run<FromRuntimeAsync>(settings.device, threads, bytes, ordered_pairs); },
      [&] { return run<FromRuntime>(settings.device, threads, bytes, pairs.from_runtime / threads + 1); },
  };
  const std::vector<double> ns =
      medians(settings, std::size(sides), [&](std::size_t side) { return 1e9 * sides[side](); });
  table.row({size_text(bytes), 1.0 * threads, ns[0], ns[1], ns[2]});
}

}  // namespace

void allocator(const Settings& settings) {
  Table table(settings, "allocator",
              "Allocating and freeing device memory, a pair: the caching allocator, and the runtime's calls",
              {{"size"}, {"threads", "", 0}, {"cached", "ns", 0}, {"in stream order", "ns", 0}, {"runtime", "ns", 0}});
  constexpr std::size_t sizes[] = {512, std::size_t{1} << 20};
  std::vector<Pairs> pairs;
  for (const std::size_t bytes : sizes)
    pairs.push_back({pairs_of_a_round<FromCache>(settings, bytes), pairs_of_a_round<FromRuntimeAsync>(settings, bytes),
                     pairs_of_a_round<FromRuntime>(settings, bytes)});
  // All sizes with few threads first: a processor that many threads have kept busy is slower for a while.
  for (const unsigned threads : {1U, 2U, 4U, 8U, 16U})
    for (std::size_t i = 0; i < std::size(sizes); ++i) compare(settings, sizes[i], pairs[i], threads, table);
}

}  // namespace benchmarks
