// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/test_file.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/hooks/hooks_fixture.h"

// When hooks of a graph are called, and what they may do.

namespace reprise::graphs::test {
namespace {

using reprise::test::Warnings;

TEST_F(Hooks, AreCalledAtEachStepOfAGraphsLife) {
  graph_.add_hooks(logging("a"));
  capture_increment(graph_, x_);
  EXPECT_EQ(take_log(), (Log{"a captured", "a instantiated"}));
  graph_.replay();
  graph_.replay();
  EXPECT_EQ(take_log(), (Log{"a before", "a after", "a before", "a after"}));
  graph_.reset();
  EXPECT_EQ(take_log(), (Log{"a reset"}));
  graph_.reset();
  EXPECT_EQ(take_log(), Log{}) << "there is nothing left to reset";
}

TEST_F(Hooks, StayForTheNextCapture) {
  graph_.add_hooks(logging("a"));
  capture_increment(graph_, x_);
  graph_.reset();
  take_log();
  capture_increment(graph_, x_);
  EXPECT_EQ(take_log(), (Log{"a captured", "a instantiated"}));
}

TEST_F(Hooks, AreCalledByTheDestructor) {
  {
    CUDAGraph graph;
    graph.add_hooks(logging("a"));
    capture_increment(graph, x_);
    take_log();
  }
  EXPECT_EQ(take_log(), (Log{"a reset"}));
}

TEST_F(Hooks, AreCalledAtEachInstantiation) {
  CUDAGraph kept(KeepGraph::yes);
  kept.add_hooks(logging("a"));
  capture_increment(kept, x_);
  EXPECT_EQ(take_log(), (Log{"a captured"}));
  kept.replay();
  EXPECT_EQ(take_log(), (Log{"a instantiated", "a before", "a after"}));
  kept.instantiate();
  EXPECT_EQ(take_log(), (Log{"a instantiated"}));
}

TEST_F(Hooks, RunInTheOrderOfTheirRegistration) {
  graph_.add_hooks(logging("a"));
  graph_.add_hooks(logging("b"));
  capture_increment(graph_, x_);
  graph_.replay();
  EXPECT_EQ(take_log(), (Log{"a captured", "b captured", "a instantiated", "b instantiated", "a before", "b before",
                             "a after", "b after"}));
}

TEST_F(Hooks, GetTheTemplateAliveTheExecutableAndTheStream) {
  GraphHooks hooks;
  backend::Backend& runtime = default_device().backend();
  hooks.captured = [&](GraphHandle template_graph) {
    std::vector<GraphNodeHandle> nodes;
    EXPECT_EQ(runtime.graph_nodes(template_graph, &nodes), ErrorCode::success);
    EXPECT_EQ(nodes.size(), 1U);
    backend::NodeParams nothing = backend::EmptyNodeParams{};
    GraphNodeHandle added = nullptr;
    EXPECT_EQ(runtime.graph_add_node(&added, template_graph, {}, nothing), ErrorCode::success);
  };
  GraphExecHandle instantiated = nullptr;
  std::optional<StreamRef> before, after;
  hooks.instantiated = [&](GraphExecHandle exec) { instantiated = exec; };
  hooks.before_replay = [&](const StreamRef& stream) { before = stream; };
  hooks.after_replay = [&](const StreamRef& stream, ErrorCode) { after = stream; };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  EXPECT_EQ(graph_.node_count(), 2U) << "with the one that the hook added";
  EXPECT_EQ(graph_.raw_cuda_graph_exec(), instantiated);
  const Stream other;
  graph_.replay(other);
  EXPECT_TRUE(before == other.ref() && after == other.ref());
  other.synchronize();
}

TEST_F(Hooks, CanBeAddedToAGraphThatWasCapturedAlready) {
  capture_increment(graph_, x_);
  graph_.replay();
  graph_.add_hooks(logging("a"));
  graph_.replay();
  EXPECT_EQ(take_log(), (Log{"a before", "a after"}));
  graph_.reset();
  EXPECT_EQ(take_log(), (Log{"a reset"}));
}

TEST_F(Hooks, AreNotCalledOnceRemoved) {
  const HookId a = graph_.add_hooks(logging("a"));
  graph_.add_hooks(logging("b"));
  capture_increment(graph_, x_);
  graph_.remove_hooks(a);
  take_log();
  graph_.replay();
  EXPECT_EQ(take_log(), (Log{"b before", "b after"}));
}

TEST_F(Hooks, AreRemovedOnceAndOnlyFromTheirGraph) {
  CUDAGraph other;
  const HookId a = graph_.add_hooks(logging("a"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { other.remove_hooks(a); }), "CUDAGraph::remove_hooks"));
  graph_.remove_hooks(a);
  EXPECT_THROW(graph_.remove_hooks(a), UsageError);
}

TEST_F(Hooks, CanRemoveThemselvesAndAddOthers) {
  HookId once{};
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) {
    log_.emplace_back("once");
    graph_.remove_hooks(once);
    graph_.add_hooks(logging("late"));
  };
  once = graph_.add_hooks(hooks);
  graph_.add_hooks(logging("b"));
  capture_increment(graph_, x_);
  take_log();
  graph_.replay();
  EXPECT_EQ(take_log(), (Log{"once", "b before", "b after"})) << "`late` missed the beginning";
  graph_.replay();
  EXPECT_EQ(take_log(), (Log{"b before", "late before", "b after", "late after"}));
}

