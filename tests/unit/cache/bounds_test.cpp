// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/records.h"
#include "tests/unit/cache/cache_fixture.h"

namespace reprise::caches::test {
namespace {

using graphs::test::eventually;

constexpr std::size_t values_per_mebibyte = (std::size_t{1} << 20) / sizeof(int);

/// A cache whose keys all have the same body.
struct Keys {
  explicit Keys(GraphCacheOptions options) : cache(std::move(options)) {}
  void call(int key) {
    const auto y = cache.run({key}, inputs(x), body);
    EXPECT_EQ(y.read(), multiples(n, 2));
  }
  std::vector<int> captured(int count) const {
    std::vector<int> keys;
    for (int key = 0; key < count; ++key)
      if (cache.contains({key})) keys.push_back(key);
    return keys;
  }

  GraphCache cache;
  Multiplying body;
  const Buffer<int> x = counting(n);
};

TEST(GraphCacheBounds, TheEntryThatWasNotUsedForLongestIsReleased) {
  Keys keys({.max_entries = 2, .capture_after = 0});
  keys.call(0);
  keys.call(1);
  keys.call(0);
  keys.call(2);
  EXPECT_EQ(keys.captured(3), (std::vector<int>{0, 2}));
  EXPECT_EQ(keys.cache.size(), 2u);
  EXPECT_EQ(keys.cache.statistics().evictions.number, 1u);
  EXPECT_EQ(keys.cache.statistics().keys, 1u);
}

/// Adds 1 to its state, by a loop of the graph.
struct Looping {
  void operator()() const {
    fill_async(left.data(), 0, sizeof(int));
    graphs::test::add(left, 1);
    while_(reinterpret_cast<const std::uint32_t*>(left.data()), [this] {
      graphs::test::add(state, 1);
      graphs::test::add(left, -1);
    });
  }

