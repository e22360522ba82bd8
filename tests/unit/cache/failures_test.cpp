// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "tests/unit/cache/cache_fixture.h"

namespace reprise::caches::test {
namespace {

/// A body with a call that no capture allows, after its work.
struct Waiting {
  Buffer<int> operator()(DeviceView<const int> x) {
    Buffer<int> y = multiplying(x);
    current_stream().synchronize();
    return y;
  }
  Multiplying multiplying;
};

TEST(FailuresOfGraphCaches, ACaptureThatFailsMakesItsKeyEagerAndTheCallTakesEffectOnce) {
  GraphCache cache({.capture_after = 1});
  Buffer<int> state = zeros();
  const auto body = [&] {
    graphs::test::add(state);
    current_stream().synchronize();
  };
  Multiplying other;
  const Buffer<int> x = counting(n);
  for (int i = 1; i <= 5; ++i) {
    cache.run({n}, body);
    EXPECT_EQ(read(state), std::vector<int>{i});
    EXPECT_EQ(cache.run({n, "other"}, inputs(x), other).read(), multiples(n, 2));
  }
  EXPECT_FALSE(cache.contains({n}));
  EXPECT_TRUE(cache.contains({n, "other"}));
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.failed_captures.number, 1u);
  EXPECT_EQ(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::failed)], 4u);
  const auto failure = cache.failure({n});
  ASSERT_TRUE(failure);
  EXPECT_TRUE(contains(failure->what, "cuStreamSynchronize"));
  ASSERT_TRUE(failure->report);
  ASSERT_TRUE(failure->report->broken_by);
  EXPECT_EQ(failure->report->broken_by->name, "cuStreamSynchronize");
  EXPECT_FALSE(cache.failure({n, "other"}));
}

TEST(FailuresOfGraphCaches, AnErrorOfTheBodyInACheckKeepsTheGraph) {
  GraphCache cache({.capture_after = 0, .check_every = 1});
  Buffer<int> state = zeros();
  bool throws = false;
  const auto call = [&] {
    cache.run({n}, [&] {
      if (throws) throw UsageError("of the body");
      graphs::test::add(state);
    });
  };
  call();
  throws = true;
  EXPECT_EQ(text_of<UsageError>(call), "of the body");
  EXPECT_TRUE(cache.contains({n}));
  EXPECT_FALSE(cache.failure({n}));
  throws = false;
  call();
  EXPECT_EQ(read(state), std::vector<int>{2});
  EXPECT_EQ(cache.statistics().captures.number, 1u);
}

TEST(FailuresOfGraphCaches, AnEmptyFunctionIsRefused) {
  GraphCache cache({.capture_after = 1, .padding = [](std::size_t length) { return length; }});
  const Buffer<int> x = counting(n);
  const std::function<void()> empty;
  const std::function<void(std::size_t, DeviceView<const int>)> padded;
  void (*const null)() = nullptr;
  const std::string what = " expected a body; found an empty std::function, or a null pointer.";
  EXPECT_EQ(text_of<UsageError>([&] { cache.run({0}, empty); }), "GraphCache::run" + what);
  EXPECT_EQ(text_of<UsageError>([&] { cache.run({0}, null); }), "GraphCache::run" + what);
  EXPECT_EQ(text_of<UsageError>([&] { cache.run_padded({0}, n, inputs(x), padded); }), "GraphCache::run" + what);
  EXPECT_EQ(text_of<UsageError>([&] { cache.capture({0}, empty); }), "GraphCache::capture" + what);
  EXPECT_EQ(cache.statistics().eager.number, 0u);
}

// A hook that throws does not undo the launch.
TEST(FailuresOfGraphCaches, WhatALaunchDidStaysWhereAHookThrowsAfterIt) {
  for (const CacheInputs how : {CacheInputs::copy, CacheInputs::patch}) {
    GraphCache cache({.capture_after = 0, .inputs = how});
    const Buffer<int> a = counting(n), b = counting(n, 10);
    Buffer<int> changed = zeros();
    const auto twice = [&](const Buffer<int>& x) { return cache.run({"results"}, inputs(x), Multiplying{}); };
    const auto count = [&] { cache.run({"inout"}, inputs(inout(changed)), Incrementing{}); };
    const auto plain = [&] { cache.run({"plain"}, [&] { graphs::test::add(changed); }); };
    const auto first = twice(a);
    count();
    plain();
    const Stream other;
    {
      GlobalGraphHooks hooks;
      hooks.after_replay = [](auto&&...) { throw std::runtime_error("of the hook"); };
      const HookId id = add_global_hooks(hooks);
      EXPECT_THROW((void)twice(b), std::runtime_error);
      EXPECT_THROW(count(), std::runtime_error);
      const StreamGuard current(other);
      EXPECT_THROW(plain(), std::runtime_error);
      remove_global_hooks(id);
    }
    EXPECT_FALSE(first.is_valid());
    plain();  // after the launch on the other stream
    EXPECT_EQ(read(changed), std::vector<int>{5});
    EXPECT_EQ(twice(a).read(), multiples(n, 2));
  }
}

