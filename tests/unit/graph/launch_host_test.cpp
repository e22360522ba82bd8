// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/sanitizer.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// launch_host(): functions of the host in the order of a stream.

namespace reprise::graphs::test {
namespace {

class LaunchHost : public ::testing::Test {
 protected:
  const SideStream side_;
  Buffer<int> x_ = zeros();
  std::shared_ptr<int> count_ = std::make_shared<int>(0);
  std::weak_ptr<int> watched_ = count_;
};

TEST_F(LaunchHost, CallsTheFunctionAfterPriorWorkOnce) {
  HostBuffer<int> seen(1);
  add(x_, 5);
  x_.read_async(seen);
  int at_call = -1;
  launch_host(side_.ref(), [&] { at_call = seen[0]; });
  side_.ref().synchronize();
  EXPECT_EQ(at_call, 5);
}

TEST_F(LaunchHost, DestroysTheFunctionAfterItsCall) {
  launch_host([count = std::move(count_)] { ++*count; });
  side_.ref().synchronize();
  EXPECT_TRUE(eventually([&] { return watched_.expired(); }));
}

TEST_F(LaunchHost, IsANodeThatEachReplayRuns) {
  CUDAGraph graph = capture([&](StreamRef s) {
    add(x_, 1, s);
    launch_host(s, [count = count_] { ++*count; });
  });
  EXPECT_EQ(graph.node_count(), 2U);
  EXPECT_EQ(*count_, 0);
  for (int i = 0; i < 3; ++i) graph.replay();
  side_.ref().synchronize();
  EXPECT_EQ(*count_, 3);
}

TEST_F(LaunchHost, TheGraphOwnsTheFunction) {
  CUDAGraph graph = capture([&, count = std::move(count_)] { launch_host([count] { ++*count; }); });
  EXPECT_FALSE(watched_.expired());
  graph.replay();
  side_.ref().synchronize();
  EXPECT_EQ(*watched_.lock(), 1);
  graph.reset();
  EXPECT_TRUE(eventually([&] { return watched_.expired(); }));
}

TEST_F(LaunchHost, TheFunctionOutlivesTheGraphWhileAReplayRuns) {
  reprise::test::Gate gate;
  CUDAGraph graph = capture([&] {
    call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
    launch_host([count = std::move(count_)] { ++*count; });
  });
  graph.replay();
  ASSERT_TRUE(gate.wait_until_reached());
  graph.reset();
  EXPECT_FALSE(watched_.expired());
  gate.open();
  side_.ref().synchronize();
  EXPECT_TRUE(eventually([&] { return watched_.expired(); }));
}

TEST_F(LaunchHost, AFailedCaptureReleasesTheFunction) {
  EXPECT_THROW(capture([&] {
                 launch_host([count = std::move(count_)] { ++*count; });
                 throw std::runtime_error("the body failed");
               }),
               std::runtime_error);
  EXPECT_TRUE(watched_.expired());
}

TEST_F(LaunchHost, InACaptureOfOtherCodeTheTemplateOwnsTheFunction) {
  const backend::Checked runtime(current_device().backend());
  runtime.stream_begin_capture(side_.ref().native(), CaptureMode::relaxed);
  launch_host([count = std::move(count_)] { ++*count; });
  GraphHandle graph = nullptr;
  runtime.stream_end_capture(side_.ref().native(), &graph);
  EXPECT_FALSE(watched_.expired());
  runtime.graph_destroy(graph);
  EXPECT_TRUE(eventually([&] { return watched_.expired(); }));
}

TEST_F(LaunchHost, AnExceptionOfTheFunctionIsAWarning) {
  const reprise::test::Warnings warnings;
  launch_host([] { throw std::runtime_error("not today"); });
  side_.ref().synchronize();
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_TRUE(contains(warnings.texts().front(), "not today"));
}

TEST_F(LaunchHost, ALaunchThatFailsReleasesTheFunction) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected into the host device";
  const InjectedFailure failure({.call = "cuLaunchHostFunc"});
  EXPECT_THROW(launch_host([count = std::move(count_)] { ++*count; }), BackendError);
  EXPECT_TRUE(watched_.expired());
}

TEST_F(LaunchHost, RefusesAnEmptyFunction) {
  EXPECT_THROW(launch_host(side_.ref(), std::function<void()>()), UsageError);
}

TEST_F(LaunchHost, AFunctionThatRefersToALocalOfTheBodyIsRefusedInACapture) {
  if (reprise::test::with_address_sanitizer) GTEST_SKIP() << "AddressSanitizer has variables on a stack of its own";
  const auto body = [&] {
    std::array<int, 4> local{};
    launch_host([count = count_] { ++*count; });
    launch_host([count = count_, &local] { *count += ++local[0]; });
  };
  CUDAGraph graph;
  const std::string what = text_of<UsageError>([&] { capture(graph, {.name = "step"}, body); });
  EXPECT_TRUE(
      contains(what, "graph `step` would call a function of launch_host() that refers to a destroyed local variable"));
  EXPECT_TRUE(contains(what, "call 2 of launch_host() in the capture")) << what;
  EXPECT_TRUE(contains(what, "at offset 16. Capture by value ([=])")) << what;
  BreakableGraph breakable_graph;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { breakable(breakable_graph, {}, body); }), "call 2 of launch_host()"));
  GraphOptions options;
  options.inputs.allow_stack = true;
  capture(graph, options, body);
  EXPECT_EQ(graph.node_count(), 2U) << "it is not replayed: the variable is gone";
  graph.reset();
}

