// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/unit/graph_test.h"

// The end of a graph while its replays run, and while others capture.

namespace reprise::graphs::test {
namespace {

using reprise::test::Gate;

class GraphInFlight : public ::testing::Test {
 protected:
  // What an earlier test left is given back now: to free its memory would wait for the work behind the gate.
  void SetUp() override { settle_memory(); }

  // A graph whose replay stands at the gate, and then adds 1 by way of memory of its pool.
  void capture_gated(CUDAGraph& graph) {
    capture(graph, {}, [&] {
      Buffer<int> scratch(x_.size());
      scratch.fill_bytes(0);
      add(scratch, 1);
      call_on_host(current_stream(), &Gate::pass, &gate_);
      multiply(scratch, 1, x_);
    });
    pool_ = graph.pool();
  }
  std::uint64_t reserved() const { return CachingAllocator::of(default_device()).statistics(pool_).reserved_bytes; }
  bool eventually_given_back() const {
    return eventually([&] { return reserved() == 0; });
  }

  Gate gate_;
  Stream stream_;
  Buffer<int> x_ = zeros(1000);
  MempoolId pool_;
};

TEST_F(GraphInFlight, DestroyingAGraphDoesNotWaitForItsReplay) {
  {
    CUDAGraph graph;
    capture_gated(graph);
    graph.replay(stream_);
    EXPECT_TRUE(gate_.wait_until_reached());
  }
  EXPECT_FALSE(gate_.is_open());
  EXPECT_FALSE(stream_.query());
  gate_.open();
  stream_.synchronize();
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
}

TEST_F(GraphInFlight, ItsMemoryStaysItsOwnUntilTheReplayIsDone) {
  std::optional<CUDAGraph> graph(std::in_place);
  capture_gated(*graph);
  graph->replay(stream_);
  EXPECT_TRUE(gate_.wait_until_reached());
  graph.reset();
  EXPECT_GT(reserved(), 0u);
  const Stream other;
  std::vector<Buffer<int>> others;  // would get the graph's memory, if anybody could
  for (int i = 0; i < 10; ++i) {
    others.emplace_back(1000, other);
    others.back().fill_bytes(0xff, other);
  }
  other.synchronize();
  gate_.open();
  stream_.synchronize();
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
  EXPECT_TRUE(eventually_given_back());
}

TEST_F(GraphInFlight, AGraphThatWasResetCapturesAnewWhileItsOldReplayRuns) {
  CUDAGraph graph;
  capture_gated(graph);
  graph.replay(stream_);
  EXPECT_TRUE(gate_.wait_until_reached());
  graph.reset();
  Buffer<int> y = [&] {
    const Stream other;
    Buffer<int> made(1, other);
    made.fill_bytes(0, other);
    other.synchronize();
    return made;
  }();
  {
    const SideStream side;
    graph.capture_begin();  // the scope would wait for the device
    add(y);
    graph.capture_end();
    EXPECT_NE(graph.pool(), pool_);
    graph.replay();
    EXPECT_EQ(first(y), 1);
  }
  gate_.open();
  stream_.synchronize();
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
  EXPECT_TRUE(eventually_given_back());
}

TEST_F(GraphInFlight, InstantiateAgainLeavesTheRunningReplayAlone) {
  CUDAGraph graph(KeepGraph::yes);
  capture_gated(graph);
  graph.replay(stream_);
  EXPECT_TRUE(gate_.wait_until_reached());
  graph.instantiate();
  graph.replay(stream_);
  gate_.open();
  stream_.synchronize();
  EXPECT_EQ(gate_.arrivals(), 2);
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
}

TEST_F(GraphInFlight, ReplaysOfOneGraphQueueUpWithoutTheHostWaiting) {
  CUDAGraph graph;
  capture(graph, {}, [&] {
    call_on_host(current_stream(), &Gate::pass, &gate_);
    add(x_);
  });
  const Stream other;
  graph.replay(stream_);
  graph.replay(other);
  graph.replay(stream_);
  EXPECT_FALSE(gate_.is_open());
  gate_.open();
  stream_.synchronize();
  other.synchronize();
  EXPECT_EQ(read(x_), std::vector<int>(1000, 3));
}

class GraphEndUnderACapture : public GraphInFlight, public ::testing::WithParamInterface<CaptureErrorMode> {};

// Destroying an executable is a potentially unsafe call: made plainly, it would break the captures here.
TEST_P(GraphEndUnderACapture, ResetAndDestructorBreakNobodysCapture) {
  CUDAGraph one, two;
  std::optional<CUDAGraph> three(std::in_place);
  for (CUDAGraph* graph : {&one, &two, &*three}) {
    capture(*graph, {}, [&] {
      Buffer<int> scratch(x_.size());
      multiply(x_, 1, scratch);
    });
  }
  const SideStream side;
  CUDAGraph underway;
  underway.capture_begin({}, GetParam());
  add(x_);
  one.reset();
  three.reset();
  std::thread([&] { two.reset(); }).join();
  EXPECT_EQ(side.ref().capture_status(), CaptureStatus::active);
  underway.capture_end();
  underway.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_P(GraphEndUnderACapture, CapturingAndInstantiatingElsewhereBreaksNobodysCapture) {
  const SideStream side;
  CUDAGraph underway;
  underway.capture_begin({}, GetParam());
  add(x_);
  Buffer<int> y(1);  // of the pool: it is the captured stream that is current
  CUDAGraph inner;
  capture(inner, {}, [&] { add(x_, 10); });
  std::thread([&] {
    CUDAGraph there(KeepGraph::yes);
    capture(there, {}, [&] { add(x_, 100); });
    there.instantiate();
  }).join();
  EXPECT_EQ(side.ref().capture_status(), CaptureStatus::active);
  add(x_);
  underway.capture_end();
  underway.replay();
  inner.replay();
  EXPECT_EQ(first(x_), 12);
}

INSTANTIATE_TEST_SUITE_P(Modes, GraphEndUnderACapture,
                         ::testing::Values(CaptureErrorMode::global, CaptureErrorMode::thread_local_,
                                           CaptureErrorMode::relaxed),
                         [](const auto& test) { return mode_name(test.param); });

}  // namespace
}  // namespace reprise::graphs::test