TEST(FailuresOfGraphCaches, ACopyThatFailsBehindAnEagerRunIsNamed) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected into host devices";
  GraphCache cache({.capture_after = 5, .padding = [](std::size_t) { return std::size_t{8}; }});
  Buffer<int> x = zeros(), runs = zeros();
  const auto count = [&] {
    cache.run_padded({0}, 1, inputs(inout(x)), [&](std::size_t padded, DeviceView<int> view) {
      launch(padded, Add{}, view.data(), 1, padded);
      graphs::test::add(runs);
    });
  };
  count();
  for (unsigned nth = 1; nth < 9; ++nth) {
    const InjectedFailure failure({.call = "cuLaunchKernelEx", .code = ErrorCode::launch_failure, .nth = nth});
    const std::vector<int> runs_before = read(runs), x_before = read(x);
    const std::string what = text_of<BackendError>(count);
    ASSERT_TRUE(failure.happened());
    if (read(runs) == runs_before) continue;  // it failed in the body, or before
    EXPECT_TRUE(contains(what, "the body has run, but what it changed in its inputs was not copied back")) << what;
    EXPECT_TRUE(contains(what, "injected")) << what;
    EXPECT_EQ(read(x), x_before);
    return;
  }
  FAIL() << "no failure behind the body";
}

TEST(FailuresOfGraphCaches, ACopyThatFailsBehindALaunchIsNamedAndTheLaunchCounts) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected into host devices";
  GraphCache cache({.capture_after = 0, .inputs = CacheInputs::copy, .outputs = CacheOutputs::copy});
  Buffer<int> changed = zeros(), launches = zeros();
  const auto count = [&] {
    cache.run({"inout"}, inputs(inout(changed)), [&](DeviceView<int> x) {
      Incrementing{}(x);
      graphs::test::add(launches);
    });
  };
  const Buffer<int> x = counting(n);
  const auto twice = [&] { return cache.run({"results"}, inputs(x), Multiplying{}); };
  count();
  (void)twice();
  const auto text_with_a_failure = [&](const auto& run, const char* call, unsigned nth) {
    const InjectedFailure failure({.call = call, .code = ErrorCode::launch_failure, .nth = nth});
    const std::string what = text_of<BackendError>(run);
    EXPECT_TRUE(failure.happened());
    return what;
  };
  // The first launch copies into static memory.
  const std::string what = text_with_a_failure(count, "cuLaunchKernelEx", 2);
  EXPECT_TRUE(contains(what, "the graph was launched, but what the body changed in its inputs was not copied back"))
      << what;
  EXPECT_TRUE(contains(what, "injected")) << what;
  EXPECT_EQ(read(changed), std::vector<int>{1});
  EXPECT_EQ(read(launches), std::vector<int>{2});
  EXPECT_TRUE(contains(text_with_a_failure(twice, "cuMemcpyAsync", 1),
                       "the graph was launched, but its results were not copied"));
  count();
  EXPECT_EQ(read(changed), std::vector<int>{2});
  EXPECT_EQ(twice().read(), multiples(n, 2));
}

TEST(FailuresOfGraphCaches, AnErrorOfTheFirstQueryNamesTheCallOfTheCache) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected into host devices";
  GraphCache cache({.capture_after = 0});
  const Stream stream;
  const StreamGuard current(stream);
  const InjectedFailure failure({.call = "cuStreamIsCapturing", .code = ErrorCode::unknown});
  const std::string what = text_of<BackendError>([&] { cache.run({n}, [] {}); });
  EXPECT_TRUE(contains(what, "GraphCache::run: cuStreamIsCapturing returned 999")) << what;
}

