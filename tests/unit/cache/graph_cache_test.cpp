// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"
#include "tests/unit/random/random_fixture.h"

namespace reprise::caches::test {
namespace {

TEST(GraphCaches, TheFirstCallsOfAKeyRunEagerlyTheNextOneIsCapturedAndLaterOnesAreReplays) {
  GraphCache cache;
  Multiplying body;
  for (int i = 1; i <= 6; ++i) {
    const Buffer<int> x = counting(n, i);
    EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2 * i)) << "call " << i;
    EXPECT_EQ(body.runs, i < 3 ? i : 3) << "call " << i;
    EXPECT_EQ(cache.contains({n}), i >= 3) << "call " << i;
  }
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.eager.number, 2u);
  EXPECT_EQ(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::counted)], 2u);
  EXPECT_EQ(counts.captures.number, 1u);
  EXPECT_EQ(counts.hits, 3u);
  EXPECT_EQ(counts.entries, 1u);
}

TEST(GraphCaches, CaptureAtOnceIfNoCallIsToRunEagerly) {
  GraphCache cache({.capture_after = 0});
  Multiplying body;
  const Buffer<int> x = counting(n);
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  EXPECT_TRUE(cache.contains({n}));
  EXPECT_EQ(body.runs, 1);
}

TEST(GraphCaches, EachCallTakesEffectOnce) {
  for (const std::size_t after : {0, 1, 3})
    for (const CacheInputs how : {CacheInputs::patch, CacheInputs::copy}) {
      GraphCache cache({.capture_after = after, .check_every = 2, .inputs = how});
      Incrementing body;
      Buffer<int> x = zeros(n);
      for (int i = 1; i <= 9; ++i) {
        cache.run({n}, inputs(inout(x)), body);
        EXPECT_EQ(read(x), std::vector<int>(n, i)) << after;
      }
    }
}

TEST(GraphCaches, KeepAGraphForEachKey) {
  GraphCache cache({.capture_after = 0});
  for (int round = 0; round < 3; ++round)
    for (const int factor : {2, 3, 5}) {
      Multiplying body{factor};
      const Buffer<int> x = counting(n, round + 1);
      EXPECT_EQ(cache.run({n, factor}, inputs(x), body).read(), multiples(n, factor * (round + 1)));
      EXPECT_EQ(body.runs, round == 0 ? 1 : 0);
    }
  EXPECT_EQ(cache.size(), 3u);
}

TEST(GraphCaches, TakeBodiesWithoutInputsAndResults) {
  GraphCache cache({.capture_after = 1});
  Buffer<int> x = zeros(n);
  for (int i = 0; i < 4; ++i) cache.run({n}, [&] { graphs::test::add(x); });
  EXPECT_EQ(read(x), std::vector<int>(n, 4));
}

TEST(GraphCaches, ReturnEachBufferOfTuplesPairsArraysAndVectors) {
  GraphCache cache({.capture_after = 1});
  const auto one = [](DeviceView<const int> x, int factor) { return Multiplying{factor}(x); };
  for (int i = 1; i <= 4; ++i) {
    const Buffer<int> x = counting(n, i);
    const auto [a, b, c] =
        cache.run({"tuple"}, inputs(x), [&](auto in) { return std::tuple(one(in, 2), one(in, 3), Buffer<float>()); });
    EXPECT_EQ(a.read(), multiples(n, 2 * i));
    EXPECT_EQ(b.read(), multiples(n, 3 * i));
    EXPECT_TRUE(c.empty());
    EXPECT_EQ(c.data(), nullptr);
    const std::pair<CacheResult<int>, CacheResult<float>> pair =
        cache.run({"pair"}, inputs(x), [&](auto in) { return std::pair(one(in, 5), Buffer<float>()); });
    EXPECT_EQ(pair.first.read(), multiples(n, 5 * i));
    EXPECT_TRUE(pair.second.empty());
    const std::array<CacheResult<int>, 2> array = cache.run({"array"}, inputs(x), [&](auto in) {
      return std::array{one(in, 5), one(in, 7)};
    });
    EXPECT_EQ(array[0].read(), multiples(n, 5 * i));
    EXPECT_EQ(array[1].read(), multiples(n, 7 * i));
    const auto all = cache.run({"vector"}, inputs(x), [&](auto in) {
      std::vector<Buffer<int>> made;
      for (int k = 1; k < 4; ++k) made.push_back(one(in, k));
      return made;
    });
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[2].read(), multiples(n, 3 * i));
  }
}

