// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/gate.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// The end of a graph while its replays run, and while others capture.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using reprise::test::Gate;
using reprise::test::Warnings;

class GraphInFlight : public ::testing::Test {
 protected:
  // Resources of earlier tests are released now: freeing their memory would wait for the work behind the gate.
  void SetUp() override { settle_memory(); }

  // A graph whose replay stands at the gate, and then adds 1 by way of memory of its pool.
  void capture_gated(CUDAGraph& graph) {
    capture(graph, [&] {
      Buffer<int> scratch(x_.size());
      scratch.fill_bytes_async(0);
      add(scratch, 1);
      call_on_host(current_stream(), &Gate::pass, &gate_);
      multiply(scratch, 1, x_);
    });
    pool_ = graph.pool();
  }
  // Waits for a replay to stand at the gate. By steps none does: it passes the gate before that is gone.
  bool reached_gate() {
    if (reprise::test::runs_by_steps()) {
      gate_.open();
      default_device().synchronize();
    }
    reprise::test::skip_by_steps();
    return gate_.wait_until_reached();
  }
  std::uint64_t reserved() const { return CachingAllocator::of(default_device()).statistics(pool_).reserved_bytes; }
  bool eventually_released() const {
    return eventually([&] { return reserved() == 0; });
  }

  Gate gate_{reprise::test::by_steps_too};
  Stream stream_;
  Buffer<int> x_ = zeros(1000);
  MempoolId pool_;
};