TEST(FailuresOfGraphCaches, AKeyIsCapturedAgainWhenItWasForgotten) {
  GraphCache cache({.capture_after = 0});
  bool waits = true;
  Multiplying multiplying;
  const Buffer<int> x = counting(n);
  const auto body = [&](DeviceView<const int> in) {
    Buffer<int> y = multiplying(in);
    if (waits) current_stream().synchronize();
    return y;
  };
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  EXPECT_TRUE(cache.failure({n}));
  waits = false;
  cache.run({n}, inputs(x), body);
  EXPECT_FALSE(cache.contains({n}));
  EXPECT_TRUE(cache.forget({n}));
  EXPECT_FALSE(cache.failure({n}));
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  EXPECT_TRUE(cache.contains({n}));
}

TEST(FailuresOfGraphCaches, AnExceptionOfTheBodyIsTheCallersAndChangesNothing) {
  for (const std::size_t after : {0, 1, 2}) {
    GraphCache cache({.capture_after = after});
    Buffer<int> state = zeros();
    bool throws = true;
    int runs = 0;
    const auto body = [&] {
      ++runs;
      if (throws) throw std::runtime_error("no weights");
      graphs::test::add(state);
    };
    for (int i = 0; i < 3; ++i) EXPECT_EQ(text_of<std::runtime_error>([&] { cache.run({n}, body); }), "no weights");
    EXPECT_EQ(runs, 3);
    EXPECT_FALSE(cache.failure({n}));
    EXPECT_EQ(cache.statistics().keys, 0u);
    throws = false;
    for (std::size_t i = 0; i < after; ++i) cache.run({n}, body);
    throws = true;
    EXPECT_THROW(cache.run({n}, body), std::runtime_error);
    throws = false;
    EXPECT_FALSE(cache.contains({n}));
    cache.run({n}, body);
    EXPECT_TRUE(cache.contains({n}));
    EXPECT_EQ(read(state), std::vector<int>{static_cast<int>(after) + 1});
  }
}

TEST(FailuresOfGraphCaches, AnErrorOfTheLibraryThatTheBodyAlsoHasEagerlyIsTheCallers) {
  GraphCache cache({.capture_after = 0});
  int runs = 0;
  const auto body = [&] {
    ++runs;
    throw UsageError("wrong use");
  };
  EXPECT_EQ(text_of<UsageError>([&] { cache.run({n}, body); }), "wrong use");
  EXPECT_EQ(runs, 2);
  EXPECT_FALSE(cache.failure({n}));
}

// A capture ahead cannot run the body eagerly to find out whose error it is.
TEST(FailuresOfGraphCaches, AnErrorOfTheBodyInACaptureAheadIsTheCallersAndChangesNothing) {
  GraphCache cache({.capture_after = 2});
  Buffer<int> state = zeros();
  bool throws = true;
  const auto body = [&] {
    graphs::test::add(state);
    if (throws) throw UsageError("no weights");
  };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(text_of<UsageError>([&] { cache.capture({0}, body); }), "no weights");
  EXPECT_FALSE(cache.failure({0}));
  EXPECT_EQ(cache.statistics().keys, 0u);
  EXPECT_EQ(cache.statistics().failed_captures.number, 0u);
  EXPECT_EQ(read(state), std::vector<int>{0});
  throws = false;
  EXPECT_TRUE(cache.capture({0}, body));
  cache.run({0}, body);
  EXPECT_EQ(read(state), std::vector<int>{1});
  EXPECT_EQ(cache.statistics().hits, 1u);
}

TEST(FailuresOfGraphCaches, ACaptureThatAnotherThreadBrokeIsMadeAgain) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> state = zeros();
  int broken = 0, captures = 0;
  const auto body = [&] {
    graphs::test::add(state);
    if (current_stream().capture_status() == CaptureStatus::none || captures++ >= broken) return;
    const Device device = current_device();
    std::thread([&] { EXPECT_THROW(device.synchronize(), BackendError); }).join();
  };
  int runs = 0;
  for (broken = 1; broken <= 3; broken += 2) {
    captures = 0;
    for (int i = 0; i < 5; ++i) {
      cache.run({broken}, body);
      EXPECT_EQ(read(state), std::vector<int>{++runs});
    }
    EXPECT_EQ(cache.contains({broken}), broken == 1);
    EXPECT_FALSE(cache.failure({broken}));
  }
  broken = 0;
  for (int i = 0; i < 5; ++i) cache.run({3}, body);
  EXPECT_TRUE(cache.contains({3})) << "after calls that ran eagerly";
  EXPECT_EQ(cache.statistics().failed_captures.number, 4u);
}

