// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <string>

#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/hooks/hooks_fixture.h"

// Hooks that throw, and hooks of what fails.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;
using reprise::test::Warnings;

TEST_F(Hooks, ThatThrowDoNotStopTheOthers) {
  const Warnings warnings;
  graph_.add_hooks(logging("a", "before"));
  graph_.add_hooks(logging("b", "before"));
  graph_.add_hooks(logging("c"));
  capture_increment(graph_, x_);
  take_log();
  EXPECT_EQ(text_of<std::runtime_error>([&] { graph_.replay(); }), "a threw");
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "c before", "c after 999"}));
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
  capture(graph_, [&] {
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

TEST_F(Hooks, ThatThrowAfterAReplayFailTheCallAndTheReplayStays) {
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

// A device whose calls can be made to fail, with a graph of one increment that has been captured there.
class HooksOfAFailedReplay : public Hooks {
 protected:
  void SetUp() override {
    failing_.add_hooks(logging("a"));
    failing_.add_hooks(logging("b"));
    capture_increment(failing_, y_);
    take_log();
  }

  FaultyBackend& faulty_ = *new FaultyBackend(default_device().backend());
  const DeviceGuard guard_{Device(faulty_)};
  Buffer<int> y_ = zeros();
  CUDAGraph failing_;
};

TEST_F(HooksOfAFailedReplay, AreNotifiedOfTheCodeOfTheLaunch) {
  faulty_.fail(Call::graph_launch, ErrorCode::launch_failure);
  EXPECT_THROW(failing_.replay(), BackendError);
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "a after 719", "b after 719"}));
  failing_.replay();
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "a after", "b after"}));
}

TEST_F(HooksOfAFailedReplay, GetTheCodeOfAHookThatPassesAnErrorOn) {
  GraphHooks hooks;
  hooks.before_replay = [](const StreamRef&) { throw BackendError("a call", ErrorCode::illegal_address, "", {}); };
  hooks.after_replay = [&](const StreamRef&, ErrorCode) { log_.emplace_back("not in a pair"); };
  failing_.add_hooks(hooks);
  EXPECT_THROW(failing_.replay(), BackendError);
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "a after 700", "b after 700"}));
}

TEST_F(HooksOfAFailedReplay, GetTheCodeOfMemoryThatIsMissing) {
  GraphHooks hooks;
  hooks.before_replay = [](const StreamRef&) { throw OutOfMemoryError("none", {}); };
  failing_.add_hooks(hooks);
  EXPECT_THROW(failing_.replay(), OutOfMemoryError);
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "a after 2", "b after 2"}));
}

TEST_F(HooksOfAFailedReplay, OnlyWarnWhenTheyThrowAsWell) {
  const Warnings warnings;
  failing_.add_hooks(logging("c", "after 719"));
  faulty_.fail(Call::graph_launch, ErrorCode::launch_failure);
  EXPECT_THROW(failing_.replay(), BackendError);
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_EQ(warnings.texts().front(), "A hook `after_replay` of a graph threw: c threw");
}

TEST_F(HooksOfAFailedReplay, AreNotNotifiedOnceRemoved) {
  GraphHooks hooks;
  HookId id{};
  hooks.before_replay = [&](const StreamRef&) { failing_.remove_hooks(id); };
  hooks.after_replay = [&](const StreamRef&, ErrorCode) { log_.emplace_back("removed"); };
  id = failing_.add_hooks(hooks);
  faulty_.fail(Call::graph_launch, ErrorCode::launch_failure);
  EXPECT_THROW(failing_.replay(), BackendError);
  EXPECT_EQ(take_log(), (Log{"a before", "b before", "a after 719", "b after 719"}));
}

TEST_F(Hooks, AreNotifiedWhenACheckRefusedTheReplay) {
  GraphOptions options;
  options.check_input_liveness = true;
  graph_.add_hooks(logging("a"));
  capture_increment(graph_, x_, options);
  x_.reset();
  take_log();
  EXPECT_THROW(graph_.replay(), DeadInputError);
  EXPECT_EQ(take_log(), (Log{"a before", "a after 999"}));
}

}  // namespace
}  // namespace reprise::graphs::test