  Buffer<int>& state;
  Buffer<int>& left;
};

TEST(GraphCacheBounds, GraphsWithControlFlowTakeThePlaceOfOthersAsTheirBodiesDoNotRunEagerly) {
  const Warnings warnings;
  Buffer<int> state = zeros(), left = zeros();
  GraphCache cache({.name = "loops", .max_entries = 2, .capture_after = 0});
  int calls = 0;
  for (int round = 0; round < 5; ++round)
    for (int key = 0; key < 4; ++key) {
      cache.run({key}, Looping{state, left});
      EXPECT_EQ(read(state), std::vector<int>{++calls});
    }
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.statistics().eager.number, 0u);
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_TRUE(contains(warnings.texts()[0], "takes the place of another graph that is in use"));
  EXPECT_TRUE(contains(warnings.texts()[0], "of cache `loops`"));
  EXPECT_TRUE(contains(warnings.texts()[0], "max_entries = 2"));
}

TEST(GraphCacheBounds, AGraphWithControlFlowThatIsTooLargeIsRefusedWithTheBound) {
  const Warnings warnings;
  Buffer<int> state = zeros(), left = zeros();
  GraphCache cache({.max_bytes = std::uint64_t{1} << 20, .capture_after = 0});
  const auto body = [&] {
    Looping{state, left}();
    return Buffer<int>(std::size_t{1} << 20);
  };
  for (int i = 0; i < 2; ++i) {
    const std::string text = text_of<UsageError>([&] { cache.run({0}, body); });
    EXPECT_TRUE(contains(text, "GraphCache::run: key (0) has no graph")) << text;
    EXPECT_TRUE(contains(text, "more than max_bytes = 1048576")) << text;
  }
  EXPECT_EQ(read(state), std::vector<int>{0});
}

TEST(GraphCacheBounds, ACacheWhoseKeysNeverSettleWarnsOnceAndNamesTheField) {
  const Warnings warnings;
  Keys keys({.name = "decode", .max_entries = 4, .key_fields = {"batch", "position"}});
  int position = 0;
  const auto call = [&] { (void)keys.cache.run({8, position}, inputs(keys.x), keys.body); };
  for (; position < 200; ++position)
    for (int i = 0; i < 2; ++i) call();
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_TRUE(contains(warnings.texts()[0], "GraphCache `decode`: of the last 256 calls 0 replayed a graph"))
      << warnings.texts()[0];
  EXPECT_TRUE(contains(warnings.texts()[0], "In the last 128 keys position has 128 values. ")) << warnings.texts()[0];
  EXPECT_FALSE(contains(warnings.texts()[0], "batch"));
}

TEST(GraphCacheBounds, TheFieldIsNamedAlsoIfSeveralKeysHaveEachOfItsValues) {
  const Warnings warnings;
  Keys keys({.max_entries = 4, .key_fields = {"layer", "position"}});
  for (int position = 0; position < 100; ++position)
    for (int layer = 0; layer < 6; ++layer) (void)keys.cache.run({layer, position}, inputs(keys.x), keys.body);
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_TRUE(contains(warnings.texts()[0], "keys position has ")) << warnings.texts()[0];
  EXPECT_FALSE(contains(warnings.texts()[0], "layer")) << warnings.texts()[0];
}

TEST(GraphCacheBounds, KeysThatSettleAndOthersThatComeOnceGiveNoWarning) {
  const Warnings warnings;
  Keys keys({.max_entries = 4});
  for (int round = 0; round < 600; ++round) {
    for (int key = 0; key < 3; ++key) keys.call(key);
    keys.call(1000 + round);
  }
  EXPECT_EQ(warnings.texts().size(), 0u);
}

// With max_entries keys more than there are graphs, called in turn, each call would capture.
TEST(GraphCacheBounds, AKeyThatWouldTakeThePlaceOfOneThatIsUsedMoreOftenRunsEagerlyWithOneWarning) {
  for (const std::size_t after : {0, 2}) {
    const Warnings warnings;
    Keys keys({.name = "small", .max_entries = 3, .capture_after = after});
    for (int round = 0; round < 20; ++round)
      for (int key = 0; key < 5; ++key) keys.call(key);
    const GraphCacheStatistics counts = keys.cache.statistics();
    EXPECT_EQ(counts.entries, 3u);
    EXPECT_LE(counts.captures.number, 5u);
    EXPECT_GE(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::thrashing)], 30u);
    EXPECT_GE(counts.hits, 50u);
    ASSERT_EQ(warnings.texts().size(), 1u);
    EXPECT_TRUE(contains(warnings.texts()[0], "of cache `small` runs eagerly: its graph would take the place of "));
    EXPECT_TRUE(contains(warnings.texts()[0], "max_entries = 3"));
  }
}

// The second call of a pair comes after the last use of the graph whose place it would take.
TEST(GraphCacheBounds, KeysThatAreCalledTwiceInTurnSoonRunEagerlyWithOneWarning) {
  const Warnings warnings;
  Keys keys({.max_entries = 3});
  for (int round = 0; round < 200; ++round)
    for (int key = 0; key < 5; ++key)
      for (int i = 0; i < 2; ++i) keys.call(key);
  const GraphCacheStatistics counts = keys.cache.statistics();
  EXPECT_LE(counts.captures.number, 100u) << counts.str();
  EXPECT_EQ(warnings.texts().size(), 1u);
  for (int i = 0; i < 600; ++i) keys.call(0);
  EXPECT_TRUE(keys.cache.contains({0})) << "alone in use now";
  EXPECT_GE(keys.cache.statistics().hits, counts.hits + 80);
}

TEST(GraphCacheBounds, KeysThatAreUsedNowTakeThePlaceOfThoseThatWere) {
  const Warnings warnings;
  Keys keys({.max_entries = 2, .capture_after = 1});
  for (int round = 0; round < 5; ++round)
    for (const int key : {0, 1}) keys.call(key);
  for (int round = 0; round < 5; ++round)
    for (const int key : {2, 3}) keys.call(key);
  EXPECT_EQ(keys.captured(4), (std::vector<int>{2, 3}));
  EXPECT_TRUE(warnings.texts().empty());
}