TEST_F(GraphInFlight, DestroyingAGraphDoesNotWaitForItsReplay) {
  {
    CUDAGraph graph;
    capture_gated(graph);
    graph.replay(stream_);
    EXPECT_TRUE(reached_gate());
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
  EXPECT_TRUE(reached_gate());
  graph.reset();
  EXPECT_GT(reserved(), 0u);
  const Stream other;
  std::vector<Buffer<int>> others;  // would get the graph's memory, if it were free
  for (int i = 0; i < 10; ++i) {
    others.emplace_back(1000, other);
    others.back().fill_bytes_async(0xff, other);
  }
  other.synchronize();
  gate_.open();
  stream_.synchronize();
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
  EXPECT_TRUE(eventually_released());
}

TEST_F(GraphInFlight, AGraphThatWasResetCapturesAnewWhileItsOldReplayRuns) {
  CUDAGraph graph;
  capture_gated(graph);
  graph.replay(stream_);
  EXPECT_TRUE(reached_gate());
  graph.reset();
  Buffer<int> y = [&] {
    const Stream other;
    Buffer<int> made(1, other);
    made.fill_bytes_async(0, other);
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
  EXPECT_TRUE(eventually_released());
}

TEST_F(GraphInFlight, TheMemoryOfAGraphThatDoesNotRunComesBackAtOnce) {
  for (const bool replayed : {false, true}) {
    CUDAGraph graph;
    capture_gated(graph);
    gate_.open();
    if (replayed) graph.replay(stream_);
    stream_.synchronize();
    EXPECT_GT(reserved(), 0u);
    graph.reset();
    EXPECT_EQ(reserved(), 0u);
  }
}

TEST_F(GraphInFlight, ItsStreamMayBeDestroyedBeforeIt) {
  CUDAGraph graph;
  capture_gated(graph);
  {
    const Stream gone;
    graph.replay(gone);
    EXPECT_TRUE(reached_gate());
  }
  std::vector<Stream> new_ones(4);  // one of them may have its handle
  graph.reset();
  EXPECT_GT(reserved(), 0u);
  gate_.open();
  EXPECT_TRUE(eventually_released());
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
}

TEST_F(GraphInFlight, ItsReplaysOnSeveralStreamsAreAllWaitedFor) {
  CUDAGraph graph;
  capture_gated(graph);
  const Stream other;
  graph.replay(stream_);
  graph.replay(other);  // after the one that stands at the gate, although `other` has nothing else to do
  EXPECT_TRUE(reached_gate());
  graph.reset();
  EXPECT_GT(reserved(), 0u);
  gate_.open();
  EXPECT_TRUE(eventually_released());
  EXPECT_EQ(gate_.arrivals(), 2);
}

TEST_F(GraphInFlight, ItsMemoryIsReleasedAfterTheCaptureThatItsStreamTakesPartIn) {
  CUDAGraph graph;
  capture_gated(graph);
  graph.replay(stream_);
  EXPECT_TRUE(reached_gate());
  CUDAGraph underway;
  {
    const StreamGuard guard(stream_);
    underway.capture_begin();
    graph.reset();
    EXPECT_EQ(stream_.capture_status(), CaptureStatus::active);
    gate_.open();
    EXPECT_GT(reserved(), 0u) << "completion is unknown while the stream is captured";
    CUDAGraph().reset();  // drains what is queued
    EXPECT_EQ(stream_.capture_status(), CaptureStatus::active);
    add(x_);
    underway.capture_end();
    underway.replay();
  }
  EXPECT_TRUE(eventually_released());
  stream_.synchronize();
  EXPECT_EQ(read(x_), std::vector<int>(1000, 2));
}

TEST_F(GraphInFlight, OnTheLegacyStreamItBreaksNoCaptureOfABlockingStreamAndIsNotReported) {
  CUDAGraph graph;
  capture_gated(graph);
  gate_.open();
  graph.replay();
  const Stream blocking(current_device(), StreamOptions{.blocking = true});
  {
    const StreamGuard guard(blocking);
    CUDAGraph underway;
    GraphOptions options;
    options.report = ReportDetail::full;
    underway.capture_begin(options);
    graph.reset();
    CUDAGraph().reset();  // drains what is queued
    EXPECT_EQ(blocking.capture_status(), CaptureStatus::active);
    add(x_);
    underway.capture_end();
    const std::optional<CaptureReport> report = underway.capture_report();
    EXPECT_FALSE(report) << report->str();
  }
  EXPECT_TRUE(eventually_released());
}

TEST_F(GraphInFlight, AnAllocationThatFindsNoMemoryWaitsForItsReplay) {
  {
    CUDAGraph graph;
    capture_gated(graph);
    graph.replay(stream_);
    EXPECT_TRUE(reached_gate());
  }
  EXPECT_GT(reserved(), 0u);
  gate_.open();
  const Stream other;
  EXPECT_THROW(Buffer<std::byte>(default_device().memory_info().total, other), OutOfMemoryError);
  EXPECT_EQ(reserved(), 0u) << "it was waited for, and tried again";
}

// A foreign stream, whose end is not notified.
class ForeignStream {
 public:
  explicit ForeignStream(Device device = current_device()) : device_(device) {
    backend::Checked(device_.backend()).stream_create(&handle_, backend::StreamFlags::non_blocking, 0);
  }
  ~ForeignStream() { EXPECT_EQ(device_.backend().stream_destroy(handle_), ErrorCode::success); }
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  StreamRef ref() const { return StreamRef(device_, handle_); }

 private:
  Device device_;
  StreamHandle handle_ = nullptr;
};

TEST_F(GraphInFlight, ItIsWaitedForOnAForeignStreamThatIsGone) {
  CUDAGraph graph;
  capture_gated(graph);
  {
    const ForeignStream foreign;
    graph.replay(foreign.ref());
    EXPECT_TRUE(reached_gate());
  }
  graph.reset();
  EXPECT_GT(reserved(), 0u);
  gate_.open();
  EXPECT_TRUE(eventually_released());
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
}

TEST_F(GraphInFlight, AForeignStreamCostsAnEventForEachReplayAndOthersNone) {
  FaultyBackend& counting = *new FaultyBackend(default_device().backend());
  const Device device(counting);
  const DeviceGuard guard(device);
  Buffer<int> x = zeros();
  CUDAGraph graph;
  capture_increment(graph, x);
  const auto calls_of_replays = [&](const StreamRef& stream) {
    graph.replay(stream);
    counting.forget_calls();
    graph.replay(stream);
    graph.replay(stream);
    return counting.calls();
  };
  const Stream own;
  const ForeignStream foreign(device);
  EXPECT_EQ(calls_of_replays(own), 2);
  EXPECT_EQ(calls_of_replays(device.default_stream()), 2);
  EXPECT_EQ(calls_of_replays(foreign.ref()), 2 + 2 * 2) << "is it captured, and the record";
  EXPECT_EQ(counting.calls(Call::event_record), 2);
  EXPECT_EQ(calls_of_replays(own), 2);
  device.synchronize();
  EXPECT_EQ(first(x), 12);
}

TEST_F(GraphInFlight, AnEventThatCannotBeMadeKeepsAReplayFromBeingLaunched) {
  FaultyBackend& faulty = *new FaultyBackend(default_device().backend());
  const Device device(faulty);
  const DeviceGuard guard(device);
  Buffer<int> x = zeros();
  CUDAGraph graph;
  capture_increment(graph, x);
  const ForeignStream foreign(device);
  faulty.fail(Call::event_create, ErrorCode::out_of_memory);
  EXPECT_THROW(graph.replay(foreign.ref()), BackendError);
  graph.replay(foreign.ref());
  device.synchronize();
  EXPECT_EQ(first(x), 1);
}

TEST_F(GraphInFlight, AnEventThatCannotBeRecordedLeavesTheMemoryToTheGraphUntilItIsReplayedAgain) {
  FaultyBackend& faulty = *new FaultyBackend(default_device().backend());
  const Device device(faulty);
  const DeviceGuard guard(device);
  for (const bool again : {false, true}) {
    CUDAGraph graph;
    capture(graph, [] { Buffer<int>(1000).fill_bytes_async(0); });
    const MempoolId pool = graph.pool();
    const ForeignStream foreign(device);
    faulty.fail(Call::event_record, ErrorCode::out_of_memory);
    const Warnings warnings;
    graph.replay(foreign.ref());
    ASSERT_EQ(warnings.texts().size(), 1u);
    EXPECT_TRUE(contains(warnings.texts().front(), backend::cuda_name(Call::event_record)));
    if (again) graph.replay(foreign.ref());
    device.synchronize();
    graph.reset();
    EXPECT_EQ(CachingAllocator::of(device).statistics(pool).reserved_bytes == 0, again);
  }
}

TEST_F(GraphInFlight, InstantiateAgainLeavesTheRunningReplayAlone) {
  CUDAGraph graph(KeepGraph::yes);
  capture_gated(graph);
  graph.replay(stream_);
  EXPECT_TRUE(reached_gate());
  graph.instantiate();
  graph.replay(stream_);
  gate_.open();
  stream_.synchronize();
  EXPECT_EQ(gate_.arrivals(), 2);
  EXPECT_EQ(read(x_), std::vector<int>(1000, 1));
}

TEST_F(GraphInFlight, ReplaysOfOneGraphQueueUpWithoutTheHostWaiting) {
  CUDAGraph graph;
  capture(graph, [&] {
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

class GraphEndUnderACapture : public GraphInFlight, public ::testing::WithParamInterface<CaptureMode> {};

// Destroying an executable is a potentially unsafe call: made plainly, it would break the captures here.
TEST_P(GraphEndUnderACapture, ResetAndDestructorBreakNoCapture) {
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

TEST_P(GraphEndUnderACapture, CapturingAndInstantiatingElsewhereBreaksNoCapture) {
  const SideStream side;
  CUDAGraph underway;
  underway.capture_begin({}, GetParam());
  add(x_);
  Buffer<int> y(1);  // of the pool: it is the captured stream that is current
  CUDAGraph inner;
  capture(inner, [&] { add(x_, 10); });
  std::thread([&] {
    CUDAGraph there(KeepGraph::yes);
    capture(there, [&] { add(x_, 100); });
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
                         ::testing::Values(CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed),
                         [](const auto& test) { return mode_name(test.param); });

}  // namespace
}  // namespace reprise::graphs::test
