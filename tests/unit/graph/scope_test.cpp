// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/unit/graph/graph_fixture.h"

// The scope `graph` and the function capture().

namespace reprise::graphs::test {
namespace {

class CaptureScope : public ::testing::Test {
 protected:
  void expect_usable() {
    const int before = first(x_);
    capture_increment(graph_, x_);
    graph_.replay();
    EXPECT_EQ(first(x_), before + 1);
  }

  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

TEST_F(CaptureScope, CapturesTheWorkOfTheCurrentStreamUntilItIsLeft) {
  {
    const reprise::graph scope(graph_);
    EXPECT_TRUE(is_current_stream_capturing());
    EXPECT_EQ(current_stream(), scope.stream());
    add(x_);
  }
  EXPECT_EQ(first(x_), 0);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureScope, MakesTheStreamBeforeItCurrentAgain) {
  const SideStream side;
  {
    const reprise::graph scope(graph_);
    EXPECT_NE(current_stream(), side.ref());
    add(x_);
  }
  EXPECT_EQ(current_stream(), side.ref());
}

TEST_F(CaptureScope, TakesTheStreamOfTheOptions) {
  const Stream stream;
  GraphOptions options;
  options.stream = stream.ref();
  {
    const reprise::graph scope(graph_, options);
    EXPECT_EQ(current_stream(), stream.ref());
    add(x_);
  }
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureScope, TakesTheSameInternalStreamEachTimeOnOneThread) {
  std::optional<StreamRef> before;
  for (int i = 0; i < 3; ++i) {
    CUDAGraph graph;
    const reprise::graph scope(graph);
    add(x_);
    if (before.has_value()) {
      EXPECT_EQ(scope.stream(), *before);
    }
    before = scope.stream();
  }
}

TEST_F(CaptureScope, TakesAnotherInternalStreamInsideAnotherScope) {
  CUDAGraph inner_graph;
  reprise::graph outer(graph_);
  add(x_);
  {
    const reprise::graph inner(inner_graph);
    EXPECT_NE(inner.stream(), outer.stream());
    add(x_, 10);
  }
  EXPECT_EQ(current_stream(), outer.stream());
  outer.end();
  graph_.replay();
  inner_graph.replay();
  EXPECT_EQ(first(x_), 11);
}

TEST_F(CaptureScope, EndsEarlyOnRequest) {
  reprise::graph scope(graph_);
  add(x_);
  scope.end();
  EXPECT_TRUE(current_stream().is_default());
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureScope, RefusesToEndOnAnotherStreamAndStaysOpen) {
  reprise::graph scope(graph_);
  add(x_);
  {
    const SideStream side;
    EXPECT_THROW(scope.end(), UsageError);
  }
  EXPECT_TRUE(is_current_stream_capturing());
  scope.end();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureScope, ThrowsWhatTheEndThrowsWhenItIsLeft) {
  EXPECT_THROW({ const reprise::graph scope(graph_); }, CaptureError);  // nothing was captured
  EXPECT_TRUE(current_stream().is_default());
  expect_usable();
}

TEST_F(CaptureScope, SaysThatItsCaptureIsGoneWhenTheGraphWasAbandonedInside) {
  EXPECT_THROW(
      {
        const reprise::graph scope(graph_);
        graph_.capture_abandon();
      },
      UsageError);
  EXPECT_TRUE(current_stream().is_default());
  expect_usable();
}

TEST_F(CaptureScope, LetsAnExceptionPassAndAbandonsTheCapture) {
  const auto broken = [&] {
    const reprise::graph scope(graph_);
    add(x_);
    throw std::runtime_error("mine");
  };
  EXPECT_EQ(text_of<std::runtime_error>(broken), "mine");
  EXPECT_TRUE(current_stream().is_default());
  EXPECT_EQ(make_unsafe_call(), ErrorCode::success);
  expect_usable();
}

// While one exception is in flight, a scope that is entered and left by a destructor ends normally.
TEST_F(CaptureScope, EndsNormallyInsideTheHandlingOfAnotherException) {
  struct CapturesWhenDestroyed {
    CUDAGraph& graph;
    Buffer<int>& x;
    ~CapturesWhenDestroyed() {
      reprise::graph scope(graph);
      add(x);
    }
  };
  try {
    const CapturesWhenDestroyed last{graph_, x_};
    throw std::runtime_error("mine");
  } catch (const std::runtime_error&) {
  }
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureScope, RefusesTheLegacyDefaultStream) {
  GraphOptions options;
  options.stream = default_device().default_stream();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { reprise::graph scope(graph_, options); }), "legacy default stream"));
  expect_usable();
}