TEST(FailuresOfGraphCaches, ACaptureThatAnotherThreadBrokeInACheckOrAheadLeavesTheKeyAsItWas) {
  GraphCache cache({.capture_after = 0, .check_every = 1});
  Buffer<int> state = zeros();
  bool breaks = false;
  const auto body = [&] {
    graphs::test::add(state);
    const Device device = current_device();
    if (breaks) std::thread([&] { EXPECT_THROW(device.synchronize(), BackendError); }).join();
  };
  cache.run({0}, body);
  breaks = true;
  cache.run({0}, body);
  EXPECT_FALSE(cache.capture({1}, body));
  breaks = false;
  EXPECT_TRUE(cache.contains({0}));
  EXPECT_FALSE(cache.failure({1}));
  EXPECT_TRUE(cache.capture({1}, body));
  cache.run({0}, body);
  EXPECT_EQ(read(state), std::vector<int>{3});
}

TEST(FailuresOfGraphCaches, AParameterInTheBodyIsRefused) {
  Buffer<int> state = zeros();
  GraphCache cache({.capture_after = 1});
  int expected = 0;
  const auto call = [&](int amount) {
    expected += amount;
    cache.run({0}, [&] { launch(1, Add{}, state.data(), Parameter<int>(amount), std::size_t{1}); });
  };
  call(1);
  const std::string text = text_of<UsageError>([&] { call(2); });
  EXPECT_TRUE(contains(text,
                       "GraphCache::run: expected a body that passes no Parameter to launch(), and replays no graph "
                       "that has one; found one, for the kernel"))
      << text;
  expected -= 2;
  EXPECT_EQ(read(state), std::vector<int>{expected}) << "the call took no effect";
  ASSERT_TRUE(cache.failure({0}));
  EXPECT_EQ(cache.failure({0})->what, text);
  for (int i = 3; i < 6; ++i) call(i);
  EXPECT_EQ(read(state), std::vector<int>{expected}) << "eager from now on";
}

TEST(FailuresOfGraphCaches, AGraphWithAParameterInTheBodyIsRefused) {
  const Parameter<int> amount(1);
  Buffer<int> state = zeros();
  CUDAGraph child, without, outer;
  capture(child, [&] { launch(1, Add{}, state.data(), amount, std::size_t{1}); });
  capture(without, [&] { launch(1, Add{}, state.data(), Parameter<int>(1), std::size_t{1}); });
  capture(outer, [&] { child.replay(); });
  for (CUDAGraph* const each : {&child, &outer}) {
    GraphCache cache({.capture_after = 0});
    const std::string text = text_of<UsageError>([&] { cache.run({0}, [&] { each->replay(); }); });
    EXPECT_TRUE(contains(text, "found one, of a child graph")) << text;
    for (int i = 1; i < 4 && each == &child; ++i) {
      child.set(amount, i);
      cache.run({0}, [&] { each->replay(); });
      EXPECT_EQ(read(state), std::vector<int>{i * (i + 1) / 2}) << "eager from now on";
    }
  }
  GraphCache cache({.capture_after = 0});
  cache.run({0}, [&] { without.replay(); });
  EXPECT_TRUE(cache.contains({0})) << "nothing can set it";
}

// Programs throw exceptions of their own when a call of CUDA fails.
TEST(FailuresOfGraphCaches, AnExceptionInACaptureThatIsBrokenIsAFailureOfTheCapture) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> state = zeros();
  const auto body = [&] {
    graphs::test::add(state);
    if (current_stream().device().backend().stream_synchronize(current_stream().native()) != ErrorCode::success)
      throw std::runtime_error("CUDA failed");
  };
  cache.run({n}, body);
  EXPECT_EQ(read(state), std::vector<int>{1});
  ASSERT_TRUE(cache.failure({n}));
  EXPECT_EQ(cache.failure({n})->what, "CUDA failed");
}

TEST(FailuresOfGraphCaches, ABodyWithoutWorkRunsEagerlyUnlessEmptyGraphsAreAllowed) {
  GraphCache cache({.capture_after = 0}), allowing({.capture_after = 0, .capture = {.allow_empty = true}});
  cache.run({n}, [] {});
  EXPECT_TRUE(cache.failure({n}));
  allowing.run({n}, [] {});
  EXPECT_TRUE(allowing.contains({n}));
}

TEST(FailuresOfGraphCaches, AFailedCaptureLeavesNoMemoryInThePool) {
  graphs::test::settle_memory();
  GraphCache cache({.capture_after = 0});
  Waiting body;
  const Buffer<int> x = counting(n);
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  EXPECT_TRUE(cache.failure({n}));
  EXPECT_EQ(cache.statistics().pool_bytes, 0u);
  EXPECT_EQ(cache.statistics().entry_bytes, 0u);
}