TEST_F(Hooks, ReleaseWhatTheyHoldWhenTheyAreRemoved) {
  auto held = std::make_shared<int>(1);
  GraphHooks hooks;
  hooks.captured = [held](GraphHandle) {};
  const HookId id = graph_.add_hooks(std::move(hooks));
  EXPECT_EQ(held.use_count(), 2);
  graph_.remove_hooks(id);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Hooks, MayRemoveOthersAsTheyAreDestroyed) {
  const HookId other = graph_.add_hooks(logging("other"));
  GraphHooks hooks;
  const std::shared_ptr<void> last(nullptr, [&](std::nullptr_t) { graph_.remove_hooks(other); });
  hooks.captured = [last](GraphHandle) {};
  const HookId id = graph_.add_hooks(std::move(hooks));
  const_cast<std::shared_ptr<void>&>(last).reset();
  graph_.remove_hooks(id);
  EXPECT_THROW(graph_.remove_hooks(other), UsageError) << "it is gone";
}

TEST_F(Hooks, OfAGraphThatIsAssignedToStillFindIt) {
  HookId id{};
  GraphHooks hooks;
  hooks.reset = [&] {
    graph_.remove_hooks(id);
    EXPECT_THROW(graph_.pool(), UsageError) << "nothing is captured any more";
    EXPECT_THROW(graph_.retain(std::make_shared<int>(1)), UsageError);
    EXPECT_THROW(graph_.capture_begin(), UsageError);
    log_.emplace_back("reset");
  };
  id = graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  graph_ = CUDAGraph();
  EXPECT_EQ(take_log(), (Log{"reset"}));
}

// --- What they may do with their graph ------------------------------------------------------------------------------

TEST_F(Hooks, MayAskTheirGraph) {
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) {
    EXPECT_EQ(graph_.node_count(), 1U);
    EXPECT_NE(graph_.raw_cuda_graph_exec(), nullptr);
    graph_.retain(std::make_shared<int>(1));
  };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, OfTheEndOfACaptureFindTheGraphCaptured) {
  CUDAGraph kept(KeepGraph::yes);
  GraphOptions options;
  options.enable_annotations = true;
  options.check_input_liveness = true;
  const reprise::test::TestFile dot;
  int called = 0;
  GraphHooks hooks;
  hooks.captured = [&](GraphHandle template_graph) {
    ++called;
    EXPECT_EQ(kept.raw_cuda_graph(), template_graph);
    EXPECT_EQ(kept.node_count(), 1U);
    ASSERT_EQ(kept.annotations().size(), 1U);
    EXPECT_EQ(kept.annotations()[0].annotation.at("name"), "scope");
    ASSERT_EQ(kept.inputs().size(), 1U);
    EXPECT_EQ(kept.device(), current_device());
    EXPECT_TRUE(kept.pool());
    kept.debug_dump(dot.path());
    EXPECT_THROW((void)kept.raw_cuda_graph_exec(), UsageError);
  };
  kept.add_hooks(hooks);
  capture(kept, options, [&] {
    const annotate scope("scope");
    add(x_);
  });
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(std::filesystem::exists(dot.path()));
}

