// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"

namespace reprise::caches::test {
namespace {

std::uint64_t number_of(const GraphCacheStatistics& counts, RecaptureCause cause, const std::string& field) {
  for (const RecaptureReason& each : counts.recaptures)
    if (each.cause == cause && each.field == field) return each.number;
  return 0;
}

TEST(StatisticsOfGraphCaches, NameTheFieldsOfTheKeyThatCapturesDifferIn) {
  GraphCache cache({.max_entries = 4, .capture_after = 0, .key_fields = {"batch", "length"}});
  Multiplying body;
  const Buffer<int> x = counting(n);
  const auto call = [&](int batch, int length, const char* kind) { cache.run({batch, length, kind}, inputs(x), body); };
  call(1, 10, "a");
  call(1, 20, "a");
  call(1, 30, "a");
  call(2, 30, "b");
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(number_of(counts, RecaptureCause::new_key, "length"), 2u);
  EXPECT_EQ(number_of(counts, RecaptureCause::new_key, "batch"), 1u);
  EXPECT_EQ(number_of(counts, RecaptureCause::new_key, "field 2"), 1u);
  EXPECT_EQ(counts.recaptures.front().field, "length");
  call(3, 30, "b");  // releases (1, 10, a)
  call(4, 30, "b");
  EXPECT_EQ(number_of(cache.statistics(), RecaptureCause::new_key, "batch"), 3u);
  cache.forget({2, 30, "b"});
  cache.forget({3, 30, "b"});
  call(1, 10, "a");
  EXPECT_EQ(number_of(cache.statistics(), RecaptureCause::evicted_number, ""), 1u);
}

TEST(StatisticsOfGraphCaches, HaveTheTimeOfChecksWhichAreNoHits) {
  Buffer<int> x = zeros();
  GraphCache cache({.capture_after = 0, .check_every = 1});
  const auto body = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    graphs::test::add(x);
  };
  for (int i = 0; i < 5; ++i) cache.run({1}, body);
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.hits, 4u);
  EXPECT_EQ(counts.checks.number, 4u);
  EXPECT_GE(counts.checks.time, 4 * std::chrono::milliseconds(5));
}

TEST(StatisticsOfGraphCaches, NameNoFieldOfAKeyThatIsComparedWithNone) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> x = zeros();
  const auto call = [&](int key) { cache.run({key}, [&] { graphs::test::add(x); }); };
  call(1);
  cache.forget({1});
  call(2);
  EXPECT_TRUE(contains(cache.statistics().str(), "recaptures: new key: 1\n"));
}

TEST(StatisticsOfGraphCaches, SayThatAKeyWasForgotten) {
  GraphCache cache({.max_entries = 3, .capture_after = 0});
  Buffer<int> x = zeros();
  const auto call = [&](int key) { cache.run({key}, [&] { graphs::test::add(x); }); };
  const auto forgotten = [&] { return number_of(cache.statistics(), RecaptureCause::forgotten, ""); };
  for (const int key : {1, 2}) call(key);
  cache.forget({1});
  call(3);
  EXPECT_EQ(forgotten(), 0u) << "key 3 is new";
  call(1);
  EXPECT_EQ(forgotten(), 1u);
  cache.clear();
  for (const int key : {1, 2, 4}) call(key);
  EXPECT_EQ(forgotten(), 3u) << "key 4 is new";
  EXPECT_TRUE(contains(cache.statistics().str(), "recaptures: forgotten: 3\n"));
  call(5);  // releases key 1
  cache.forget({1});
  call(1);
  EXPECT_EQ(forgotten(), 4u) << "also of a key whose graph was released before";
}

TEST(StatisticsOfGraphCaches, RememberThatAKeyWasForgottenUntilItIsCaptured) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> x = zeros();
  const auto call = [&](int key) { cache.run({key}, [&] { graphs::test::add(x); }); };
  for (const int key : {1, 2}) call(key);
  EXPECT_TRUE(cache.forget({1}));
  EXPECT_FALSE(cache.forget({1}));
  EXPECT_FALSE(cache.contains({1}));
  for (int i = 0; i < 2; ++i) call(1);
  EXPECT_EQ(number_of(cache.statistics(), RecaptureCause::forgotten, ""), 1u);
}

TEST(StatisticsOfGraphCaches, DoNotSayThatAKeyWasForgottenThatHadNoGraph) {
  GraphCache cache({.capture_after = 1});
  Buffer<int> x = zeros();
  const auto call = [&](int key) { cache.run({key}, [&] { graphs::test::add(x); }); };
  for (int i = 0; i < 2; ++i) call(1);
  call(2);
  EXPECT_TRUE(cache.forget({2}));
  for (int i = 0; i < 2; ++i) call(2);
  EXPECT_EQ(number_of(cache.statistics(), RecaptureCause::forgotten, ""), 0u);
  EXPECT_EQ(number_of(cache.statistics(), RecaptureCause::new_key, "field 0"), 1u);
}

TEST(StatisticsOfGraphCaches, CountAtMost256ReasonsByThemselves) {
  GraphCache cache({.max_entries = 2, .capture_after = 0});
  Buffer<int> x = zeros();
  CacheKey key;
  for (int i = 0; i < 300; ++i) {
    CacheKey other;
    for (int k = 0; k < 300; ++k) other.add(k == i ? 1 : 0);
    cache.run(other, [&] { graphs::test::add(x); });
  }
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_LE(counts.recaptures.size(), 257u);
  EXPECT_GT(number_of(counts, RecaptureCause::new_key, "further fields"), 0u);
}