TEST(FailuresOfGraphCaches, WithoutMemoryForTheirInputsKeysAreEager) {
  GraphCache cache({.capture_after = 0, .inputs = CacheInputs::copy});
  Multiplying body;
  // Views of more memory than the device has: the body uses the first values.
  const Buffer<int> x = counting(n);
  const DeviceView<const int> huge(x.data(), current_device().memory_info().total);
  const auto first = [&](DeviceView<const int> in) { return body({in.data(), n}); };
  EXPECT_EQ(cache.run({n}, inputs(huge), first).read(), multiples(n, 2));
  EXPECT_FALSE(cache.contains({n}));
  ASSERT_TRUE(cache.failure({n}));
  EXPECT_TRUE(contains(cache.failure({n})->what, "memory"));
  EXPECT_EQ(body.runs, 1);
}

TEST(ChecksOfGraphCaches, NameWhatTheKeyLacks) {
  GraphCache cache({.name = "steps", .capture_after = 0, .check_every = 3, .key_fields = {"n"}});
  Multiplying body;
  const Buffer<int> x = counting(n);
  for (int i = 0; i < 2; ++i) cache.run({n}, inputs(x), body);
  body.factor = 7;  // replays go on with 2
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  const std::string text = text_of<UsageError>([&] { cache.run({n}, inputs(x), body); });
  EXPECT_TRUE(contains(text, "the body of key (n=100) of cache `steps` is always captured as the same graph"));
  EXPECT_TRUE(contains(text, "argument 1"));
  EXPECT_TRUE(contains(text, "0x2 (2"));
  EXPECT_TRUE(contains(text, "0x7 (7"));
  EXPECT_FALSE(cache.contains({n}));
  ASSERT_TRUE(cache.failure({n}));
  EXPECT_EQ(cache.failure({n})->what, text);
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 7)) << "eager from now on";
  EXPECT_EQ(cache.statistics().checks.number, 1u);
}

TEST(ChecksOfGraphCaches, NameWhatBodiesOfOneTypeHold) {
  const auto times = [](int factor) -> std::function<Buffer<int>(DeviceView<const int>)> {
    return [factor](DeviceView<const int> in) { return Multiplying{factor}(in); };
  };
  GraphCache cache({.capture_after = 0, .check_every = 2});
  const Buffer<int> x = counting(n);
  for (const int factor : {2, 7}) EXPECT_EQ(cache.run({n}, inputs(x), times(factor)).read(), multiples(n, 2));
  const std::string text = text_of<UsageError>([&] { cache.run({n}, inputs(x), times(7)); });
  EXPECT_TRUE(contains(text, "argument 1: 0x2 (2,"));
  EXPECT_TRUE(contains(text, "then 0x7 (7,"));
}

TEST(ChecksOfGraphCaches, FindProgressMarksUnchanged) {
  GraphCache cache({.capture_after = 0, .check_every = 1, .capture = {.progress_marks = true}});
  Buffer<int> x = counting(n);
  for (int i = 0; i < 3; ++i)
    cache.run({n}, inputs(inout(x)), [](DeviceView<int> view) {
      const annotate scope("step");
      Incrementing()(view);
    });
  EXPECT_EQ(cache.statistics().checks.number, 2u);
  EXPECT_EQ(cache.statistics().hits, 2u);
}

TEST(ChecksOfGraphCaches, NameMemoryThatMoved) {
  GraphCache cache({.capture_after = 0, .check_every = 1});
  Buffer<int> weights = counting(n);
  const auto body = [&](DeviceView<int> y) { launch(n, Multiply{}, weights.data(), 1, y.data(), n); };
  Buffer<int> y = zeros(n);
  for (int i = 0; i < 3; ++i) cache.run({n}, inputs(inout(y)), body);
  const Buffer<int> before = std::move(weights);
  weights = counting(n, 5);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { cache.run({n}, inputs(inout(y)), body); }), "argument 0"));
}