TEST_F(LaunchHost, AFunctionMayReferToALocalThatOutlivesTheCall) {
  std::array<int, 4> local{};
  launch_host([count = count_, &local] { *count += ++local[0]; });
  side_.ref().synchronize();
  EXPECT_EQ(*count_, 1);
}

TEST_F(LaunchHost, AFunctionMayReferToWhatOutlivesTheBody) {
  int before = 0;
  const int* const pointer = &before;
  CUDAGraph graph = capture([&] {
    const std::string text = "short";  // in the object, where a moved one has bytes that no code wrote
    const std::function<void()> wrapped = [&before] { ++before; };
    launch_host([&before, flag = true] { before += flag ? 1 : 0; });
    launch_host([&before, text, pointer] { before += pointer != nullptr && text == "short" ? 1 : 0; });
    launch_host(wrapped);
    launch_host([this] { ++*count_; });
  });
  graph.replay();
  side_.ref().synchronize();
  EXPECT_EQ(before, 3);
  EXPECT_EQ(*count_, 1);
  graph.reset();
  int in_scope = 0;
  {
    const reprise::graph scope(graph);
    launch_host([&in_scope] { ++in_scope; });
  }
  graph.replay();
  side_.ref().synchronize();
  EXPECT_EQ(in_scope, 1);
}

TEST_F(LaunchHost, TakesWhatCanBeMovedAlone) {
  auto owned = std::make_unique<int>(1);
  launch_host([owned = std::move(owned), count = count_] { *count += *owned; });
  side_.ref().synchronize();
  EXPECT_EQ(*count_, 1);
}

// The thread that calls the function must not call the device runtime.
TEST_F(LaunchHost, DestroysWhatTheFunctionHoldsOnAThreadOfTheProgram) {
  const reprise::test::Warnings warnings;
  std::thread::id destroyed_on;
  std::atomic<bool> called = false;
  {
    const auto stream = std::make_shared<Stream>();
    const auto event = std::make_shared<Event>();
    const auto memory = std::make_shared<Buffer<int>>(16);
    memory->record_stream(*stream);
    const std::shared_ptr<void> object(this, [&](void*) { destroyed_on = std::this_thread::get_id(); });
    launch_host([stream, event, memory, object, &called] { called = true; });
  }
  side_.ref().synchronize();
  EXPECT_TRUE(called);
  EXPECT_EQ(destroyed_on, std::thread::id()) << "before a call of the library";
  release_finished_graphs();
  EXPECT_TRUE(eventually([&] { return destroyed_on == std::this_thread::get_id(); }));
  EXPECT_THAT(warnings.texts(), ::testing::IsEmpty());
}

TEST_F(LaunchHost, ReleasesEarlierFunctions) {
  launch_host([count = std::move(count_)] { ++*count; });
  side_.ref().synchronize();
  launch_host([] {});
  EXPECT_TRUE(watched_.expired());
}

}  // namespace
}  // namespace reprise::graphs::test
