// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "captures/registry.h"
#include "graph/listeners/collectives_listener.h"
#include "tests/unit/graph/graph_fixture.h"

// CUDAGraph::synchronize() with a time, and the communicators that it aborts.

namespace reprise::graphs::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class GraphSynchronize : public ::testing::Test {
 protected:
  void capture_gate(const GraphOptions& options = {}) {
    capture(graph_, options, [&] {
      add(x_);
      launch_host([this] { gate_.stand(); });
    });
  }
  std::optional<TimeoutError> timeout(milliseconds time) {
    try {
      graph_.synchronize(time);
    } catch (const TimeoutError& error) {
      return error;
    }
    return std::nullopt;
  }

  const SideStream side_;
  Buffer<int> x_ = zeros();
  reprise::test::Gate gate_{reprise::test::by_steps_too};
  CUDAGraph graph_;
};

TEST_F(GraphSynchronize, ReturnsWhenTheReplayHasCompleted) {
  capture_increment(graph_, x_);
  graph_.replay();
  graph_.synchronize(seconds(30));
  EXPECT_TRUE(side_.ref().query());
  graph_.synchronize(milliseconds(0));  // only queries
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphSynchronize, WaitsForTheStreamThatItIsPassed) {
  capture_increment(graph_, x_);
  const Stream other;
  graph_.replay(other);
  graph_.synchronize(other, seconds(30));
  EXPECT_TRUE(other.query());
}

TEST_F(GraphSynchronize, ThrowsAfterTheTimeWithDeviceAndGraph) {
  reprise::test::skip_by_steps();
  GraphOptions options;
  options.name = "held";
  capture_gate(options);
  graph_.replay();
  const auto error = timeout(milliseconds(20));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->graph(), "held");
  EXPECT_EQ(error->device(), side_.ref().device().str());
  EXPECT_EQ(error->last_mark(), "");
  EXPECT_TRUE(contains(error->what(), "of graph `held`: the work of the stream did not complete within 20 ms"));
  gate_.open();
  graph_.synchronize(seconds(30));
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphSynchronize, RefusesTimesAndStreamsThatMakeNoSense) {
  EXPECT_THROW(graph_.synchronize(seconds(1)), UsageError);  // nothing is captured
  capture_increment(graph_, x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.synchronize(milliseconds(-1)); }), "found -1 ms"));
  CUDAGraph other;
  capture(other, [&] {
    add(x_);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.synchronize(seconds(1)); }), "is being captured"));
  });
  other.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphSynchronize, BreaksNoCaptureOfAnotherStream) {
  capture_increment(graph_, x_);
  graph_.replay();
  const Stream captured;
  CUDAGraph other;
  capture(other, {.stream = captured.ref()}, [&] {
    add(x_, 2, captured);
    graph_.synchronize(side_.ref(), seconds(30));
  });
  other.replay();
  EXPECT_EQ(first(x_), 3);
}

/// Counts, and ends the replay that waits at the gate; what a rank is called is in errors.
class FakeCommunicator final : public Communicator {
 public:
  explicit FakeCommunicator(reprise::test::Gate& gate) : gate_(gate) {}
  std::string describe() const override { return "rank 3 of 4"; }
  void abort() noexcept override {
    ++aborts;
    gate_.open();
  }
  bool aborted() const noexcept override { return aborts != 0; }
  int aborts = 0;

 private:
  reprise::test::Gate& gate_;
};

class GraphCommunicators : public GraphSynchronize {
 protected:
  void add_collective() {
    const captures::Found found = captures::find(current_stream());
    ASSERT_NE(found.capture, nullptr);
    CapturedCollectives::of(*found.capture)->add(communicator_, used_);
  }
  void capture_collective(CUDAGraph& graph) {
    capture(graph, [&] {
      add_collective();
      launch_host([this] { gate_.stand(); });
    });
  }
  void abort_by_timeout(CUDAGraph& graph) {
    reprise::test::skip_by_steps();
    graph.replay();
    EXPECT_TRUE(contains(text_of<TimeoutError>([&] { graph.synchronize(milliseconds(1)); }),
                         "This process is rank 3 of 4. The communicators of the graph are being aborted"));
    EXPECT_TRUE(side_.ref().query()) << "the end of the aborted replay was waited for";
  }

  std::shared_ptr<FakeCommunicator> communicator_ = std::make_shared<FakeCommunicator>(gate_);
  std::shared_ptr<int> used_ = std::make_shared<int>(1);
  std::weak_ptr<FakeCommunicator> watched_ = communicator_;
};

TEST_F(GraphCommunicators, AreAbortedAfterTheTimeAndGraphsThatHoldThemRefuseReplays) {
  CUDAGraph other;
  capture_collective(graph_);
  capture_collective(other);
  abort_by_timeout(graph_);
  EXPECT_EQ(communicator_->aborts, 1);
  for (CUDAGraph* const each : {&graph_, &other})
    EXPECT_TRUE(contains(text_of<UsageError>([&] { each->replay(); }),
                         "collectives of a communicator that was aborted (rank 3 of 4)"));
}

TEST_F(GraphCommunicators, AreNotAbortedByAQuery) {
  capture_collective(graph_);
  graph_.replay();
  EXPECT_THROW(graph_.synchronize(std::chrono::nanoseconds(0)), TimeoutError);
  EXPECT_EQ(communicator_->aborts, 0);
  gate_.open();
  side_.ref().synchronize();
  graph_.replay();
  side_.ref().synchronize();
}

TEST_F(GraphCommunicators, AreHeldAsLongAsTheGraph) {
  capture_collective(graph_);
  communicator_.reset();
  EXPECT_FALSE(watched_.expired());
  const std::weak_ptr<int> used = used_;
  used_.reset();
  EXPECT_FALSE(used.expired());
  gate_.open();
  graph_.replay();
  side_.ref().synchronize();
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return watched_.expired() && used.expired(); }));
}

TEST_F(GraphCommunicators, AreReleasedByACaptureThatFails) {
  EXPECT_THROW(capture(graph_,
                       [&] {
                         add_collective();
                         throw std::runtime_error("failed");
                       }),
               std::runtime_error);
  EXPECT_EQ(communicator_.use_count(), 1);
}

TEST_F(GraphCommunicators, OfAChildAreAbortedByItsParent) {
  CUDAGraph parent;
  capture_collective(graph_);
  capture(parent, [&] { graph_.replay(); });
  graph_.reset();
  abort_by_timeout(parent);
  EXPECT_EQ(communicator_->aborts, 1);
  EXPECT_THROW(parent.replay(), UsageError);
}

TEST_F(GraphCommunicators, OfAnotherCaptureTakeThePlaceOfTheirs) {
  capture(graph_, [&] { launch_host([] {}); });
  CUDAGraph with;
  capture_collective(with);
  graph_.update(with);
  abort_by_timeout(graph_);
  EXPECT_EQ(communicator_->aborts, 1);
}

}  // namespace
}  // namespace reprise::graphs::test
