// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/lifetime/release_queue.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// Graphs that are destroyed, assigned to or moved while a call of theirs is underway.

namespace reprise::graphs::test {
namespace {

using memory::ReleaseQueue;

enum class Step { captured, instantiated, before_replay, after_replay, reset };

GraphHooks at(Step step, const std::function<void()>& call) {
  GraphHooks hooks;
  if (step == Step::captured) hooks.captured = [call](GraphHandle) { call(); };
  if (step == Step::instantiated) hooks.instantiated = [call](GraphExecHandle) { call(); };
  if (step == Step::before_replay) hooks.before_replay = [call](const StreamRef&) { call(); };
  if (step == Step::after_replay) hooks.after_replay = [call](const StreamRef&, ErrorCode) { call(); };
  if (step == Step::reset) hooks.reset = call;
  return hooks;
}

class GraphEndOfLife : public ::testing::Test {
 protected:
  // A graph that holds memory of its pool and an object, and counts its ends.
  void capture_holding(CUDAGraph& graph) {
    graph.add_hooks(at(Step::reset, [this] { ++ended_; }));
    GraphOptions options;
    options.stream = stream_.ref();
    capture(graph, options, [&] {
      graph.retain(held_);
      Buffer<int>(1000).fill_bytes_async(0);
      add(x_);
    });
  }
  // The capture is over, and what the graph held is released.
  void expect_gone() {
    EXPECT_EQ(stream_.ref().capture_status(), CaptureStatus::none);
    settle_memory();
    EXPECT_TRUE(eventually([&] { return held_.use_count() == 1; }));
    EXPECT_FALSE(alive_.has_value());
    CUDAGraph other;
    capture_increment(other, x_);
    const int before = first(x_);
    other.replay();
    EXPECT_EQ(first(x_), before + 1);
  }
  void expect_refused(const std::function<void()>& call, const std::string& name) {
    const std::string text = text_of<UsageError>(call);
    EXPECT_TRUE(text.starts_with(name + ": the graph was destroyed, or assigned to, before this call had returned"))
        << text;
  }