TEST_F(CaptureScope, WaitsForTheDeviceOnEntry) {
  const Stream stream;
  reprise::test::Gate gate(reprise::test::by_steps_too);
  call_on_host(stream, &reprise::test::Gate::pass, &gate);
  std::thread opens([&] {
    EXPECT_TRUE(gate.wait_until_reached());
    gate.open();
  });
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;  // so that a stream may be queried inside
  capture(graph_, options, [&] {
    EXPECT_TRUE(stream.query());
    add(x_);
  });
  opens.join();
}

TEST_F(CaptureScope, GivesCachedMemoryBackOnEntry) {
  CachingAllocator& allocator = CachingAllocator::of(default_device());
  { const Buffer<int> cached(std::size_t{1} << 24); }
  const auto before = allocator.statistics().reserved_bytes;
  capture(graph_, [&] {
    EXPECT_LE(allocator.statistics().reserved_bytes + (std::uint64_t{1} << 26), before);
    add(x_);
  });
}

TEST_F(CaptureScope, DoesNotWaitForTheDeviceWhileACaptureIsUnderway) {
  reprise::test::Gate gate(reprise::test::by_steps_too);
  const Stream held, outer_stream;
  CUDAGraph outer;
  const StreamGuard guard(outer_stream);
  outer.capture_begin();
  add(x_, 10);
  call_on_host(held, &reprise::test::Gate::pass, &gate);
  capture_increment(graph_, x_);  // would never return
  EXPECT_FALSE(gate.is_open());
  EXPECT_EQ(outer_stream.capture_status(), CaptureStatus::active);
  gate.open();
  outer.capture_end();
  held.synchronize();
  outer.replay();
  graph_.replay();
  EXPECT_EQ(first(x_), 11);
}

TEST_F(CaptureScope, DoesNotWaitForTheDeviceWhenItIsRefused) {
  capture_increment(graph_, x_);
  reprise::test::Gate gate(reprise::test::by_steps_too);
  const Stream held;
  call_on_host(held, &reprise::test::Gate::pass, &gate);
  EXPECT_THROW(reprise::graph scope(graph_), UsageError);  // would never return
  EXPECT_FALSE(gate.is_open());
  gate.open();
  held.synchronize();
  EXPECT_TRUE(current_stream().is_default());
}

TEST_F(CaptureScope, FunctionReturnsWhenTheWorkIsCaptured) {
  capture(graph_, [&] { add(x_); });
  EXPECT_TRUE(current_stream().is_default());
  EXPECT_EQ(first(x_), 0);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureScope, FunctionLetsAnExceptionOfTheBodyPass) {
  EXPECT_EQ(text_of<std::runtime_error>([&] { capture(graph_, [] { throw std::runtime_error("mine"); }); }), "mine");
  expect_usable();
}

TEST_F(CaptureScope, FunctionTakesItsOptions) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  options.allow_empty = true;
  capture(graph_, options, [] {});
  EXPECT_EQ(graph_.pool(), options.pool);
}

TEST_F(CaptureScope, CanBeUsedByEightThreadsAtOnce) {
  constexpr int thread_count = 8;
  reprise::test::Meeting inside(thread_count, reprise::test::by_steps_too);
  std::vector<Buffer<int>> values;
  for (int t = 0; t < thread_count; ++t) values.push_back(zeros(100));
  std::vector<CUDAGraph> graphs(thread_count);
  std::vector<StreamHandle> streams(thread_count);
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      const reprise::graph scope(graphs[static_cast<std::size_t>(t)]);
      streams[static_cast<std::size_t>(t)] = scope.stream().native();
      inside.meet();  // all of them capture at the same time
      for (int i = 0; i <= t; ++i) add(values[static_cast<std::size_t>(t)]);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(inside.all_met());
  std::sort(streams.begin(), streams.end());
  EXPECT_EQ(std::unique(streams.begin(), streams.end()), streams.end());
  for (int t = 0; t < thread_count; ++t) {
    graphs[static_cast<std::size_t>(t)].replay();
    EXPECT_EQ(read(values[static_cast<std::size_t>(t)]), std::vector<int>(100, t + 1));
  }
}

}  // namespace
}  // namespace reprise::graphs::test