// The end of a buffer alone: all of it takes seconds under ThreadSanitizer.
void fill_end(Buffer<int>& buffer, unsigned char value) {
  constexpr std::size_t values = 1024;
  fill_async(buffer.data() + buffer.size() - values, value, values * sizeof(int));
}
int last_value(const CacheResult<int>& result) {
  int value = 0;
  copy_async(&value, result.data() + result.size() - 1, sizeof value);
  current_stream().synchronize();
  return value;
}

/// A body with scratch memory in the pool and a result, in MiB.
struct Large {
  Buffer<int> operator()() const {
    Buffer<int> scratch(scratch_mebibytes * values_per_mebibyte);
    fill_end(scratch, 1);
    Buffer<int> result(result_mebibytes * values_per_mebibyte);
    fill_end(result, value);
    return result;
  }

  std::size_t scratch_mebibytes = 12, result_mebibytes = 12;
  unsigned char value = 1;
};

TEST(GraphCacheBounds, EntriesAreReleasedToKeepTheBytesBelowTheBound) {
  // The pool has the memory of the largest body, 24 MiB; each entry adds 12 for its result.
  GraphCache cache({.max_bytes = 64u << 20, .capture_after = 0});
  for (int key = 0; key < 6; ++key) {
    const auto y = cache.run({key}, Large{12, 12, static_cast<unsigned char>(key)});
    EXPECT_EQ(last_value(y), 0x01010101 * key);
    const GraphCacheStatistics counts = cache.statistics();
    EXPECT_LE(counts.pool_bytes + counts.entry_bytes, 64u << 20);
    EXPECT_EQ(counts.pool_bytes, 24u << 20);
  }
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.entries, 3u);
  EXPECT_EQ(counts.entry_bytes, 36u << 20);
  EXPECT_EQ(counts.evictions.number, 3u);
  EXPECT_TRUE(cache.contains({5}));
}

TEST(GraphCacheBounds, AKeyThatAloneHasMoreBytesRunsEagerlyWithAWarning) {
  const Warnings warnings;
  GraphCache cache({.max_bytes = 16u << 20, .capture_after = 0, .key_fields = {"n"}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(last_value(cache.run({1}, Large{2, 12})), 0x01010101);
  EXPECT_FALSE(cache.contains({1}));
  ASSERT_TRUE(cache.failure({1}));
  EXPECT_TRUE(contains(cache.failure({1})->what, "key (n=1) runs eagerly: its graph alone needs"));
  EXPECT_EQ(warnings.texts().size(), 1u);
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.captures.number, 0u);
  EXPECT_EQ(counts.failed_captures.number, 1u);
  EXPECT_EQ(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::too_large)], 3u);
  EXPECT_EQ(counts.entry_bytes, 0u);
}

TEST(GraphCacheBounds, AKeyThatAloneHasMoreBytesReleasesNoOtherEntry) {
  const Warnings warnings;
  GraphCache cache({.max_entries = 3, .max_bytes = 60u << 20, .capture_after = 0});
  const auto call = [&](int key, const Large& body) {
    EXPECT_EQ(last_value(cache.run({key}, body)), 0x01010101 * body.value);
  };
  for (int key = 0; key < 3; ++key) call(key, {12, 12, 1});  // 24 in the pool, 12 beside it for each
  for (int i = 0; i < 2; ++i) {
    call(3, {62, 1, 2});
    call(4, {2, 40, 3});  // 40 more in the pool, and 40 beside it
  }
  EXPECT_FALSE(cache.capture({5}, Large{62, 1, 4}));
  EXPECT_TRUE(cache.failure({3}));
  EXPECT_TRUE(cache.failure({4}));
  EXPECT_FALSE(cache.failure({5}));
  EXPECT_EQ(warnings.texts().size(), 1u);
  for (int key = 0; key < 3; ++key) call(key, {12, 12, 1});
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.entries, 3u);
  EXPECT_EQ(counts.hits, 3u);
  EXPECT_EQ(counts.evictions.number, 0u);
  EXPECT_EQ(counts.pool_bytes, 24u << 20);
}

