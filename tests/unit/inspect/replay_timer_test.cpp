// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/faulty_backend.h"
#include "tests/support/own_monitor.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/time_replay_fixture.h"

// The class ReplayTimer: it times the next replay that other code launches.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using AReplayTimer = TimeReplay;

TEST_F(AReplayTimer, HasTheTimesOfTheNextReplayAlone) {
  CUDAGraph graph = capture([&] { spin(x_, 10); });
  graph.replay(stream_);
  ReplayTimer timer(graph);
  graph.replay(stream_);
  graph.replay(stream_);
  graph.replay(stream_);
  EXPECT_EQ(timer.take().nodes.size(), 1U);
  EXPECT_THROW(timer.take(), UsageError);
}

TEST_F(AReplayTimer, WithoutAReplayHasNoTimesAndLeavesTheGraphAsItWas) {
  CUDAGraph graph = capture([&] { add(x_); });
  {
    ReplayTimer timer(graph);
    EXPECT_NE(text_of<UsageError>([&] { timer.take(); }).find("expected a replay of the graph"), std::string::npos);
  }
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(AReplayTimer, IsTheOnlyOneOfItsGraph) {
  CUDAGraph graph = capture([&] { add(x_); });
  std::optional<ReplayTimer> timer(graph);
  EXPECT_THROW(ReplayTimer another(graph), UsageError);
  EXPECT_THROW(time_replay(graph, stream_), UsageError);
  timer.reset();
  EXPECT_EQ(time_replay(graph, stream_).nodes.size(), 1U);
}

TEST_F(AReplayTimer, OfAGraphThatIsResetOrGoneHasNoTimes) {
  std::optional<CUDAGraph> graph = capture([&] { add(x_); });
  ReplayTimer timer(*graph);
  graph->replay(stream_);
  graph->reset();
  EXPECT_THROW(timer.take(), UsageError);
  capture(*graph, {}, [&] { add(x_); });
  graph->replay(stream_);  // of a capture that is not timed
  EXPECT_THROW(timer.take(), UsageError);
  ReplayTimer other(*graph);
  graph.reset();
  EXPECT_THROW(other.take(), UsageError);
}

TEST_F(AReplayTimer, GoesWithAGraphThatIsMoved) {
  CUDAGraph graph = capture([&] { add(x_); });
  ReplayTimer timer(graph);
  CUDAGraph moved = std::move(graph);
  moved.replay(stream_);
  EXPECT_EQ(timer.take().nodes.size(), 1U);
}

TEST_F(AReplayTimer, IsRefusedWithoutACapturedGraph) {
  CUDAGraph graph;
  EXPECT_THROW(ReplayTimer timer(graph), UsageError);
}

TEST_F(AReplayTimer, TimesTheReplayAfterOneThatFailed) {
  CUDAGraph graph = capture({.hooks = {.before_replay =
                                           [fail = true](const StreamRef&) mutable {
                                             if (std::exchange(fail, false)) throw std::runtime_error("not now");
                                           }}},
                            [&] { add(x_); });
  ReplayTimer timer(graph);
  EXPECT_THROW(graph.replay(stream_), std::runtime_error);
  EXPECT_THROW(timer.take(), UsageError);
  graph.replay(stream_);
  EXPECT_EQ(timer.take().nodes.size(), 1U);
}

/// A device that knows whether a watch of its nodes lives.
class WatchedDevice final : public backend::test::OwnMonitor {
 public:
  using OwnMonitor::OwnMonitor;
  std::shared_ptr<backend::NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec,
                                                  std::string* why) override {
    std::shared_ptr<backend::NodeWatch> watch = FaultyBackend::monitor().watch_nodes(template_graph, exec, why);
    watch_ = watch;
    return watch;
  }
  bool watches() const { return !watch_.expired(); }

 private:
  std::weak_ptr<backend::NodeWatch> watch_;
};

TEST_F(AReplayTimer, WatchesNothingAfterALaunchThatFailed) {
  static auto& runtime = *new WatchedDevice(runtime_);  // devices live until the process ends
  const DeviceGuard guard{Device(runtime)};
  const SideStream stream;
  Buffer<int> x = zeros();
  CUDAGraph graph = capture([&] { add(x); });
  ReplayTimer timer(graph);
  runtime.fail(Call::graph_launch, ErrorCode::unknown);
  EXPECT_THROW(graph.replay(), BackendError);
  EXPECT_FALSE(runtime.watches()) << "a profiler may be used now";
  graph.replay();
  EXPECT_TRUE(runtime.watches());
  EXPECT_EQ(timer.take().nodes.size(), 1U);
  EXPECT_FALSE(runtime.watches());
}

