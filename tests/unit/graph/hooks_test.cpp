// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// What a program hangs on a graph: hooks, and objects that live as long as it.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using reprise::test::Warnings;
using Log = std::vector<std::string>;

class Hooks : public ::testing::Test {
 protected:
  // Each hook writes its step and this name into the log, and throws where it is asked to.
  GraphHooks logging(std::string name, std::string throws_in = "") {
    const auto step = [this, name = std::move(name), throws_in = std::move(throws_in)](const char* what) {
      log_.push_back(name + " " + what);
      if (what == throws_in) throw std::runtime_error(name + " threw");
    };
    return {[step](GraphHandle) { step("captured"); }, [step](GraphExecHandle) { step("instantiated"); },
            [step](const StreamRef&) { step("before"); }, [step](const StreamRef&) { step("after"); },
            [step] { step("reset"); }};
  }
  Log take_log() { return std::exchange(log_, {}); }

  Log log_;  // before the graph, whose end it sees
  SideStream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

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
    EXPECT_EQ(runtime.graph_nodes(template_graph, &nodes), Result::success);
    EXPECT_EQ(nodes.size(), 1U);
    backend::NodeParams nothing = backend::EmptyNodeParams{};
    GraphNodeHandle added = nullptr;
    EXPECT_EQ(runtime.graph_add_node(&added, template_graph, {}, nothing), Result::success);
  };
  GraphExecHandle instantiated = nullptr;
  std::optional<StreamRef> before, after;
  hooks.instantiated = [&](GraphExecHandle exec) { instantiated = exec; };
  hooks.before_replay = [&](const StreamRef& stream) { before = stream; };
  hooks.after_replay = [&](const StreamRef& stream) { after = stream; };
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
  EXPECT_EQ(take_log(), (Log{"once", "b before", "b after", "late after"}));
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

TEST_F(Hooks, EndTheProcessWhenTheyDestroyTheirGraph) {
  GraphHooks hooks;
  hooks.captured = [&](GraphHandle) { graph_ = CUDAGraph(); };
  graph_.add_hooks(hooks);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(capture_increment(graph_, x_), "within a hook of its own");
}

// --- One that throws ------------------------------------------------------------------------------------------------

TEST_F(Hooks, ThatThrowDoNotStopTheOthers) {
  const Warnings warnings;
  graph_.add_hooks(logging("a", "before"));
  graph_.add_hooks(logging("b", "before"));
  graph_.add_hooks(logging("c"));
  capture_increment(graph_, x_);
  take_log();
  EXPECT_EQ(text_of<std::runtime_error>([&] { graph_.replay(); }), "a threw");
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "c before"}));
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_EQ(warnings.texts().front(), "A hook `before_replay` of a graph threw: b threw");
}

TEST_F(Hooks, ThatThrowAfterTheCaptureFailIt) {
  const HookId a = graph_.add_hooks(logging("a", "captured"));
  graph_.add_hooks(logging("b"));
  EXPECT_EQ(text_of<std::runtime_error>([&] { capture_increment(graph_, x_); }), "a threw");
  EXPECT_EQ(take_log(), (Log{"a captured", "b captured", "a reset", "b reset"}));
  EXPECT_THROW(graph_.replay(), UsageError) << "the graph is empty";
  graph_.remove_hooks(a);
  capture_increment(graph_, x_);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, ThatThrowAfterTheInstantiationFailTheCapture) {
  graph_.add_hooks(logging("a", "instantiated"));
  EXPECT_EQ(text_of<std::runtime_error>([&] { capture_increment(graph_, x_); }), "a threw");
  EXPECT_EQ(take_log(), (Log{"a captured", "a instantiated", "a reset"}));
}

TEST_F(Hooks, ThatThrowAfterALaterInstantiationLeaveTheExecutable) {
  CUDAGraph kept(KeepGraph::yes);
  const HookId a = kept.add_hooks(logging("a", "instantiated"));
  capture_increment(kept, x_);
  EXPECT_THROW(kept.replay(), std::runtime_error);
  EXPECT_EQ(first(x_), 0) << "nothing was launched";
  EXPECT_NE(kept.raw_cuda_graph_exec(), nullptr);
  EXPECT_THROW(kept.instantiate(), std::runtime_error);
  kept.remove_hooks(a);
  kept.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, ThatThrowBeforeAReplayRefuseIt) {
  const Generator generator(current_device(), 1);
  const HookId a = graph_.add_hooks(logging("a", "before"));
  capture(graph_, {}, [&] {
    generator.philox_state(1);
    add(x_);
  });
  EXPECT_THROW(graph_.replay(), std::runtime_error);
  EXPECT_EQ(first(x_), 0);
  EXPECT_EQ(generator.offset(), 0U) << "no random numbers were spent";
  graph_.remove_hooks(a);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, ThatFreeAnInputAreNoticed) {
  GraphOptions options;
  options.check_input_liveness = true;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) { x_.reset(); };
  graph_.add_hooks(hooks);
  capture_increment(graph_, x_, options);
  EXPECT_THROW(graph_.replay(), DeadInputError);
}

