// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Hooks that are called for all graphs of the process.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using Steps = std::vector<std::string>;

class GlobalHooksTest : public ::testing::Test {
 protected:
  ~GlobalHooksTest() override {
    for (const HookId id : registered_) remove_global_hooks(id);
  }

  HookId add_hooks(GlobalGraphHooks hooks) {
    registered_.push_back(add_global_hooks(std::move(hooks)));
    return registered_.back();
  }
  void remove(HookId id) {
    std::erase(registered_, id);
    remove_global_hooks(id);
  }
  // Each hook writes its step and the number of the graph, counted from the first of these tests.
  GlobalGraphHooks writing(const std::string& name = "all") {
    const auto write = [this, name](const CUDAGraph& graph, const char* step) {
      steps_.push_back(name + " " + step + " " + std::to_string(graph.id() - first_));
    };
    return {[write](const CUDAGraph& graph, GraphHandle) { write(graph, "captured"); },
            [write](const CUDAGraph& graph, GraphExecHandle) { write(graph, "instantiated"); },
            [write](const CUDAGraph& graph, const StreamRef&) { write(graph, "before"); },
            [write](const CUDAGraph& graph, const StreamRef&, ErrorCode result) {
              write(graph, result == ErrorCode::success ? "after" : "failed");
            },
            [write](const CUDAGraph& graph) { write(graph, "reset"); }};
  }
  Steps take_steps() { return std::exchange(steps_, {}); }

  Steps steps_;
  std::vector<HookId> registered_;
  SideStream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
  const std::uint64_t first_ = graph_.id();
};

TEST_F(GlobalHooksTest, AreCalledForTheGraphsThatExistAndForLaterOnes) {
  capture_increment(graph_, x_);
  add_hooks(writing());
  graph_.replay();
  EXPECT_EQ(take_steps(), (Steps{"all before 0", "all after 0"}));
  {
    CUDAGraph later;
    capture_increment(later, x_);
    later.replay();
    EXPECT_EQ(take_steps(), (Steps{"all captured 1", "all instantiated 1", "all before 1", "all after 1"}));
  }
  EXPECT_EQ(take_steps(), (Steps{"all reset 1"}));
  graph_.reset();
  EXPECT_EQ(take_steps(), (Steps{"all reset 0"}));
}

TEST_F(GlobalHooksTest, EncloseTheGraphsOwnOnesInAReplayAndFollowThemElsewhere) {
  GraphHooks own;
  own.captured = [&](GraphHandle) { steps_.emplace_back("own captured"); };
  own.instantiated = [&](GraphExecHandle) { steps_.emplace_back("own instantiated"); };
  own.before_replay = [&](const StreamRef&) { steps_.emplace_back("own before"); };
  own.after_replay = [&](const StreamRef&, ErrorCode) { steps_.emplace_back("own after"); };
  own.reset = [&] { steps_.emplace_back("own reset"); };
  const HookId id = graph_.add_hooks(own);
  add_hooks(writing());
  capture_increment(graph_, x_);
  graph_.replay();
  graph_.reset();
  EXPECT_EQ(take_steps(),
            (Steps{"own captured", "all captured 0", "own instantiated", "all instantiated 0", "all before 0",
                   "own before", "own after", "all after 0", "own reset", "all reset 0"}));
  graph_.remove_hooks(id);
}

TEST_F(GlobalHooksTest, KnowTheGraphAfterItWasMoved) {
  add_hooks(writing());
  capture_increment(graph_, x_);
  CUDAGraph moved(std::move(graph_));
  take_steps();
  moved.replay();
  EXPECT_EQ(take_steps(), (Steps{"all before 0", "all after 0"}));
  graph_ = std::move(moved);
  graph_.replay();
  EXPECT_EQ(take_steps(), (Steps{"all before 0", "all after 0"}));
}

TEST_F(GlobalHooksTest, GetTheGraphItself) {
  const CUDAGraph* replayed = nullptr;
  GlobalGraphHooks hooks;
  hooks.before_replay = [&](const CUDAGraph& graph, const StreamRef&) {
    replayed = &graph;
    EXPECT_EQ(graph.node_count(), 1U);
    EXPECT_EQ(graph.name(), "increment");
  };
  add_hooks(hooks);
  GraphOptions options;
  options.name = "increment";
  capture_increment(graph_, x_, options);
  graph_.replay();
  EXPECT_EQ(replayed, &graph_);
}

