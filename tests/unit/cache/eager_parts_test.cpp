// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"

// Bodies of a GraphCache with eager parts.

namespace reprise::caches::test {
namespace {

/// Adds one to its state and returns the double of its input plus what an eager part decides on the host.
struct Deciding {
  Buffer<int> operator()(DeviceView<const int> x) {
    ++runs;
    Buffer<int> y(x.size());
    launch(x.size(), Multiply{}, x.data(), 2, y.data(), x.size());
    graphs::test::add(state);
    const Buffer<int> more = eager([this, p = y.data()] {
      ++parts;
      int value = 0;
      copy_async(&value, p, sizeof(value));
      current_stream().synchronize();
      if (fails) throw std::runtime_error("of the part");
      Buffer<int> made(1);
      made.write(std::vector<int>{value >= 6 ? 1000 : 0});
      return made;
    });
    launch(1, AddFirst{}, y.data(), more.data());
    return y;
  }

  /// y[0] += x[0]
  struct AddFirst {
    REPRISE_KERNEL void operator()(Thread t, int* y, const int* x) const {
      if (t.global_x() == 0) y[0] += x[0];
    }
    static auto accesses(int* y, const int* x) { return std::array{reads(y, 1), writes(y, 1), reads(x, 1)}; }
  };

  int runs = 0, parts = 0;
  bool fails = false;
  Buffer<int> state = zeros();
};

std::vector<int> expected(int factor) {
  std::vector<int> values = multiples(n, 2 * factor);
  if (values[0] >= 6) values[0] += 1000;
  return values;
}

class CachesWithEagerParts : public ::testing::Test {
 protected:
  CacheResult<int> call(GraphCache& cache, int factor) {
    const Buffer<int> x = counting(n, factor);
    CacheResult<int> result = cache.run({1}, inputs(x), body_);
    EXPECT_EQ(result.read(), expected(factor)) << factor;
    return result;
  }