TEST(GraphCaches, ResultsThatTheNextCallOfTheirKeyOverwroteAreRefused) {
  GraphCache cache({.name = "layers", .capture_after = 0, .key_fields = {"length"}});
  Multiplying body;
  const Buffer<int> x = counting(n), other = counting(n, 10);
  const CacheResult<int> first = cache.run({n}, inputs(x), body);
  EXPECT_TRUE(first.is_valid());
  const CacheResult<int> second = cache.run({n}, inputs(other), body);
  EXPECT_FALSE(first.is_valid());
  const std::string text = text_of<UsageError>([&] { first.read(); });
  EXPECT_TRUE(contains(text, "a result of replay 1 of key (length=100) of cache `layers` was overwritten by replay 2"));
  EXPECT_THROW(first.data(), UsageError);
  EXPECT_THROW(first.view(), UsageError);
  EXPECT_EQ(second.read(), multiples(n, 20));
}

TEST(GraphCaches, ResultsOfEagerRunsAndCopiedOnesStay) {
  GraphCache cache({.capture_after = 1, .outputs = CacheOutputs::copy});
  Multiplying body;
  std::vector<CacheResult<int>> results;
  for (int i = 1; i <= 4; ++i) {
    const Buffer<int> x = counting(n, i);
    results.push_back(cache.run({n}, inputs(x), body));
    current_stream().synchronize();
  }
  EXPECT_EQ(body.runs, 2);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i - 1)].read(), multiples(n, 2 * i));
}

// The later captures use memory of the pool that the first one freed.
TEST(GraphCaches, ReplaysOfOtherKeysDoNotTouchAResult) {
  GraphCache cache({.capture_after = 0});
  const Buffer<int> x = counting(n);
  Multiplying first{2}, second{3}, third{5};
  const auto call = [&](int key, Multiplying& body) { return cache.run({key}, inputs(x), body); };
  call(1, first);
  call(2, second);
  call(3, third);
  const auto a = call(3, third), b = call(2, second), c = call(1, first);
  EXPECT_EQ(a.read(), multiples(n, 5));
  EXPECT_EQ(b.read(), multiples(n, 3));
  EXPECT_EQ(c.read(), multiples(n, 2));
}

TEST(GraphCaches, ResultsOutliveTheEntryAndTheCache) {
  std::optional<GraphCache> cache(std::in_place, GraphCacheOptions{.capture_after = 0});
  Multiplying body;
  const Buffer<int> x = counting(n);
  const auto result = cache->run({n}, inputs(x), body);
  cache->clear();
  cache.reset();
  EXPECT_EQ(result.read(), multiples(n, 2));
}

TEST(GraphCaches, AResultIsAnInputOfTheNextCall) {
  GraphCache cache({.capture_after = 0});
  Multiplying body;
  const Buffer<int> x = counting(n);
  for (int i = 0; i < 3; ++i) {
    const auto twice = cache.run({n, 0}, inputs(x), body);
    EXPECT_EQ(cache.run({n, 1}, inputs(twice), body).read(), multiples(n, 4));
  }
}

TEST(GraphCaches, RefuseInputsOfOtherSizesAndOtherResults) {
  GraphCache cache({.capture_after = 0, .key_fields = {"n"}});
  Multiplying body;
  const Buffer<int> x = counting(n), larger = counting(n + 1);
  Buffer<int> changed = counting(n);
  cache.run({n}, inputs(x), body);
  const std::string text = text_of<UsageError>([&] { cache.run({n}, inputs(larger), body); });
  EXPECT_TRUE(contains(text, "expected input 0 with 400 bytes, as key (n=100) was captured with; found 404 bytes"));
  EXPECT_THROW(cache.run({n}, inputs(x, x), [&](auto in, auto) { return body(in); }), UsageError);
  EXPECT_THROW(cache.run({n}, inputs(x), [](DeviceView<const int>) {}), UsageError);
  EXPECT_THROW(cache.run({n}, inputs(inout(changed)), [&](DeviceView<int> in) { return body(in); }), UsageError);
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
}