TEST(StatisticsOfGraphCaches, ArePrintedAsATable) {
  GraphCache cache({.capture_after = 1, .key_fields = {"length"}});
  Multiplying body;
  const Buffer<int> x = counting(n);
  for (int i = 0; i < 4; ++i)
    for (const int length : {1, 2}) cache.run({length}, inputs(x), body);
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_GT(counts.captures.time.count(), 0);
  EXPECT_GT(counts.eager.time.count(), 0);
  const std::string table = counts.str();
  std::printf("%s", table.c_str());
  EXPECT_TRUE(contains(table, "hits                                              4"));
  EXPECT_TRUE(contains(table, "captures                                          2"));
  EXPECT_TRUE(contains(table, "  fewer calls than capture_after                  2"));
  EXPECT_TRUE(contains(table, "recaptures: new key, length: 1\n"));
  EXPECT_TRUE(contains(table, "memory: 2.0 MiB in the pool, 1.0 KiB of entries, at most "));
}

TEST(MemoryOfGraphCaches, IsThatOfAllTheirGraphs) {
  GraphCache cache({.max_entries = 2, .capture_after = 0});
  Multiplying body;
  const Buffer<int> x = counting(n);
  EXPECT_EQ(cache.memory().graphs, 0u);
  for (const int key : {1, 2, 3}) cache.run({key}, inputs(x), body);
  const GraphMemory memory = cache.memory();
  EXPECT_EQ(memory.graphs, 2u);
  EXPECT_EQ(memory.executables, 2u);
  EXPECT_EQ(memory.nodes, 6u);  // two kernels each, and the copy of the result
  EXPECT_EQ(memory.pool.reserved_bytes, cache.statistics().pool_bytes);
  EXPECT_EQ(memory.pool.reserved_bytes, std::size_t{2} << 20);
  cache.clear();
  EXPECT_EQ(cache.memory().graphs, 0u);
  EXPECT_EQ(cache.memory().executables, 0u);
  EXPECT_EQ(cache.memory().pool.reserved_bytes, 0u);
}

TEST(MemoryOfGraphCaches, HasTheSegmentsOfBodiesWithEagerParts) {
  SideStream side;
  GraphCache cache({.capture_after = 0});
  Buffer<int> x = zeros(n);
  cache.run({1}, [&] {
    graphs::test::add(x);
    eager([] {});
    graphs::test::add(x);
  });
  EXPECT_EQ(cache.memory().graphs, 2u);
  EXPECT_EQ(cache.memory().nodes, 2u);
}

TEST(WarmGraphCaches, CaptureAheadAndNothingTakesEffect) {
  GraphCache cache;
  Buffer<int> x = zeros(n);
  Incrementing body;
  const std::vector<int> keys{3, 1, 4, 5, 9, 2, 6};
  for (const int key : keys) EXPECT_TRUE(cache.capture({key}, inputs(inout(x)), body));
  EXPECT_EQ(body.runs, 7);
  EXPECT_EQ(read(x), std::vector<int>(n, 0));
  for (const int key : keys) cache.run({key}, inputs(inout(x)), body);
  EXPECT_EQ(read(x), std::vector<int>(n, 7));
  EXPECT_EQ(body.runs, 7);
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.captures.number, 7u);
  EXPECT_EQ(counts.hits, 7u);
}

TEST(WarmGraphCaches, LeaveWhatHasNoRoomOrCannotBeCaptured) {
  GraphCache cache({.max_entries = 2});
  Buffer<int> x = zeros();
  const std::vector<int> keys{0, 1, 2, 3};
  int runs = 0;
  const auto capture = [&](int key) {
    return cache.capture({key}, [&] {
      ++runs;
      graphs::test::add(x);
      if (key == 1) current_stream().synchronize();
    });
  };
  EXPECT_EQ(std::ranges::count_if(keys, capture), 2);
  EXPECT_TRUE(cache.contains({0}));
  EXPECT_TRUE(cache.failure({1}));
  EXPECT_TRUE(cache.contains({2}));
  EXPECT_FALSE(cache.contains({3}));
  EXPECT_FALSE(cache.failure({3}));
  const int before = runs;
  EXPECT_TRUE(capture(0)) << "it is there";
  EXPECT_FALSE(capture(1)) << "its capture failed";
  EXPECT_EQ(runs, before);
}

TEST(WarmGraphCaches, LeaveWhatHasMoreBytesThanTheBound) {
  GraphCache cache({.max_bytes = 8u << 20});
  const auto body = [] {
    Buffer<int> y(std::size_t{4} << 20);
    y.fill_bytes_async(1);
    return y;
  };
  EXPECT_FALSE(cache.capture({n}, body));
  EXPECT_FALSE(cache.contains({n}));
  EXPECT_EQ(cache.statistics().entry_bytes, 0u);
}

TEST(WarmGraphCaches, CaptureBucketsAhead) {
  GraphCache cache({.padding = [](std::size_t length) { return (length + 63) / 64 * 64; }});
  Multiplying multiplying;
  const auto body = [&](std::size_t, DeviceView<const int> x) { return multiplying(x); };
  const Buffer<int> x = counting(128);
  for (const std::size_t bucket : {64, 128})
    EXPECT_TRUE(cache.capture_padded({}, bucket, inputs(DeviceView<const int>(x.data(), bucket)), body));
  for (const std::size_t length : {3, 90}) {
    const auto y = cache.run_padded({}, length, inputs(DeviceView<const int>(x.data(), length)), body);
    EXPECT_EQ(y.read(), multiples(length, 2));
  }
  EXPECT_EQ(multiplying.runs, 2);
}

}  // namespace
}  // namespace reprise::caches::test