  const std::shared_ptr<int> held_ = std::make_shared<int>(1);
  int ended_ = 0;
  SideStream stream_;
  Buffer<int> x_ = zeros();
  std::optional<CUDAGraph> alive_{std::in_place};
};

TEST_F(GraphEndOfLife, InAHookOfTheCaptureFailsIt) {
  for (const Step step : {Step::captured, Step::instantiated}) {
    alive_.emplace();
    ended_ = 0;
    alive_->add_hooks(at(step, [&] { alive_.reset(); }));
    expect_refused([&] { capture_holding(*alive_); }, "capture");
    EXPECT_EQ(ended_, 1);
    expect_gone();
  }
}

TEST_F(GraphEndOfLife, InAHookBeforeAReplayRefusesIt) {
  capture_holding(*alive_);
  alive_->add_hooks(at(Step::before_replay, [&] { alive_.reset(); }));
  expect_refused([&] { alive_->replay(); }, "CUDAGraph::replay");
  EXPECT_EQ(first(x_), 0);
  EXPECT_EQ(ended_, 1);
  expect_gone();
}

TEST_F(GraphEndOfLife, InAHookAfterAReplayLeavesTheReplayAlone) {
  capture_holding(*alive_);
  alive_->add_hooks(at(Step::after_replay, [&] { alive_.reset(); }));
  expect_refused([&] { alive_->replay(); }, "CUDAGraph::replay");
  EXPECT_EQ(first(x_), 1);
  EXPECT_EQ(ended_, 1);
  expect_gone();
}

TEST_F(GraphEndOfLife, OnAThreadThatAHookWaitsForIsNoticed) {
  const auto on_another_thread = [](const std::function<void()>& call) { std::thread(call).join(); };
  for (const Step step : {Step::captured, Step::instantiated}) {
    alive_.emplace();
    alive_->add_hooks(at(step, [&] { on_another_thread([&] { alive_.reset(); }); }));
    expect_refused([&] { capture_holding(*alive_); }, "capture");
    expect_gone();
  }
  for (const Step step : {Step::before_replay, Step::after_replay}) {
    x_ = zeros();
    alive_.emplace();
    capture_holding(*alive_);
    alive_->add_hooks(at(step, [&] { on_another_thread([&] { alive_.reset(); }); }));
    expect_refused([&] { alive_->replay(); }, "CUDAGraph::replay");
    EXPECT_EQ(first(x_), step == Step::before_replay ? 0 : 1);
    expect_gone();
  }
}

TEST_F(GraphEndOfLife, AResetOnAThreadThatAHookWaitsForIsRefused) {
  capture_holding(*alive_);
  std::string refused;
  alive_->add_hooks(at(Step::before_replay,
                       [&] { std::thread([&] { refused = text_of<UsageError>([&] { alive_->reset(); }); }).join(); }));
  alive_->replay();
  EXPECT_EQ(first(x_), 1);
  EXPECT_TRUE(refused.starts_with("CUDAGraph::reset was called within a hook of the same graph")) << refused;
}

TEST_F(GraphEndOfLife, InAHookIsWaitedForByItsOtherHooks) {
  capture_holding(*alive_);
  std::vector<std::string> steps;
  alive_->add_hooks(at(Step::before_replay, [&] { alive_.reset(); }));
  alive_->add_hooks(at(Step::before_replay, [&] { steps.emplace_back("before"); }));
  alive_->add_hooks(at(Step::after_replay, [&] { steps.emplace_back("after"); }));
  const CUDAGraph* last = nullptr;
  GlobalGraphHooks global;
  global.after_replay = [&](const CUDAGraph& graph, const StreamRef&, ErrorCode) {
    last = &graph;
    EXPECT_EQ(graph.node_count(), 2U) << "all of it is still there";
  };
  const HookId id = add_global_hooks(global);
  EXPECT_THROW(alive_->replay(), UsageError);
  remove_global_hooks(id);
  EXPECT_EQ(steps, (std::vector<std::string>{"before", "after"}));
  EXPECT_NE(last, nullptr);
}

TEST_F(GraphEndOfLife, InAHookOfOtherCallsFailsThem) {
  const auto instantiate = [](CUDAGraph& graph) { graph.instantiate(); };
  const auto upload = [](CUDAGraph& graph) { graph.upload(); };
  const auto time = [](CUDAGraph& graph) { (void)time_replay(graph); };
  const std::vector<std::pair<std::string, std::function<void(CUDAGraph&)>>> calls = {
      {"CUDAGraph::instantiate", instantiate}, {"CUDAGraph::upload", upload}, {"time_replay", time}};
  for (const auto& [name, call] : calls) {
    alive_.emplace(KeepGraph::yes);
    capture_holding(*alive_);
    alive_->add_hooks(at(Step::instantiated, [&] { alive_.reset(); }));
    expect_refused([&, &each = call] { each(*alive_); }, name);
    EXPECT_EQ(first(x_), 0);
    expect_gone();
    x_ = zeros();
  }
}

TEST_F(GraphEndOfLife, InTheHookOfAResetIsAnError) {
  capture_holding(*alive_);
  alive_->add_hooks(at(Step::reset, [&] { alive_.reset(); }));
  expect_refused([&] { alive_->reset(); }, "CUDAGraph::reset");
  EXPECT_EQ(ended_, 1);
  expect_gone();
}

TEST_F(GraphEndOfLife, InTheHookOfItsEndChangesNothing) {
  {
    CUDAGraph graph;
    capture_holding(graph);
    graph.add_hooks(at(Step::reset, [&] { graph = CUDAGraph(); }));
  }
  EXPECT_EQ(ended_, 1);
  alive_.reset();
  expect_gone();
}

TEST_F(GraphEndOfLife, ByAssignmentInAHookLeavesTheNewGraph) {
  capture_holding(*alive_);
  alive_->add_hooks(at(Step::before_replay, [&] { *alive_ = CUDAGraph(); }));
  expect_refused([&] { alive_->replay(); }, "CUDAGraph::replay");
  EXPECT_TRUE(eventually([&] { return held_.use_count() == 1; }));
  capture_increment(*alive_, x_);
  alive_->replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphEndOfLife, InAHookOfAnotherGraphWhichItReplaysFailsItsReplay) {
  CUDAGraph other;
  capture_increment(other, x_);
  capture_holding(*alive_);
  alive_->add_hooks(at(Step::before_replay, [&] { other.replay(); }));
  other.add_hooks(at(Step::after_replay, [&] { alive_.reset(); }));
  expect_refused([&] { alive_->replay(); }, "CUDAGraph::replay");
  EXPECT_EQ(first(x_), 1) << "of the other one";
  expect_gone();
}

TEST_F(GraphEndOfLife, InTheBodyOfItsCaptureFailsItAndNothingOfTheBodyRuns) {
  GraphOptions options;
  options.stream = stream_.ref();
  const auto body = [&] {
    alive_->retain(held_);
    add(x_);
    alive_.reset();
    add(x_);
    EXPECT_TRUE(is_current_stream_capturing());
  };
  expect_refused([&] { capture(*alive_, options, body); }, "capture");
  EXPECT_EQ(first(x_), 0);
  expect_gone();
}

TEST_F(GraphEndOfLife, IsAnErrorOfTheCallThatTheUserMade) {
  const auto by_scope = [&] {
    reprise::graph scope(*alive_);
    add(x_);
    alive_.reset();
    scope.end();
  };
  expect_refused(by_scope, "graph::end");
  expect_gone();
  const auto by_hook = [&](const std::function<void(CUDAGraph&)>& captures, const std::string& name) {
    alive_.emplace();
    alive_->add_hooks(at(Step::captured, [&] { alive_.reset(); }));
    expect_refused([&] { captures(*alive_); }, name);
    expect_gone();
  };
  by_hook(
      [&](CUDAGraph& graph) {
        const StreamGuard current(stream_.ref());
        graph.capture_begin();
        add(x_);
        graph.capture_end();
      },
      "CUDAGraph::capture_end");
  by_hook(
      [&](CUDAGraph& graph) {
        reprise::graph scope(graph);
        add(x_);
        scope.end();
      },
      "graph::end");
}

TEST_F(GraphEndOfLife, InTheBodyOfItsCaptureByAssignmentLeavesTheNewGraph) {
  const auto body = [&] {
    add(x_);
    *alive_ = CUDAGraph();
  };
  expect_refused([&] { capture(*alive_, {}, body); }, "capture");
  capture_increment(*alive_, x_);
  alive_->replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GraphEndOfLife, InAScopeThatIsLeftByAnExceptionIsNoSecondError) {
  const auto leave_scope = [&] {
    const reprise::graph scope(*alive_);
    alive_->retain(held_);
    add(x_);
    alive_.reset();
    throw std::runtime_error("the body failed");
  };
  EXPECT_EQ(text_of<std::runtime_error>(leave_scope), "the body failed");
  EXPECT_EQ(first(x_), 0);
  expect_gone();
}

TEST_F(GraphEndOfLife, AfterTheEndOfItsScopeIsAllowed) {
  reprise::graph scope(*alive_);
  add(x_);
  scope.end();
  alive_.reset();
  EXPECT_THROW(scope.end(), UsageError);
}

TEST_F(GraphEndOfLife, InEitherPassOfACaptureWithADryRunFailsIt) {
  GraphOptions options;
  options.check_frozen_values = no_next;
  for (const int pass : {0, 1})
    for (const bool assigned : {false, true}) {
      alive_.emplace();
      alive_->add_hooks(at(Step::captured, [holds = held_] {}));
      int passes = 0;
      const auto body = [&] {
        alive_->retain(held_);
        add(x_);
        if (passes++ != pass) return;
        if (assigned)
          *alive_ = CUDAGraph();
        else
          alive_.reset();
      };
      expect_refused([&] { capture(*alive_, options, body); }, "capture");
      EXPECT_EQ(passes, pass + 1);
      EXPECT_EQ(alive_.has_value(), assigned);
      alive_.reset();
      expect_gone();
    }
}

TEST_F(GraphEndOfLife, InAWarmUpRunFailsTheCaptureBeforeItBegins) {
  GraphOptions options;
  options.warmup = 1;
  int runs = 0;
  const auto body = [&] {
    ++runs;
    alive_.reset();
  };
  expect_refused([&] { capture(*alive_, options, body); }, "capture");
  EXPECT_EQ(runs, 1);
  expect_gone();
}

TEST_F(GraphEndOfLife, ByAnObjectThatItRetainsIsAnErrorOfTheCallThatReleasesIt) {
  capture_holding(*alive_);
  alive_->retain(std::shared_ptr<void>(this, [&](void*) { alive_.reset(); }));
  expect_refused([&] { alive_->reset(); }, "CUDAGraph::reset");
  expect_gone();
}

TEST_F(GraphEndOfLife, ByAnObjectThatABeginningCaptureReleasesFailsIt) {
  auto released = std::make_unique<ReleaseQueue::Resources>();
  released->push_back(std::shared_ptr<void>(this, [&](void*) { alive_.reset(); }));
  ReleaseQueue::push(std::move(released));
  expect_refused([&] { alive_->capture_begin(); }, "CUDAGraph::capture_begin");
  expect_gone();
}

TEST_F(GraphEndOfLife, DoesNotComeWithAMoveInTheBody) {
  for (const bool dry_run : {false, true}) {
    std::vector<CUDAGraph> graphs(1);
    GraphOptions options;
    if (dry_run) options.check_frozen_values = no_next;
    capture(graphs.back(), options, [&] {
      add(x_);
      graphs.reserve(2 * graphs.capacity());  // moves the graph
    });
    graphs.front().replay();
  }
  EXPECT_EQ(first(x_), 2);
}

TEST_F(GraphEndOfLife, DoesNotComeWithAMoveInAHook) {
  CUDAGraph moved;
  alive_->add_hooks(at(Step::before_replay, [&] { moved = std::move(*alive_); }));
  capture_increment(*alive_, x_);
  alive_->replay();
  EXPECT_EQ(first(x_), 1);
  EXPECT_THROW(alive_->replay(), UsageError);
}

// A second thread that takes part in a capture while its owner ends or abandons that: a user's error, which must not
// touch what is destroyed.
TEST(CaptureThatEnds, WhileAnotherThreadTakesPart) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "not tried on a GPU";
  const reprise::test::Warnings warnings;
  const Stream stream;
  Buffer<int> x = zeros();
  const CUDAGraph child = capture([&] { add(x); });
  const HostBuffer<std::uint32_t> condition(1);
  const std::function<void()> calls[] = {
      [&] { const Buffer<int> scratch(16, stream); },
      [&] { if_(stream, condition.data(), [&](const StreamRef& body) { add(x, 1, body); }); },
      [&] { add_child(child, stream); },
      [&] { (void)default_generator(default_device()).philox_state(4, stream); },
  };
  for (const std::function<void()>& call : calls) {
    std::atomic<bool> done = false;
    std::thread other([&] {
      while (!done) {
        try {
          call();
        } catch (const Error&) {
        }
      }
    });
    for (int i = 0; i < 150; ++i) {
      CUDAGraph graph;
      try {
        const StreamGuard current(stream);
        graph.capture_begin({.capture_error_mode = CaptureMode::relaxed,
                             .name = "a name that is longer than what a string holds in place"});
        if (i % 3 == 0) std::this_thread::yield();
        if (i % 2 == 0) graph.capture_end();
      } catch (const Error&) {
      }
      graph.capture_abandon();
    }
    done = true;
    other.join();
    EXPECT_EQ(stream.capture_status(), CaptureStatus::none);
  }
}

}  // namespace
}  // namespace reprise::graphs::test