// The first part has run when the size is known, so the graph is launched.
TEST(GraphCacheBounds, AKeyWithEagerPartsThatAloneHasMoreBytesRunsEagerlyAndTakesEffectOnce) {
  const Warnings warnings;
  GraphCache cache({.max_bytes = 40u << 20, .capture_after = 0});
  Buffer<int> count = zeros();
  cache.run({0}, Large{2, 1, 1});
  for (int i = 1; i <= 3; ++i) {
    const auto y = cache.run({1}, [&] {
      eager([&count] { graphs::test::add(count); });
      return Large{30, 20, 2}();
    });
    EXPECT_EQ(last_value(y), 0x02020202);
    EXPECT_EQ(read(count), std::vector<int>{i});
  }
  EXPECT_TRUE(cache.failure({1}));
  EXPECT_EQ(warnings.texts().size(), 1u);
  EXPECT_EQ(cache.statistics().captures.number, 2u);
}

TEST(GraphCacheBounds, OneWarningTellsOfAllKeysThatAreTooLarge) {
  const Warnings warnings;
  GraphCache cache({.max_bytes = 16u << 20, .capture_after = 0});
  for (int key = 0; key < 4; ++key)
    for (int i = 0; i < 2; ++i) cache.run({key}, Large{2, 12});
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_TRUE(contains(warnings.texts().front(), "Further keys are not reported")) << warnings.texts().front();
  EXPECT_EQ(cache.statistics().entries, 0u) << "no graph whose place one could take: no warning of that";
}

// The scratch memory of a key that was released stays in the pool until the last graph of the pool is gone.
TEST(GraphCacheBounds, ANewPoolBeginsWhereMemoryOfReleasedKeysIsInTheWay) {
  const Warnings warnings;
  GraphCache cache({.max_bytes = 55u << 20, .capture_after = 0});
  EXPECT_EQ(last_value(cache.run({1}, Large{30, 10})), 0x01010101);  // 40 in the pool, 10 beside it
  const MempoolId before = cache.pool();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(last_value(cache.run({2}, Large{10, 20})), 0x01010101);  // alone 30 in the pool, 20 beside it
  }
  EXPECT_TRUE(cache.contains({2}));
  EXPECT_FALSE(cache.failure({2}));
  EXPECT_NE(cache.pool(), before);
  EXPECT_TRUE(warnings.texts().empty());
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.pool_bytes, 30u << 20);
  EXPECT_EQ(counts.entry_bytes, 20u << 20);
  EXPECT_EQ(counts.captures.number, 3u);
}

// What a cache of `max_bytes` counted after 20 rounds in which each body was called once.
GraphCacheStatistics call_in_turn(std::uint64_t max_bytes, std::size_t after, const std::vector<Large>& bodies) {
  GraphCache cache({.max_bytes = max_bytes, .capture_after = after});
  for (int round = 0; round < 20; ++round)
    for (std::size_t key = 0; key < bodies.size(); ++key)
      EXPECT_EQ(last_value(cache.run({key}, bodies[key])), 0x01010101 * bodies[key].value);
  return cache.statistics();
}

TEST(GraphCacheBounds, MemoryThatReleasedKeysLeftInThePoolIsNotHeldAgainstAKey) {
  const Warnings warnings;
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  GraphCache cache({.max_bytes = 40 * mib, .capture_after = 0});
  Buffer<int> x = zeros();
  const auto scratch = [&x](std::size_t size) {
    return [&x, size] {
      Buffer<char> memory(size * mib);
      memory.fill_bytes_async(1);
      graphs::test::add(x);
    };
  };
  const auto result = [&x] {
    Buffer<char> memory(8 * mib);
    memory.fill_bytes_async(1);
    graphs::test::add(x);
    return memory;
  };
  cache.run({"small"}, scratch(1));
  cache.run({"large"}, scratch(34));
  cache.forget({"large"});
  for (int i = 0; i < 3; ++i) {
    cache.run({"small"}, scratch(1));
    cache.run({"result"}, result);
  }
  EXPECT_TRUE(cache.contains({"small"}));
  EXPECT_TRUE(cache.contains({"result"}));
  EXPECT_TRUE(warnings.texts().empty());
}