TEST(GraphCaches, AreRefusedInsideACapture) {
  GraphCache cache({.capture_after = 0});
  Multiplying body;
  const Buffer<int> x = counting(n);
  Buffer<int> state = zeros();
  std::string text;
  CUDAGraph graph = capture([&] {
    text = text_of<UsageError>([&] { cache.run({n}, inputs(x), body); });
    EXPECT_THROW(cache.capture({n}, inputs(x), body), UsageError);
    graphs::test::add(state);
  });
  EXPECT_TRUE(contains(text, "expected a current stream that is not being captured"));
  EXPECT_EQ(body.runs, 0);
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
}

TEST(GraphCaches, MayBeCalledInABodyThatRunsEagerly) {
  GraphCache cache({.capture_after = 1});
  Multiplying inner;
  const Buffer<int> x = counting(n);
  cache.run({"outer"}, [&] {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.run({"inner"}, inputs(x), inner).read(), multiples(n, 2));
    EXPECT_TRUE(cache.forget({"inner"}));
    cache.clear();
  });
  EXPECT_EQ(inner.runs, 2);
}

TEST(GraphCaches, AreRefusedInABodyThatTheyCapture) {
  GraphCache cache({.capture_after = 0});
  const Stream elsewhere;
  Multiplying inner;
  const Buffer<int> x = counting(n);
  Buffer<int> state = zeros();
  std::vector<std::string> texts;
  cache.run({"outer"}, [&] {
    {
      const StreamGuard guard(elsewhere);
      texts.push_back(text_of<UsageError>([&] { cache.run({"inner"}, inputs(x), inner); }));
      texts.push_back(text_of<UsageError>([&] { cache.capture({"inner"}, inputs(x), inner); }));
      texts.push_back(text_of<UsageError>([&] { cache.forget({"outer"}); }));
      texts.push_back(text_of<UsageError>([&] { cache.clear(); }));
      texts.push_back(text_of<UsageError>([&] { static_cast<void>(cache.statistics()); }));
      texts.push_back(text_of<UsageError>([&] { static_cast<void>(cache.memory()); }));
      texts.push_back(text_of<UsageError>([&] { static_cast<void>(cache.size()); }));
      texts.push_back(text_of<UsageError>([&] { static_cast<void>(cache.contains({})); }));
      texts.push_back(text_of<UsageError>([&] { static_cast<void>(cache.failure({})); }));
      texts.push_back(text_of<UsageError>([&] { static_cast<void>(cache.pool()); }));
    }
    graphs::test::add(state);
  });
  EXPECT_EQ(texts.size(), 10u);
  for (const std::string& text : texts) EXPECT_TRUE(contains(text, "within a body that the same cache captures"));
  EXPECT_TRUE(cache.contains({"outer"}));
  EXPECT_EQ(read(state), std::vector<int>{1});
}

TEST(GraphCaches, AreRefusedInHooksOfTheirGraphs) {
  GraphHooks hooks;
  GraphCache* self = nullptr;
  std::vector<std::string> texts;
  hooks.before_replay = [&](auto&&...) { texts.push_back(text_of<UsageError>([&] { self->clear(); })); };
  GraphCache cache({.capture_after = 0, .capture = {.capture_error_mode = CaptureMode::thread, .hooks = hooks}});
  self = &cache;
  Buffer<int> state = zeros();
  for (int i = 0; i < 2; ++i) cache.run({n}, [&] { graphs::test::add(state); });
  EXPECT_EQ(read(state), std::vector<int>{2});
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_TRUE(contains(texts[0], "GraphCache::clear was called within a body that the same cache captures"));
}

TEST(GraphCaches, CheckThatWhatTheirGraphsUseIsAlive) {
  GraphCache cache({.name = "layers",
                    .capture_after = 0,
                    .key_fields = {"n"},
                    .capture = {.capture_error_mode = CaptureMode::thread, .check_input_liveness = true}});
  std::optional<Buffer<int>> weights(counting(n));
  const auto body = [&](DeviceView<int> y) { launch(n, Multiply{}, weights->data(), 1, y.data(), n); };
  for (int i = 0; i < 3; ++i) {
    Buffer<int> y = zeros(n);
    cache.run({n}, inputs(inout(y)), body);
    EXPECT_EQ(read(y), multiples(n, 1));
  }
  current_stream().synchronize();
  weights.reset();
  Buffer<int> y = zeros(n);
  const std::string text = text_of<DeadInputError>([&] { cache.run({n}, inputs(inout(y)), body); });
  EXPECT_TRUE(contains(text, "layers (n=100)"));
}

