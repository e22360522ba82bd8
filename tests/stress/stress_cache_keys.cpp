// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>

#include "tests/stress/stress_test.h"
#include "tests/support/environment_number.h"
#include "tests/support/gate.h"
#include "tests/support/sanitizer.h"

// Many more keys than a cache has entries. With REPRISE_SOAK_KEYS so many, in a process that is alone on the device.

namespace reprise::graphs::test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct Soak {
  int keys = 0;
  bool alone = false;
};

Soak soak_of_environment() {
  constexpr const char* variable = "REPRISE_SOAK_KEYS";
  const std::uint64_t keys = reprise::test::environment_number(variable, 10'000, 2000, std::numeric_limits<int>::max());
  return {static_cast<int>(keys), !support::environment(variable).empty()};
}

/// Memory in use, in bytes.
struct InUse {
  std::uint64_t resident = 0;  ///< of the process
  std::uint64_t device = 0;    ///< of the device, also by other processes
  std::uint64_t reserved = 0;  ///< by the allocator
  std::uint64_t blocks = 0;    ///< of that, in use
};

InUse in_use() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  const MemoryInfo info = current_device().memory_info();
  const PoolStatistics pools = CachingAllocator::of(current_device()).statistics();
  return {resident * 4096, info.total - info.free, pools.reserved_bytes, pools.allocations};
}

TEST(StressCacheKeys, ThroughACacheOf64EntriesNeedNoMoreMemoryThanTheFirstThousand) {
  const Soak soak = soak_of_environment();
  const Stream stream;
  const StreamGuard guard(stream);
  GraphCache cache({.max_entries = 64, .capture_after = 1});
  const std::vector<int> values(n, 7);
  const Buffer<int> x{std::span<const int>(values)};
  int key = 0;
  const auto call_until = [&](int last) {
    for (; key < last; ++key) {
      const std::size_t length = 1 + static_cast<std::size_t>(key) % n;  // many shapes
      const auto body = [&](DeviceView<const int> in) {
        Buffer<int> scratch(length), made(length);
        launch(LaunchConfig::cover(length, 64), AddTo{}, in.data(), key, scratch.data(), length);
        launch(LaunchConfig::cover(length, 64), AddTo{}, static_cast<const int*>(scratch.data()), 1, made.data(),
               length);
        return made;
      };
      cache.run({key}, inputs(x), body);  // eagerly
      const auto y = cache.run({key}, inputs(x), body);
      if (key % 100 == 0) {
        EXPECT_EQ(y.read(), std::vector<int>(length, 8 + key));
      }
    }
    stream.synchronize();
    release_finished_graphs();
  };
  call_until(1000);
  const InUse before = in_use();
  call_until(soak.keys);
  InUse now = in_use();
  // The runtime releases the last graphs that were destroyed on a thread of its own, a little later.
  const auto end = std::chrono::steady_clock::now() + reprise::test::patience;
  while (now.blocks > before.blocks + 4 && std::chrono::steady_clock::now() < end) {
    release_finished_graphs();
    now = in_use();
  }
  std::printf("cache: %d keys, 64 entries: resident memory from %.1f to %.1f MiB, memory of %s from %.1f to %.1f MiB\n",
              soak.keys, static_cast<double>(before.resident) / mib, static_cast<double>(now.resident) / mib,
              current_device().str().c_str(), static_cast<double>(before.device) / mib,
              static_cast<double>(now.device) / mib);
  EXPECT_EQ(now.reserved, before.reserved);
  EXPECT_LE(now.blocks, before.blocks + 4);
  // The sanitizers keep freed memory and histories of accesses.
  if (!reprise::test::with_address_sanitizer && !reprise::test::with_thread_sanitizer) {
    EXPECT_LT(now.resident, before.resident + 8 * mib);
  }
  // Other processes use a GPU, too.
  if (soak.alone || current_device().type() == DeviceType::host) {
    EXPECT_LE(now.device, before.device + 4 * mib);
  }
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.entries, 64U);
  EXPECT_LE(counts.keys, 4096U + 64);
  EXPECT_EQ(counts.captures.number, static_cast<std::uint64_t>(soak.keys));
  EXPECT_EQ(counts.evictions.number, static_cast<std::uint64_t>(soak.keys) - 64);
}

}  // namespace
}  // namespace reprise::graphs::test