TEST(GraphCacheBounds, AKeyThatLeavesNoRoomForOthersRunsEagerlyWithOneWarning) {
  for (const std::size_t after : {0, 2}) {
    const Warnings warnings;
    const GraphCacheStatistics counts =
        call_in_turn(24u << 20, after, {Large{1, 1, 1}, Large{1, 1, 2}, Large{1, 1, 3}, Large{30, 1, 4}});
    EXPECT_EQ(counts.entries, 3u);
    EXPECT_LE(counts.captures.number, 7u) << counts.str();
    EXPECT_GE(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::too_large)], 16u) << counts.str();
    EXPECT_EQ(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::thrashing)], 0u) << counts.str();
    ASSERT_EQ(warnings.texts().size(), 1u);
    EXPECT_TRUE(contains(warnings.texts().front(), "key (3) runs eagerly: its graph alone needs"));
  }
}

TEST(GraphCacheBounds, AKeyThatFitsReleasesOnlyAsManyOthersAsItNeeds) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  GraphCache cache({.max_bytes = 108 * mib, .capture_after = 0});
  for (int key = 0; key < 5; ++key) cache.run({key}, Large{12, 12, 1});  // 24 in the pool, 12 beside it for each
  cache.run({0}, Large{12, 12, 1});
  EXPECT_EQ(cache.size(), 5u);
  cache.run({"large"}, Large{12, 24, 1});  // 24 more in the pool, and 24 beside it
  std::vector<int> kept;
  for (int key = 0; key < 5; ++key)
    if (cache.contains({key})) kept.push_back(key);
  EXPECT_EQ(kept, (std::vector<int>{0, 3, 4}));
  EXPECT_TRUE(cache.contains({"large"}));
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.evictions.number, 2u);
  EXPECT_EQ(counts.pool_bytes + counts.entry_bytes, 108 * mib);
}

TEST(GraphCacheBounds, OfTwoKeysThatOnlyFitAloneOneRunsEagerlyWithOneWarning) {
  for (const std::size_t after : {0, 2}) {
    const Warnings warnings;
    const GraphCacheStatistics counts = call_in_turn(45u << 20, after, {Large{23, 1, 1}, Large{14, 14, 2}});
    EXPECT_EQ(counts.entries, 1u);
    EXPECT_LE(counts.captures.number, 4u) << counts.str();
    EXPECT_GE(counts.hits, 15u) << counts.str();
    EXPECT_EQ(warnings.texts().size(), 1u);
  }
}

TEST(GraphCacheBounds, AmongMoreKeysThanAreRememberedUnknownOnesRunEagerlyWithOneWarning) {
  const Warnings warnings;
  GraphCache cache({.max_entries = 2, .capture_after = 0});
  Buffer<int> count = zeros();
  const auto call = [&](int key) { cache.run({key}, [&] { graphs::test::add(count); }); };
  constexpr int many = static_cast<int>(most_keys) + 100;
  for (int key = 0; key < many; ++key) call(key);
  const std::uint64_t captures = cache.statistics().captures.number;
  for (int key = 0; key < many; ++key) call(key);
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_LE(counts.captures.number, captures + 8) << counts.str();
  EXPECT_GE(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::thrashing)], most_keys) << counts.str();
  EXPECT_EQ(read(count), std::vector<int>{2 * many});
  EXPECT_TRUE(
      std::ranges::any_of(warnings.texts(), [](const std::string& text) { return contains(text, "max_entries = 2"); }));
  for (int i = 0; i < 3; ++i) call(-1);  // alone in use now
  EXPECT_TRUE(cache.contains({-1}));
}