  Deciding body_;
};

TEST_F(CachesWithEagerParts, TakeEffectOnceInEachCall) {
  GraphCache cache({.capture_after = 1});
  for (int i = 1; i <= 6; ++i) {
    call(cache, i);
    EXPECT_EQ(graphs::test::first(body_.state), i);
    EXPECT_EQ(body_.parts, i);
  }
  EXPECT_EQ(body_.runs, 2) << "once eagerly, once captured";
  const GraphCacheStatistics counts = cache.statistics();
  EXPECT_EQ(counts.captures.number, 1u);
  EXPECT_EQ(counts.hits, 4u);
}

TEST_F(CachesWithEagerParts, WorkWithAllWaysOfInputsAndOutputs) {
  for (const CacheOutputs outputs : {CacheOutputs::alias, CacheOutputs::copy})
    for (const CacheInputs how : {CacheInputs::patch, CacheInputs::copy}) {
      GraphCache cache({.capture_after = 0, .check_every = 2, .inputs = how, .outputs = outputs});
      for (int i = 1; i <= 4; ++i) call(cache, i);
      EXPECT_EQ(cache.statistics().failed_captures.number, 0u);
      EXPECT_EQ(cache.statistics().checks.number, 0u) << "these bodies are not compared";
    }
}

TEST_F(CachesWithEagerParts, MayHaveNoOtherWork) {
  GraphCache cache({.capture_after = 1});
  int parts = 0;
  for (int i = 1; i <= 4; ++i) {
    cache.run({0}, [&parts] { eager([&parts] { ++parts; }); });
    EXPECT_EQ(parts, i);
  }
  EXPECT_EQ(cache.statistics().hits, 2u);
}

TEST_F(CachesWithEagerParts, ChangeInputsInPlaceOnce) {
  GraphCache cache({.capture_after = 0});
  for (int i = 1; i <= 3; ++i) {
    Buffer<int> here = counting(n, i);
    cache.run({0}, inputs(inout(here)), [](DeviceView<int> view) {
      launch(view.size(), Add{}, view.data(), 1, view.size());
      eager([view](StreamRef stream) { launch(stream, view.size(), Add{}, view.data(), 10, view.size()); });
      launch(view.size(), Add{}, view.data(), 100, view.size());
    });
    EXPECT_EQ(graphs::test::first(here), i + 111);
  }
}

TEST_F(CachesWithEagerParts, ChangeInputsUpToAnExceptionOfAnEagerPart) {
  GraphCache cache({.capture_after = 0});
  bool fails = true;
  const auto expect = [&](int change) {
    Buffer<int> here = counting(n);
    const auto call = [&] {
      cache.run({0}, inputs(inout(here)), [&fails](DeviceView<int> view) {
        launch(view.size(), Add{}, view.data(), 1, view.size());
        eager([&fails] {
          if (fails) throw std::runtime_error("of the part");
        });
        launch(view.size(), Add{}, view.data(), 100, view.size());
      });
    };
    if (fails)
      EXPECT_THROW(call(), std::runtime_error);
    else
      call();
    EXPECT_EQ(graphs::test::first(here), 1 + change);
  };
  expect(1);  // in the capture
  fails = false;
  expect(101);
  fails = true;
  expect(1);  // in a replay
  fails = false;
  expect(101);
}

// The segments and parts before the launch that fails have run, as in an eager run.
TEST_F(CachesWithEagerParts, ChangeInputsUpToALaunchThatFails) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected into host devices";
  const int changes[] = {0, 1, 11, 111};  // before the first, second and third launch, and in the end
  for (const bool in_capture : {true, false})
    for (std::uint64_t launch_number = 1; launch_number <= 3; ++launch_number) {
      SCOPED_TRACE(::testing::Message() << (in_capture ? "in the capture" : "in a hit") << ", launch "
                                        << launch_number);
      GraphCache cache({.capture_after = 0});
      Buffer<int> here = zeros();
      int parts = 0;
      const auto call = [&] {
        cache.run({0}, inputs(inout(here)), [&parts](DeviceView<int> view) {
          launch(view.size(), Add{}, view.data(), 1, view.size());
          eager([&parts] { ++parts; });
          launch(view.size(), Add{}, view.data(), 10, view.size());
          eager([&parts] { ++parts; });
          launch(view.size(), Add{}, view.data(), 100, view.size());
        });
      };
      if (!in_capture) call();
      const int before = graphs::test::first(here);
      parts = 0;
      {
        const InjectedFailure failure(
            {.call = "cuGraphLaunch", .code = ErrorCode::launch_failure, .nth = launch_number});
        EXPECT_THROW(call(), BackendError);
        EXPECT_TRUE(failure.happened());
      }
      EXPECT_EQ(parts, static_cast<int>(launch_number) - 1);
      EXPECT_EQ(graphs::test::first(here), before + changes[launch_number - 1]);
      call();
      EXPECT_EQ(graphs::test::first(here), before + changes[launch_number - 1] + changes[3]);
    }
}

TEST_F(CachesWithEagerParts, RunOnTheStreamOfTheCall) {
  GraphCache cache({.capture_after = 0});
  const Stream one, other;
  std::vector<StreamRef> streams;
  Buffer<int> state = zeros();
  for (const StreamRef& stream : {one.ref(), one.ref(), other.ref()}) {
    const StreamGuard guard(stream);
    cache.run({0}, [&] {
      graphs::test::add(state);
      eager([&streams] { streams.push_back(current_stream()); });
      graphs::test::add(state);
    });
  }
  EXPECT_EQ(streams, (std::vector<StreamRef>{one.ref(), one.ref(), other.ref()}));
  other.synchronize();
  EXPECT_EQ(graphs::test::first(state), 6);
}

TEST_F(CachesWithEagerParts, ThrowWhatAnEagerPartThrowsAndStayUsable) {
  GraphCache cache({.capture_after = 0});
  const Buffer<int> x = counting(n);
  body_.fails = true;
  EXPECT_THROW(cache.run({1}, inputs(x), body_), std::runtime_error);
  EXPECT_EQ(graphs::test::first(body_.state), 1) << "the body must not run twice";
  EXPECT_FALSE(cache.failure({1}).has_value());
  body_.fails = false;
  call(cache, 1);
  body_.fails = true;
  EXPECT_THROW(cache.run({1}, inputs(x), body_), std::runtime_error);
  body_.fails = false;
  call(cache, 3);
  EXPECT_EQ(graphs::test::first(body_.state), 4);
}

TEST_F(CachesWithEagerParts, AreCapturedInTheNextCallAfterAnEagerPartHadNoMemory) {
  GraphCache cache({.capture_after = 0});
  bool fails = true;
  const auto body = [&fails] {
    eager([&fails] {
      if (fails) throw OutOfMemoryError("of the part", {});
    });
  };
  EXPECT_THROW(cache.run({0}, body), OutOfMemoryError);
  EXPECT_FALSE(cache.failure({0}).has_value());
  fails = false;
  cache.run({0}, body);
  EXPECT_TRUE(cache.contains({0}));
}

// The memory is allocated after the first parts have run.
TEST_F(CachesWithEagerParts, KeepWhatTheyChangedWhereThereIsNoMemoryForResults) {
  const HostSimulator simulator({.memory_bytes = std::size_t{64} << 20});
  const DeviceGuard there(simulator.device());
  for (const CacheOutputs outputs : {CacheOutputs::alias, CacheOutputs::copy}) {
    GraphCache cache({.max_bytes = std::size_t{60} << 20, .capture_after = 0, .outputs = outputs});
    Buffer<int> here = zeros(), state = zeros();
    Buffer<char> other;
    const auto body = [&](DeviceView<int> view) {
      launch(view.size(), Add{}, view.data(), 1, view.size());
      graphs::test::add(state);
      eager([&other] {
        current_stream().synchronize();
        other = Buffer<char>(std::size_t{44} << 20);
      });
      Buffer<int> result(std::size_t{3} << 20);
      launch(view.size(), Add{}, view.data(), 10, view.size());
      graphs::test::add(state, 10);
      return result;
    };
    EXPECT_THROW(cache.run({0}, inputs(inout(here)), body), OutOfMemoryError);
    EXPECT_EQ(graphs::test::first(here), graphs::test::first(state));
  }
}

TEST_F(CachesWithEagerParts, RunEagerlyAfterACaptureThatFailedBehindAnEagerPart) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> state = zeros();
  const auto body = [&] {
    graphs::test::add(state);
    eager([] {});
    graphs::test::add(state, 10);
    current_stream().synchronize();
  };
  EXPECT_THROW(cache.run({0}, body), BackendError);
  EXPECT_EQ(graphs::test::first(state), 1) << "the body must not run twice";
  ASSERT_TRUE(cache.failure({0}).has_value());
  cache.run({0}, body);
  EXPECT_EQ(graphs::test::first(state), 12);
}