TEST(GraphCaches, RunOnTheStreamOfTheirDeviceWhicheverDeviceIsCurrent) {
  const std::optional<Device> second = graphs::test::second_device();
  if (!second) GTEST_SKIP() << "needs two devices";
  GraphCache cache({.capture_after = 1});
  EXPECT_EQ(cache.device(), current_device());
  Multiplying body;
  const Buffer<int> x = counting(n);
  for (int i = 0; i < 4; ++i) {
    const DeviceGuard elsewhere(*second);
    EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  }
  EXPECT_EQ(body.runs, 2);
}

TEST(GraphCaches, DrawTheRandomNumbersOfEagerCalls) {
  const auto draw = [] {
    Buffer<unsigned> y(n);
    random::test::draw(default_generator(current_device()), y);
    return y;
  };
  const auto all = [](const auto& call) {
    Generator generator = default_generator(current_device());
    generator.set_current_seed(5);
    std::vector<std::vector<unsigned>> numbers;
    for (int i = 0; i < 8; ++i) numbers.push_back(call(i));
    return numbers;
  };
  GraphCache cache({.capture_after = 1, .check_every = 2});
  const auto cached = all([&](int i) { return cache.run({i % 2}, draw).read(); });
  EXPECT_EQ(cached, all([&](int) { return draw().read(); }));
  EXPECT_EQ(cache.statistics().hits, 4u);
}

TEST(GraphCaches, ForgetAKeyAndBeginAnew) {
  GraphCache cache({.capture_after = 1});
  Multiplying body;
  const Buffer<int> x = counting(n);
  EXPECT_FALSE(cache.forget({n}));
  for (int i = 0; i < 2; ++i) cache.run({n}, inputs(x), body);
  EXPECT_TRUE(cache.forget({n}));
  EXPECT_FALSE(cache.contains({n}));
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  EXPECT_FALSE(cache.contains({n})) << "the first call runs eagerly again";
  EXPECT_EQ(body.runs, 3);
}

TEST(GraphCaches, ReleaseTheirPoolWhenTheyAreCleared) {
  SideStream side;
  GraphCache cache({.capture_after = 0});
  Multiplying body;
  const Buffer<int> x = counting(n);
  cache.run({n}, inputs(x), body);
  EXPECT_GT(cache.statistics().pool_bytes, 0u);
  EXPECT_GT(cache.statistics().entry_bytes, 0u);
  const MempoolId before = cache.pool();
  side.ref().synchronize();
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_NE(cache.pool(), before);
  EXPECT_TRUE(graphs::test::eventually([&] {
    release_finished_graphs();
    return CachingAllocator::of(current_device()).statistics(before).reserved_bytes == 0;
  }));
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
}

TEST(GraphCaches, RefuseOptionsThatCannotBe) {
  EXPECT_THROW(GraphCache({.max_entries = 0}), UsageError);
  const auto refused = [](const GraphOptions& capture) {
    return text_of<UsageError>([&] { GraphCache cache({.capture = capture}); });
  };
  EXPECT_TRUE(contains(refused({.pool = graph_pool_handle()}), "GraphOptions::pool"));
  const Stream stream;
  EXPECT_TRUE(contains(refused({.stream = stream.ref()}), "GraphOptions::stream"));
  EXPECT_TRUE(contains(refused({.warmup = 1}), "GraphOptions::warmup"));
  EXPECT_TRUE(contains(refused({.keep_graph = KeepGraph::yes}), "GraphOptions::keep_graph"));
  EXPECT_TRUE(contains(refused({.discard_template = true}), "GraphOptions::discard_template"));
  EXPECT_TRUE(contains(refused({.check_frozen_values = no_next}), "GraphOptions::check_frozen_values"));
  EXPECT_TRUE(contains(refused({.name = "x"}), "GraphOptions::name"));
}

TEST(GraphCaches, RefuseEnumeratorsWithoutAName) {
  EXPECT_TRUE(
      contains(text_of<UsageError>([] { GraphCache cache({.inputs = static_cast<CacheInputs>(7)}); }),
               "GraphCacheOptions::inputs expected CacheInputs::patch or CacheInputs::copy; found the number 7"));
  EXPECT_TRUE(contains(text_of<UsageError>([] { GraphCache cache({.outputs = static_cast<CacheOutputs>(7)}); }),
                       "GraphCacheOptions::outputs expected CacheOutputs::alias or CacheOutputs::copy"));
  EXPECT_TRUE(contains(
      text_of<UsageError>([] { GraphCache cache({.capture = {.capture_error_mode = static_cast<CaptureMode>(7)}}); }),
      "GraphOptions::capture_error_mode expected"));
}