/// A body with two results, or others while `changed`.
template <class Change>
void expect_found_in_results(CacheOutputs outputs, const Change& change, const std::string& difference) {
  GraphCache cache({.capture_after = 0, .check_every = 2, .outputs = outputs});
  const Buffer<int> x = counting(n);
  bool changed = false;
  const auto body = [&](DeviceView<const int> in) {
    std::vector<Buffer<int>> results;
    for (const int factor : {2, 3}) results.push_back(Multiplying{factor}(in));
    if (changed) change(results);
    return results;
  };
  const auto call = [&] { return cache.run({n}, inputs(x), body); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(call()[1].read(), multiples(n, 3));
  changed = true;
  EXPECT_TRUE(contains(text_of<UsageError>(call), difference));
  EXPECT_FALSE(cache.contains({n}));
}

TEST(ChecksOfGraphCaches, FindOtherResults) {
  using Results = std::vector<Buffer<int>>;
  const auto swapped = [](Results& results) { std::swap(results[0], results[1]); };
  expect_found_in_results(CacheOutputs::copy, swapped, "result 1: 0x");
  expect_found_in_results(CacheOutputs::alias, swapped, "operation 1: source");
  for (const CacheOutputs outputs : {CacheOutputs::copy, CacheOutputs::alias}) {
    expect_found_in_results(
        outputs, [](Results& results) { results.pop_back(); }, "results: 2, then 1");
    expect_found_in_results(
        outputs, [](Results& results) { results[1] = Buffer<int>(2 * n); }, "result 1: 400 bytes, then 800");
  }
}

TEST(ChecksOfGraphCaches, FindResultsWhereThereWereNone) {
  for (const CacheOutputs outputs : {CacheOutputs::copy, CacheOutputs::alias}) {
    GraphCache cache({.capture_after = 0, .check_every = 2, .outputs = outputs});
    const Buffer<int> x = counting(n);
    bool returns = false;
    const auto body = [&](DeviceView<const int> in) {
      std::vector<Buffer<int>> results;
      results.push_back(Multiplying()(in));
      if (!returns) results.clear();
      return results;
    };
    const auto call = [&] { return cache.run({n}, inputs(x), body); };
    for (int i = 0; i < 2; ++i) EXPECT_EQ(call().size(), 0u);
    returns = true;
    EXPECT_TRUE(contains(text_of<UsageError>(call), "results: 0, then 1"));
    const auto results = call();
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].read(), multiples(n, 2)) << "eager from now on";
  }
}

TEST(ChecksOfGraphCaches, FindNothingInABodyThatIsTheSame) {
  for (const CacheInputs how : {CacheInputs::patch, CacheInputs::copy})
    for (const CacheOutputs outputs : {CacheOutputs::alias, CacheOutputs::copy}) {
      GraphCache cache({.capture_after = 1, .check_every = 1, .inputs = how, .outputs = outputs});
      Multiplying body;
      for (int i = 1; i <= 8; ++i)
        for (const std::size_t size : {n, 3 * n}) {
          const Buffer<int> x = counting(size, i);
          EXPECT_EQ(cache.run({size}, inputs(x), body).read(), multiples(size, 2 * i));
        }
      EXPECT_EQ(cache.statistics().checks.number, 12u);
    }
}

TEST(ChecksOfGraphCaches, ThatCannotCaptureTheBodyAnyMoreMakeTheKeyEager) {
  GraphCache cache({.capture_after = 0, .check_every = 2});
  bool waits = false;
  Multiplying multiplying;
  const Buffer<int> x = counting(n);
  const auto body = [&](DeviceView<const int> in) {
    Buffer<int> y = multiplying(in);
    if (waits) current_stream().synchronize();
    return y;
  };
  cache.run({n}, inputs(x), body);
  cache.run({n}, inputs(x), body);
  waits = true;
  EXPECT_EQ(cache.run({n}, inputs(x), body).read(), multiples(n, 2));
  EXPECT_FALSE(cache.contains({n}));
  ASSERT_TRUE(cache.failure({n}));
  EXPECT_TRUE(contains(cache.failure({n})->what, "cuStreamSynchronize"));
}

TEST(ChecksOfGraphCaches, PassOnAnExceptionOfTheBodyAndChangeNothing) {
  GraphCache cache({.capture_after = 0, .check_every = 2});
  Buffer<int> state = zeros();
  bool throws = false;
  const auto body = [&] {
    if (throws) throw std::runtime_error("no weights");
    graphs::test::add(state);
  };
  for (int i = 0; i < 2; ++i) cache.run({n}, body);
  throws = true;
  EXPECT_THROW(cache.run({n}, body), std::runtime_error);
  throws = false;
  EXPECT_TRUE(cache.contains({n}));
  cache.run({n}, body);
  EXPECT_EQ(read(state), std::vector<int>{3});
  EXPECT_EQ(cache.statistics().hits, 2u);
}

}  // namespace
}  // namespace reprise::caches::test
