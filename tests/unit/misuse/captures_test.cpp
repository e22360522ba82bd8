// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Misuse of capture(), the scope `graph`, and library_workspace(); table.md has what is tested elsewhere.

namespace reprise::graphs::test {
namespace {

class CaptureMisuse : public ::testing::Test {
 protected:
  const SideStream side_;
  Buffer<int> x_ = zeros();
};

TEST_F(CaptureMisuse, EmptyBodiesOfAllKindsAreRefused) {
  void (*const no_function)() = nullptr;
  const std::function<void()> empty;
  CUDAGraph graph;
  const auto refused = [](const auto& call) { return contains(text_of<UsageError>(call), "empty function"); };
  EXPECT_TRUE(refused([&] { (void)capture(nullptr); }));
  EXPECT_TRUE(refused([&] { (void)capture(no_function); }));
  EXPECT_TRUE(refused([&] { (void)capture(empty); }));
  EXPECT_TRUE(refused([&] { (void)capture(side_.ref(), empty); }));
  EXPECT_TRUE(refused([&] { (void)capture(default_device(), empty); }));
  EXPECT_TRUE(refused([&] { (void)capture({.warmup = 2}, empty); }));
  EXPECT_TRUE(refused([&] { capture(graph, empty); }));
  EXPECT_FALSE(static_cast<bool>(CaptureBody(empty)));
}

TEST_F(CaptureMisuse, AStreamThatIsTheDefaultOneOrCapturesAlreadyIsRefused) {
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)capture(default_device().default_stream(), [&] { add(x_); }); }),
                       "legacy default stream"));
  CUDAGraph outer;
  outer.capture_begin();
  add(x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)capture(side_.ref(), [&] { add(x_); }); }),
                       "takes part in a capture already"));
  CUDAGraph inner;
  const GraphOptions options{.stream = side_.ref()};
  EXPECT_TRUE(contains(text_of<UsageError>([&] { const reprise::graph scope(inner, options); }),
                       "takes part in a capture already"));
  outer.capture_end();
  outer.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureMisuse, ANestedCaptureOfTheSameGraphIsRefusedAndTheOuterOneGoesOn) {
  CUDAGraph graph;
  capture(graph, [&] {
    add(x_);
    EXPECT_THROW(capture(graph, [&] { add(x_); }), UsageError);
    EXPECT_THROW(const reprise::graph scope(graph), UsageError);
  });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureMisuse, TheStreamOfADeviceOfAnotherKindBecomesCurrentForTheCaptureAlone) {
  static auto& backend = *new backend::test::FaultyBackend(default_device().backend());  // until the process ends
  const Stream there{Device(backend)};
  const StreamRef before = current_stream();
  CUDAGraph graph = capture(there, [&](const StreamRef& stream) { launch_host(stream, [] {}); });
  EXPECT_EQ(graph.device(), there.device());
  EXPECT_EQ(current_stream(), before);
  EXPECT_THROW(graph.replay(before), UsageError);
}

TEST_F(CaptureMisuse, AScopeThatWasEndedRefusesASecondEndAndItsGraphIsUnchanged) {
  CUDAGraph graph;
  {
    reprise::graph scope(graph);
    add(x_);
    scope.end();
    EXPECT_TRUE(contains(text_of<UsageError>([&] { scope.end(); }), "graph::end"));
    (void)scope.stream();
  }
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureMisuse, AScopeCannotEndOnAnotherThreadAndGoesOn) {
  CUDAGraph graph;
  {
    reprise::graph scope(graph);
    add(x_);
    std::thread([&] { EXPECT_TRUE(contains(text_of<UsageError>([&] { scope.end(); }), "another thread")); }).join();
  }
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureMisuse, WithinAHookOfAnotherGraphACaptureIsAllowed) {
  std::optional<CUDAGraph> inner;
  CUDAGraph outer;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) { inner = capture([&] { add(x_, 10); }); };
  outer.add_hooks(hooks);
  capture(outer, [&] { add(x_); });
  outer.replay();
  ASSERT_TRUE(inner.has_value());
  inner->replay();
  EXPECT_EQ(first(x_), 11);
}

TEST_F(CaptureMisuse, AWorkspaceOfNoBytesOrOutsideOfACaptureIsEmpty) {
  EXPECT_FALSE(library_workspace("a library", 1024));
  CUDAGraph graph;
  graph.capture_begin();
  add(x_);
  EXPECT_FALSE(library_workspace("a library", 0));
  EXPECT_TRUE(library_workspace("", 1));
  graph.capture_end();
}

TEST_F(CaptureMisuse, AWorkspaceThatIsTooLargeIsAnErrorAndTheCaptureGoesOn) {
  CUDAGraph graph;
  graph.capture_begin();
  add(x_);
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 511, std::size_t{1} << 60})
    EXPECT_THROW((void)library_workspace("a library", bytes), OutOfMemoryError) << bytes;
  EXPECT_EQ(current_stream().capture_status(), CaptureStatus::active);
  graph.capture_end();
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