TEST(GraphCaches, RefuseAnotherBodyForAKeyThatIsCaptured) {
  GraphCache cache({.capture_after = 0, .padding = [](std::size_t length) { return (length + 63) / 64 * 64; }});
  const Buffer<int> x = counting(64);
  const auto doubled = [](DeviceView<const int> in) {
    Buffer<int> y(in.size());
    launch(in.size(), Multiply{}, in.data(), 2, y.data(), in.size());
    return y;
  };
  auto same = doubled;
  const auto other = [&](DeviceView<const int> in) { return doubled(in); };
  const auto padded = [&](std::size_t, DeviceView<const int> in) { return doubled(in); };
  EXPECT_EQ(cache.run({64}, inputs(x), doubled).read(), multiples(64, 2));
  EXPECT_EQ(cache.run({64}, inputs(x), same).read(), multiples(64, 2)) << "that is not const";
  EXPECT_TRUE(contains(text_of<UsageError>([&] { cache.run({64}, inputs(x), other); }), "expected the same body"));
  EXPECT_THROW(cache.run_padded({}, 64, inputs(x), padded), UsageError);
  EXPECT_EQ(cache.run({64}, inputs(x), doubled).read(), multiples(64, 2));
}

Buffer<int> doubled_by_function(DeviceView<const int> x) {
  return Multiplying{2}(x);
}
Buffer<int> tripled_by_function(DeviceView<const int> x) {
  return Multiplying{3}(x);
}
Buffer<int> tripled_without_exceptions(DeviceView<const int> x) noexcept {
  return Multiplying{3}(x);
}
Buffer<int> padded_by_function(std::size_t, DeviceView<const int> x) {
  return Multiplying{2}(x);
}
Buffer<int> otherwise_padded_by_function(std::size_t, DeviceView<const int> x) {
  return Multiplying{3}(x);
}

TEST(GraphCaches, RefuseAnotherFunctionForAKeyThatIsCaptured) {
  GraphCache cache({.capture_after = 0, .padding = [](std::size_t length) { return length; }});
  const Buffer<int> x = counting(n);
  const auto refuses = [&](auto&& body) {
    return contains(text_of<UsageError>([&] { cache.run({n}, inputs(x), body); }), "expected the same body");
  };
  cache.run({n}, inputs(x), doubled_by_function);
  EXPECT_EQ(cache.run({n}, inputs(x), &doubled_by_function).read(), multiples(n, 2));
  EXPECT_TRUE(refuses(&tripled_by_function));
  EXPECT_TRUE(refuses(tripled_by_function));
  EXPECT_EQ(cache.run({n}, inputs(x), doubled_by_function).read(), multiples(n, 2));

  cache.run_padded({"padded"}, n, inputs(x), padded_by_function);
  EXPECT_EQ(cache.run_padded({"padded"}, n, inputs(x), padded_by_function).read(), multiples(n, 2));
  EXPECT_THROW(cache.run_padded({"padded"}, n, inputs(x), otherwise_padded_by_function), UsageError);
}

TEST(GraphCaches, RefuseAStdFunctionWithAnotherTargetForAKeyThatIsCaptured) {
  using Function = std::function<Buffer<int>(DeviceView<const int>)>;
  const Buffer<int> x = counting(n);
  const auto lambda = [](DeviceView<const int> in) { return Multiplying{2}(in); };
  const auto other = [](DeviceView<const int> in) { return Multiplying{3}(in); };
  const std::vector<Function> functions{doubled_by_function, tripled_by_function, tripled_without_exceptions, lambda,
                                        other};
  for (std::size_t first = 0; first < functions.size(); ++first) {
    GraphCache cache({.capture_after = 0});
    cache.run({n}, inputs(x), functions[first]);
    for (std::size_t second = 0; second < functions.size(); ++second) {
      Function copy = functions[second];
      if (second == first)
        EXPECT_NO_THROW(cache.run({n}, inputs(x), copy)) << first;
      else
        EXPECT_THROW(cache.run({n}, inputs(x), copy), UsageError) << first << ", " << second;
    }
    EXPECT_EQ(cache.statistics().hits, 1u);
  }
}

}  // namespace
}  // namespace reprise::caches::test