TEST_F(GlobalHooksTest, RefuseAReplayByAnExceptionAndArePairedNevertheless) {
  add_hooks(writing());
  GlobalGraphHooks refusing;
  refusing.before_replay = [](const CUDAGraph&, const StreamRef&) { throw std::runtime_error("refused"); };
  const HookId id = add_hooks(refusing);
  capture_increment(graph_, x_);
  take_steps();
  EXPECT_EQ(text_of<std::runtime_error>([&] { graph_.replay(); }), "refused");
  EXPECT_EQ(take_steps(), (Steps{"all before 0", "all failed 0"}));
  EXPECT_EQ(first(x_), 0) << "nothing was launched";
  remove(id);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(GlobalHooksTest, AreNotifiedOfALaunchThatFailed) {
  auto& faulty = *new FaultyBackend(default_device().backend());
  const Device device(faulty);
  const DeviceGuard guard(device);
  Buffer<int> y = zeros();
  CUDAGraph failing;
  capture_increment(failing, y);
  add_hooks(writing());
  faulty.fail(Call::graph_launch, ErrorCode::launch_failure);
  EXPECT_THROW(failing.replay(), BackendError);
  EXPECT_EQ(take_steps(), (Steps{"all before 1", "all failed 1"}));
}

TEST_F(GlobalHooksTest, AreNotCalledOnceRemovedAndReleaseWhatTheyHold) {
  const auto held = std::make_shared<int>(1);
  GlobalGraphHooks hooks;
  hooks.before_replay = [this, held](const CUDAGraph&, const StreamRef&) { steps_.emplace_back("removed"); };
  const HookId id = add_hooks(std::move(hooks));
  capture_increment(graph_, x_);
  EXPECT_EQ(held.use_count(), 2);
  remove(id);
  EXPECT_EQ(held.use_count(), 1);
  graph_.replay();
  EXPECT_EQ(take_steps(), Steps{});
}

TEST_F(GlobalHooksTest, AreRemovedOnce) {
  const HookId id = add_hooks(writing());
  EXPECT_THROW(graph_.remove_hooks(id), UsageError) << "they are not that graph's";
  remove(id);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { remove_global_hooks(id); }), "expected the id of global hooks"));
}

TEST_F(GlobalHooksTest, CanRemoveThemselvesWhileTheyRun) {
  GlobalGraphHooks hooks;
  HookId id{};
  hooks.before_replay = [&](const CUDAGraph&, const StreamRef&) {
    remove(id);
    steps_.emplace_back("once");
  };
  hooks.after_replay = [&](const CUDAGraph&, const StreamRef&, ErrorCode) { steps_.emplace_back("removed"); };
  id = add_hooks(hooks);
  capture_increment(graph_, x_);
  graph_.replay();
  graph_.replay();
  EXPECT_EQ(take_steps(), (Steps{"once"}));
}

TEST_F(GlobalHooksTest, AreGoneWhenTheirRemovalReturnsAlsoFromOtherThreads) {
  auto inside = std::make_unique<std::atomic<int>>(0);
  std::atomic<bool> entered{false};
  GlobalGraphHooks hooks;
  hooks.before_replay = [&, counter = inside.get()](const CUDAGraph&, const StreamRef&) {
    ++*counter;
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    --*counter;
  };
  const HookId id = add_hooks(hooks);
  capture_increment(graph_, x_);
  std::thread replaying([&] { graph_.replay(stream_.ref()); });
  while (!entered) std::this_thread::yield();
  remove(id);
  EXPECT_EQ(*inside, 0);
  inside.reset();
  replaying.join();
}

TEST_F(GlobalHooksTest, OfSeveralThreadsGetAPairForEachReplayWhileOthersComeAndGo) {
  std::atomic<int> before{0}, after{0};
  GlobalGraphHooks hooks;
  hooks.before_replay = [&](const CUDAGraph&, const StreamRef&) { ++before; };
  hooks.after_replay = [&](const CUDAGraph&, const StreamRef&, ErrorCode) { ++after; };
  add_hooks(hooks);
  std::vector<CUDAGraph> graphs(3);
  for (CUDAGraph& graph : graphs) capture_increment(graph, x_);
  std::vector<std::thread> threads;
  for (CUDAGraph& graph : graphs)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) graph.replay(stream_.ref());
    });
  for (int i = 0; i < 20; ++i) {
    auto calls = std::make_unique<std::atomic<int>>(0);
    GlobalGraphHooks others;
    others.before_replay = [counter = calls.get()](const CUDAGraph&, const StreamRef&) { ++*counter; };
    remove_global_hooks(add_global_hooks(others));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(before, 60);
  EXPECT_EQ(after, 60);
  EXPECT_EQ(first(x_), 60);
}

TEST_F(GlobalHooksTest, AreNotCalledForTheDryRunOfACapture) {
  add_hooks(writing());
  GraphOptions options;
  options.check_frozen_values = no_next;
  std::vector<std::uint64_t> ids;
  capture(graph_, options, [&] {
    ids.push_back(graph_.id());
    add(x_);
  });
  EXPECT_EQ(take_steps(), (Steps{"all captured 0", "all instantiated 0"}));
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{first_, first_}));
}

TEST_F(GlobalHooksTest, HaveIdsThatAMovedFromGraphHasNot) {
  CUDAGraph other;
  EXPECT_NE(other.id(), graph_.id());
  const CUDAGraph moved(std::move(graph_));
  EXPECT_EQ(moved.id(), first_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { static_cast<void>(graph_.id()); }), "moved from"));
}

}  // namespace
}  // namespace reprise::graphs::test