TEST_F(AReplayTimer, WaitsForTheReplayWhenItEnds) {
  std::atomic<bool> done{false};
  constexpr auto take_a_while = [](void* flag) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(20)) std::this_thread::yield();
    *static_cast<std::atomic<bool>*>(flag) = true;
  };
  capture(graph_, [&] {
    add(x_);
    call_on_host(current_stream(), take_a_while, &done);
  });
  {
    const ReplayTimer timer(graph_);
    graph_.replay(stream_);
  }
  EXPECT_TRUE(done);
}

TEST_F(AReplayTimer, NeedsTheStreamOfTheReplayNoLonger) {
  capture(graph_, [&] { spin(x_, 100000); });
  std::optional<Stream> stream(std::in_place);
  ReplayTimer timer(graph_);
  graph_.replay(*stream);
  stream.reset();
  EXPECT_EQ(timer.take().nodes.size(), 1U);
}

TEST_F(AReplayTimer, EndsInSilenceAfterTheStreamOfTheReplay) {
  const reprise::test::Warnings warnings;
  capture(graph_, [&] { spin(x_, 100000); });
  {
    std::optional<Stream> stream(std::in_place);
    const ReplayTimer timer(graph_);
    graph_.replay(*stream);
    stream.reset();
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
  EXPECT_EQ(time_replay(graph_, stream_).nodes.size(), 1U);
}

TEST_F(AReplayTimer, MayEndWhileTheStreamOfTheReplayIsCapturedAndTheCaptureGoesOn) {
  const reprise::test::Warnings warnings;
  const SideStream side;
  capture_increment(graph_, x_);
  std::optional<ReplayTimer> timer(graph_);
  graph_.replay();
  keeps_.capture_begin();
  add(x_, 10);
  EXPECT_THAT(text_of<UsageError>([&] { timer->take(); }), HasSubstr("The capture continues."));
  timer.reset();
  keeps_.capture_end();
  keeps_.replay();
  EXPECT_EQ(first(x_), 11);
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

/// A replay behind which no event can be recorded.
class AReplayTimerWithoutItsEvent : public AReplayTimer {
 protected:
  struct OnFaultyDevice {
    OnFaultyDevice() {}  // NOLINT: std::optional needs it while the class around this one is incomplete
    const DeviceGuard guard{Device(runtime())};
    const SideStream stream;
    Buffer<int> x = zeros();
    CUDAGraph graph = capture([this] { add(x); });
  };

  static FaultyBackend& runtime() {
    static auto& runtime = *new FaultyBackend(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  void SetUp() override {
    AReplayTimer::SetUp();
    if (!IsSkipped()) there_.emplace();
  }
  void replay_without_event() {
    runtime().fail(Call::event_record, ErrorCode::unknown);
    there_->graph.replay();
    EXPECT_TRUE(runtime().all_happened());
  }

  std::optional<OnFaultyDevice> there_;
};

TEST_F(AReplayTimerWithoutItsEvent, ReportsThatWhenTheTimesAreTaken) {
  const reprise::test::Warnings warnings;
  {
    ReplayTimer timer(there_->graph);
    replay_without_event();
    there_->graph.replay();
    for (int i = 0; i < 2; ++i) EXPECT_THAT(text_of<BackendError>([&] { timer.take(); }), HasSubstr("cuEventRecord"));
  }
  EXPECT_EQ(first(there_->x), 2);
  EXPECT_THAT(warnings.texts(), IsEmpty());
  ReplayTimer another(there_->graph);
  there_->graph.replay();
  EXPECT_EQ(another.take().nodes.size(), 1U);
}

TEST_F(AReplayTimerWithoutItsEvent, WarnsOfItIfTheyAreNot) {
  const reprise::test::Warnings warnings;
  {
    const ReplayTimer timer(there_->graph);
    replay_without_event();
  }
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("cuEventRecord")));
  there_->graph.replay();
  EXPECT_EQ(first(there_->x), 2);
}

}  // namespace
}  // namespace reprise::graphs::test