TEST_F(Hooks, OfTheEndOfACaptureAreNotAdvisedToCallWhatIsRefusedThere) {
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
    CUDAGraph graph(keep);
    std::string text;
    graph.add_hooks({.captured = [&](GraphHandle) {
      text = text_of<UsageError>([&] { (void)graph.raw_cuda_graph_exec(); });
      EXPECT_EQ(graph.node_count(), 1U);
    }});
    capture_increment(graph, x_);
    EXPECT_TRUE(contains(text, "the hook `instantiated` is passed it"));
    EXPECT_FALSE(contains(text, "instantiate()"));
  }
}

TEST_F(Hooks, OfTheFirstInstantiationFindTheGraphReady) {
  GraphHooks hooks;
  GraphExecHandle found = nullptr;
  hooks.instantiated = [&](GraphExecHandle exec) {
    found = graph_.raw_cuda_graph_exec();
    EXPECT_EQ(found, exec);
    EXPECT_EQ(graph_.node_count(), 1U);
  };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  EXPECT_NE(found, nullptr);
}

TEST_F(Hooks, OfTheEndOfACaptureCannotAbandonIt) {
  const Warnings warnings;
  GraphHooks hooks;
  hooks.captured = [&](GraphHandle) { graph_.capture_abandon(); };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_TRUE(contains(warnings.texts().front(), "CUDAGraph::capture_abandon"));
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, OfTheEndOfACaptureHaveReplaysOfOtherThreadsWait) {
  std::thread replaying;
  GraphHooks hooks;
  hooks.captured = [&](GraphHandle) {
    replaying = std::thread([&] { graph_.replay(stream_.ref()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely it waits by then
  };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  replaying.join();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, MustNotChangeOrLaunchTheirGraphWhichSaysSo) {
  CUDAGraph kept(KeepGraph::yes);
  int refused = 0;
  GraphHooks hooks;
  const auto all_are_refused = [&](auto&&...) {
    for (const std::function<void()>& call : {std::function<void()>([&] { kept.replay(); }),
                                              {[&] { kept.upload(); }},
                                              {[&] { kept.instantiate(); }},
                                              {[&] { kept.reset(); }},
                                              {[&] { (void)time_replay(kept); }},
                                              {[&] { kept.capture_end(); }}}) {
      EXPECT_TRUE(contains(text_of<UsageError>(call), "within a hook of the same graph"));
      ++refused;
    }
    EXPECT_THROW(kept.capture_begin(), UsageError);
  };
  hooks.captured = all_are_refused;
  hooks.instantiated = all_are_refused;
  hooks.before_replay = all_are_refused;
  hooks.after_replay = all_are_refused;
  hooks.reset = all_are_refused;
  const HookId id = kept.add_hooks(hooks);
  capture_increment(kept, x_);
  kept.replay();
  EXPECT_EQ(first(x_), 1);
  kept.reset();
  EXPECT_EQ(refused, 5 * 6);
  kept.remove_hooks(id);
}

TEST_F(Hooks, MayReplayAnotherGraphButNotComeBack) {
  CUDAGraph other;
  GraphHooks hooks;
  hooks.after_replay = [&](const StreamRef&, ErrorCode) { other.replay(); };
  graph_.add_hooks(hooks);
  hooks.after_replay = [&](const StreamRef&, ErrorCode) { EXPECT_THROW(graph_.replay(), UsageError); };
  other.add_hooks(hooks);
  capture_increment(graph_, x_);
  capture_increment(other, x_);
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(Hooks, RunOneAfterTheOtherForReplaysOfSeveralThreads) {
  int inside = 0, replays = 0;  // no atomics: the thread sanitizer sees whether they are needed
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) { EXPECT_EQ(++inside, 1); };
  hooks.after_replay = [&](const StreamRef&, ErrorCode) {
    EXPECT_EQ(--inside, 0);
    ++replays;
  };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) graph_.replay(stream_.ref());
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(replays, 80);
  EXPECT_EQ(first(x_), 80);
}

}  // namespace
}  // namespace reprise::graphs::test