TEST_F(CachesWithEagerParts, AreNotCapturedAhead) {
  GraphCache cache({.capture_after = 0});
  const Buffer<int> x = counting(n);
  EXPECT_FALSE(cache.capture({1}, inputs(x), body_));
  EXPECT_FALSE(cache.failure({1}).has_value());
  EXPECT_EQ(graphs::test::first(body_.state), 0);
  EXPECT_EQ(body_.parts, 0);
  call(cache, 2);
  EXPECT_TRUE(cache.contains({1}));
}

TEST_F(CachesWithEagerParts, RefuseCallsWithinTheirEagerParts) {
  GraphCache cache({.capture_after = 0});
  Buffer<int> state = zeros();
  std::string text;
  for (int i = 0; i < 2; ++i)
    cache.run({0}, [&] {
      graphs::test::add(state);
      eager([&] { text = text_of<UsageError>([&] { cache.run({1}, [&] { graphs::test::add(state); }); }); });
    });
  EXPECT_TRUE(contains(text, "within a body that the same cache captures")) << text;
}

TEST_F(CachesWithEagerParts, ArePaddedAsOthers) {
  GraphCache cache({.capture_after = 1, .padding = [](std::size_t) { return std::size_t{8}; }});
  for (int i = 1; i <= 4; ++i) {
    const Buffer<int> x = counting(5, i);
    const auto result = cache.run_padded({0}, 5, inputs(x), [](std::size_t padded, DeviceView<const int> view) {
      Buffer<int> y(padded);
      launch(padded, Multiply{}, view.data(), 3, y.data(), padded);
      eager([p = y.data(), padded] { launch(padded, Add{}, p, 1, padded); });
      return y;
    });
    EXPECT_EQ(result.read(), (std::vector<int>{3 * i + 1, 6 * i + 1, 9 * i + 1, 12 * i + 1, 15 * i + 1}));
  }
}

// With and without a capture, as without padding.
TEST_F(CachesWithEagerParts, KeepWhatAPaddedBodyChangedBeforeItThrew) {
  for (const std::size_t after : {0, 5}) {
    GraphCache cache({.capture_after = after, .padding = [](std::size_t) { return std::size_t{8}; }});
    Buffer<int> x = counting(5);
    EXPECT_THROW(cache.run_padded({0}, 5, inputs(inout(x)),
                                  [](std::size_t padded, DeviceView<int> view) {
                                    launch(padded, Add{}, view.data(), 1, padded);
                                    eager([] { throw std::runtime_error("of the part"); });
                                  }),
                 std::runtime_error);
    EXPECT_EQ(x.read(), (std::vector<int>{2, 3, 4, 5, 6})) << "capture_after " << after;
  }
}

}  // namespace
}  // namespace reprise::caches::test