TEST_F(Hooks, ThatThrowAfterAReplayAreHeardAndTheReplayStays) {
  graph_.add_hooks(logging("a", "after"));
  capture_increment(graph_, x_);
  EXPECT_THROW(graph_.replay(), std::runtime_error);
  EXPECT_EQ(first(x_), 1);
}

TEST_F(Hooks, ThatThrowAtTheEndBecomeWarnings) {
  const Warnings warnings;
  graph_.add_hooks(logging("a", "reset"));
  GraphHooks odd;
  odd.reset = [] { throw 1; };
  graph_.add_hooks(odd);
  capture_increment(graph_, x_);
  graph_.reset();
  ASSERT_EQ(warnings.texts().size(), 2U);
  EXPECT_TRUE(contains(warnings.texts()[0], "std::exception"));
  EXPECT_EQ(warnings.texts()[1], "A hook `reset` of a graph threw: a threw");
}

TEST_F(Hooks, AreNotToldAfterALaunchThatFailed) {
  auto& faulty = *new FaultyBackend(default_device().backend());
  const Device device(faulty);
  const DeviceGuard guard(device);
  Buffer<int> x = zeros();
  CUDAGraph graph;
  graph.add_hooks(logging("a"));
  capture_increment(graph, x);
  take_log();
  faulty.fail(Call::graph_launch, Result::launch_failure);
  EXPECT_THROW(graph.replay(), BackendError);
  EXPECT_EQ(take_log(), (Log{"a before"}));
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
  hooks.before_replay = hooks.after_replay = all_are_refused;
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
  hooks.after_replay = [&](const StreamRef&) { other.replay(); };
  graph_.add_hooks(hooks);
  hooks.after_replay = [&](const StreamRef&) { EXPECT_THROW(graph_.replay(), UsageError); };
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
  hooks.after_replay = [&](const StreamRef&) {
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

// --- Objects that live as long as the graph -------------------------------------------------------------------------

class Retained : public Hooks {
 protected:
  std::shared_ptr<int> object_ = std::make_shared<int>(1);
  std::weak_ptr<int> watch_ = object_;
};

TEST_F(Retained, ObjectsLiveAsLongAsTheGraph) {
  capture(graph_, {}, [&] {
    graph_.retain(std::move(object_));
    add(x_);
  });
  EXPECT_FALSE(watch_.expired());
  graph_.reset();
  EXPECT_TRUE(watch_.expired());
}

TEST_F(Retained, ObjectsCanBeAddedToAGraphThatWasCaptured) {
  capture_increment(graph_, x_);
  graph_.replay();
  graph_.retain(std::move(object_));
  graph_.reset();
  EXPECT_TRUE(eventually([&] { return watch_.expired(); }));
}

TEST_F(Retained, ObjectsOutliveTheGraphWhileAReplayRuns) {
  reprise::test::Gate gate;
  capture(graph_, {}, [&] {
    graph_.retain(std::move(object_));
    call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
    add(x_);
  });
  graph_.replay();
  ASSERT_TRUE(gate.wait_until_reached());
  graph_.reset();
  EXPECT_FALSE(watch_.expired());
  gate.open();
  current_stream().synchronize();
  EXPECT_TRUE(eventually([&] { return watch_.expired(); }));
}

TEST_F(Retained, ObjectsGoWhenTheCaptureFails) {
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         graph_.retain(std::move(object_));
                         throw std::runtime_error("the body failed");
                       }),
               std::runtime_error);
  EXPECT_TRUE(watch_.expired());
}

TEST_F(Retained, ObjectsMayBeMemoryOfTheGraphsPool) {
  settle_memory();
  const std::uint64_t before = CachingAllocator::of(current_device()).statistics().reserved_bytes;
  capture(graph_, {}, [&] {
    auto scratch = std::make_shared<Buffer<int>>(1 << 20);
    scratch->fill_bytes(0);
    add(x_);
    graph_.retain(std::move(scratch));
  });
  graph_.reset();
  settle_memory();
  EXPECT_EQ(CachingAllocator::of(current_device()).statistics().reserved_bytes, before);
}

TEST_F(Retained, ObjectsNeedAGraphThatIsNotEmptyAndAreNotNull) {
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.retain(object_); }), "CUDAGraph::retain"));
  capture_increment(graph_, x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.retain(nullptr); }), "null"));
  EXPECT_EQ(object_.use_count(), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