TEST(GraphCacheBounds, AHitThatNeedsMemoryForACopyOfAnInputCounts) {
  const Warnings warnings;
  GraphCache cache({.max_bytes = 8u << 20, .capture_after = 0});
  constexpr std::size_t values = 16 * values_per_mebibyte;
  Buffer<int> x(values + 1);
  x.fill_bytes_async(1);
  for (const std::size_t offset : {0, 1, 1, 0}) {  // not aligned: copied
    const DeviceView<const int> view(x.data() + offset, values);
    const auto body = [](DeviceView<const int> in) { return Multiplying{1}(DeviceView<const int>(in.data(), n)); };
    EXPECT_EQ(cache.run({1}, inputs(view), body).read().back(), 0x01010101);
    const GraphCacheStatistics counts = cache.statistics();
    EXPECT_EQ(counts.captures.number, 1u);
    EXPECT_LE(counts.pool_bytes + counts.entry_bytes, 8u << 20);
  }
  ASSERT_TRUE(cache.failure({1}));
  EXPECT_TRUE(contains(cache.failure({1})->what, "its graph alone needs"));
  EXPECT_EQ(warnings.texts().size(), 1u);
}

TEST(GraphCacheBounds, ACaptureThatFailsBehindAnEagerPartLeavesNoMemoryInThePool) {
  GraphCache cache({.max_bytes = 40u << 20, .capture_after = 0});
  Buffer<int> x = zeros();
  cache.run({0}, [&] { graphs::test::add(x); });
  const std::uint64_t before = cache.statistics().pool_bytes;
  EXPECT_THROW(cache.run({1},
                         [] {
                           for (const std::size_t size : {32, 48}) {
                             {
                               Buffer<int> scratch(size * values_per_mebibyte);
                               fill_end(scratch, 1);
                             }
                             eager([&] {
                               if (size == 48) throw std::runtime_error("of the eager part");
                             });
                           }
                         }),
               std::runtime_error);
  current_stream().synchronize();
  cache.run({2}, [&] { graphs::test::add(x); });
  EXPECT_EQ(cache.statistics().pool_bytes, before);
  EXPECT_TRUE(cache.contains({0}));
  EXPECT_TRUE(cache.contains({2}));
}

TEST(GraphCacheBounds, HitsReleaseWhatAnExceptionOfABodyLeftBehindAnEagerPart) {
  GraphCache cache({.max_bytes = 40u << 20, .capture_after = 0});
  Buffer<int> x = zeros();
  const auto small = [&] { graphs::test::add(x); };
  cache.run({0}, small);
  const std::uint64_t before = cache.statistics().pool_bytes;
  EXPECT_THROW(cache.run({1},
                         [] {
                           {
                             Buffer<int> scratch(32 * values_per_mebibyte);
                             fill_end(scratch, 1);
                           }
                           // The segment still runs when the body throws.
                           launch_host([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
                           eager([] {});
                           throw std::runtime_error("of the body");
                         }),
               std::runtime_error);
  current_stream().synchronize();
  cache.run({0}, small);
  EXPECT_EQ(cache.statistics().pool_bytes, before);
  EXPECT_EQ(cache.statistics().hits, 1u);
}

TEST(GraphCacheBounds, ACaptureThatFailsReleasesNoOtherEntry) {
  GraphCache cache({.max_entries = 1, .capture_after = 0});
  Buffer<int> x = zeros();
  const auto call = [&](int key, auto&& then) {
    cache.run({key}, [&] {
      graphs::test::add(x);
      then();
    });
  };
  call(0, [] {});
  call(1, [] { current_stream().synchronize(); });
  EXPECT_TRUE(cache.failure({1}));
  EXPECT_TRUE(cache.contains({0}));
  EXPECT_THROW(call(2, [] { throw std::runtime_error("of the body"); }), std::runtime_error);
  EXPECT_TRUE(cache.contains({0}));
  EXPECT_EQ(cache.statistics().evictions.number, 0u);
  call(3, [] {});
  EXPECT_FALSE(cache.contains({0}));
  EXPECT_EQ(cache.size(), 1u);
}

/// A cache that may have all memory of a small device, with graphs of the keys 0 to 2.
class GraphCachesWithoutMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int key = 0; key < 3; ++key) call(key, {12, 12, 1});  // 24 in the pool, 12 beside it for each
  }
  void call(int key, const Large& body) {
    EXPECT_EQ(last_value(cache_.run({key}, body)), 0x01010101 * body.value) << key;
  }
  std::vector<int> captured() const {
    std::vector<int> keys;
    for (int key = 0; key < 5; ++key)
      if (cache_.contains({key})) keys.push_back(key);
    return keys;
  }

  const Warnings warnings_;
  HostSimulator simulator_{{.memory_bytes = std::size_t{70} << 20}};
  const DeviceGuard there_{simulator_.device()};
  GraphCache cache_{{.max_bytes = std::size_t{70} << 20, .capture_after = 0}};
};

TEST_F(GraphCachesWithoutMemory, ReleaseIdleEntriesAndCaptureOnceMore) {
  call(3, {12, 20, 2});
  EXPECT_EQ(captured(), std::vector<int>{3});
  EXPECT_FALSE(cache_.failure({3})) << cache_.failure({3})->what;
  call(3, {12, 20, 2});
  const GraphCacheStatistics counts = cache_.statistics();
  EXPECT_EQ(counts.evictions.number, 3u);
  EXPECT_EQ(counts.captures.number, 4u);
  EXPECT_EQ(counts.failed_captures.number, 0u);
  EXPECT_EQ(counts.hits, 1u);
  EXPECT_EQ(counts.eager.number, 0u);
}

TEST_F(GraphCachesWithoutMemory, ReleaseNothingWhereThatIsNoUse) {
  EXPECT_THROW(cache_.run({3}, Large{100, 1, 2}), OutOfMemoryError);
  EXPECT_EQ(captured(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(cache_.statistics().evictions.number, 0u);
  EXPECT_FALSE(cache_.failure({3})) << "the body has no memory eagerly either";
}

TEST_F(GraphCachesWithoutMemory, CaptureAheadWhatThereIsMemoryForAndReleaseNothing) {
  EXPECT_FALSE(cache_.capture({3}, Large{12, 20, 2}));
  EXPECT_EQ(captured(), (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(cache_.failure({3}));
  EXPECT_EQ(cache_.statistics().failed_captures.number, 1u);
  cache_.clear();
  simulator_.device().synchronize();  // what entries had is released once their last launches have completed
  EXPECT_TRUE(cache_.capture({3}, Large{12, 20, 2}));
}

// Otherwise two keys that only fit alone would both be captured in each call.
TEST(GraphCacheBounds, WithoutMemoryAKeyTakesThePlaceOfIdleEntriesOnly) {
  const HostSimulator simulator({.memory_bytes = std::size_t{40} << 20});
  const DeviceGuard there(simulator.device());
  GraphCache cache({.max_bytes = std::size_t{40} << 20, .capture_after = 0, .inputs = CacheInputs::copy});
  Buffer<int> count = zeros(), x(12 * values_per_mebibyte);
  for (int round = 0; round < 4; ++round)
    for (const int key : {0, 1})  // 12 MiB for a copy of the input
      cache.run({key}, inputs(x), [&](DeviceView<const int>) { graphs::test::add(count); });
  EXPECT_EQ(read(count), std::vector<int>{8});
  EXPECT_TRUE(cache.failure({0}));
  EXPECT_TRUE(cache.contains({1}));
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.captures.number, 2u);
  EXPECT_EQ(counts.evictions.number, 1u);
  EXPECT_EQ(counts.failed_captures.number, 1u);
  EXPECT_EQ(counts.hits, 3u);
}

TEST(GraphCacheBounds, MemoryOfAReleasedEntryIsReusedByLaterOnes) {
  SideStream side;
  GraphCache cache({.max_entries = 2, .capture_after = 0});
  const auto call = [&](int key) {
    cache.run({key}, Large{});
    side.ref().synchronize();
    release_finished_graphs();
  };
  for (int key = 0; key < 4; ++key) call(key);
  const std::uint64_t before = CachingAllocator::of(current_device()).statistics().reserved_bytes;
  for (int key = 4; key < 40; ++key) call(key);
  EXPECT_EQ(CachingAllocator::of(current_device()).statistics().reserved_bytes, before);
}

}  // namespace
}  // namespace reprise::caches::test
