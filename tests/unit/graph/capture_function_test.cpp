// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// capture() that returns the graph, and the options that come with it.

namespace reprise::graphs::test {
namespace {

int calls_of_functions = 0;
void take_nothing() {
  ++calls_of_functions;
}
void take_the_stream(StreamRef stream) {
  calls_of_functions += stream == current_stream() ? 10 : 0;
}

class CaptureFunction : public ::testing::Test {
 protected:
  Buffer<int> x_ = zeros();
};

TEST_F(CaptureFunction, ReturnsTheGraph) {
  CUDAGraph graph = capture([&] { add(x_); });
  EXPECT_EQ(first(x_), 0);
  graph.replay();
  graph.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(CaptureFunction, PassesTheStreamAsAView) {
  CUDAGraph graph = capture([&](StreamRef stream) {
    EXPECT_EQ(stream, current_stream());
    EXPECT_EQ(stream.capture_status(), CaptureStatus::active);
    add(x_, 1, stream);
  });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureFunction, PassesTheStreamAsAHandle) {
  StreamHandle passed = nullptr;
  CUDAGraph graph = capture([&](StreamHandle stream) {
    passed = stream;
    EXPECT_EQ(stream, current_stream().native());
    add(x_);
  });
  EXPECT_NE(passed, nullptr);
}

TEST_F(CaptureFunction, TakesABodyThatCannotBeCopied) {
  auto amount = std::make_unique<int>(3);
  CUDAGraph graph = capture([this, amount = std::move(amount)] { add(x_, *amount); });
  graph.replay();
  EXPECT_EQ(first(x_), 3);
}

TEST_F(CaptureFunction, TakesAFunctionObjectByReference) {
  const std::function<void()> body = [&] { add(x_); };
  CUDAGraph graph = capture(body);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureFunction, TakesFunctions) {
  capture({.allow_empty = true}, take_nothing);
  capture({.allow_empty = true}, &take_nothing);
  capture({.allow_empty = true}, take_the_stream);
  EXPECT_EQ(calls_of_functions, 12);
}

TEST_F(CaptureFunction, InstantiatesAsPyTorchDoes) {
  EXPECT_EQ(GraphOptions{}.instantiate_flags,
            InstantiateFlags::auto_free_on_launch | InstantiateFlags::use_node_priority);
}

TEST_F(CaptureFunction, CapturesOnTheStreamThatItIsGiven) {
  const Stream stream;
  CUDAGraph graph = capture(stream, [&](StreamRef captured) {
    EXPECT_EQ(captured, stream.ref());
    add(x_);
  });
  EXPECT_NE(current_stream(), stream.ref());
  graph.replay(stream);
  stream.synchronize();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureFunction, CapturesOnTheDeviceThatItIsGiven) {
  const std::optional<Device> other = second_device();
  if (!other) GTEST_SKIP() << "there is one device";
  Buffer<int> y;
  CUDAGraph graph = capture(*other, [&](StreamRef stream) {
    EXPECT_EQ(stream.device(), *other);
    EXPECT_EQ(current_device(), *other);
    y = Buffer<int>(1);
    y.fill_bytes_async(1);
  });
  EXPECT_EQ(graph.device(), *other);
  EXPECT_EQ(current_device(), default_device());
}

TEST_F(CaptureFunction, TakesOptionsAsAnAggregate) {
  CUDAGraph graph = capture({.allow_empty = true}, [] {});
  EXPECT_EQ(graph.node_count(), 0);
}

TEST_F(CaptureFunction, PropagatesAnExceptionOfTheBody) {
  EXPECT_THROW(capture([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_FALSE(is_current_stream_capturing());
}

TEST_F(CaptureFunction, ThrowsAnErrorOfItsOwnTypeWhenNothingWasCaptured) {
  EXPECT_THROW(capture([] {}), EmptyCaptureError);
  static_assert(std::is_base_of_v<CaptureError, EmptyCaptureError>);
}

TEST_F(CaptureFunction, KeepsTheTemplateIfTheOptionsSaySo) {
  CUDAGraph graph = capture({.keep_graph = KeepGraph::yes}, [&] { add(x_); });
  EXPECT_NE(graph.raw_cuda_graph(), nullptr);
  graph.replay();
  EXPECT_EQ(first(x_), 1);

  graph.reset();
  capture(graph, [&] { add(x_); });
  EXPECT_THROW(graph.raw_cuda_graph(), UsageError) << "the option is of one capture";
}

TEST_F(CaptureFunction, RefusesToDiscardATemplateThatTheOptionsKeep) {
  EXPECT_THROW(capture({.keep_graph = KeepGraph::yes, .discard_template = true}, [&] { add(x_); }), UsageError);
}

TEST_F(CaptureFunction, IsNamedByItsRefusalsAndTheScopeByIts) {
  const GraphOptions options{.stream = default_device().default_stream()};
  EXPECT_TRUE(text_of<UsageError>([&] { capture(options, [&] { add(x_); }); }).starts_with("capture: "));
  CUDAGraph captured = capture([&] { add(x_); });
  EXPECT_TRUE(text_of<UsageError>([&] { capture(captured, [&] { add(x_); }); }).starts_with("capture needs"));
  EXPECT_TRUE(text_of<UsageError>([&] { const reprise::graph scope(captured); }).starts_with("graph needs"));
  CUDAGraph empty;
  EXPECT_TRUE(text_of<UsageError>([&] { const reprise::graph scope(empty, options); }).starts_with("graph: "));
}

TEST_F(CaptureFunction, RefusesFlagsThatCudaDoesNotCombine) {
  const GraphOptions options{.instantiate_flags =
                                 InstantiateFlags::auto_free_on_launch | InstantiateFlags::device_launch};
  EXPECT_TRUE(contains(text_of<UsageError>([&] { capture(options, [&] { add(x_); }); }), "device_launch"));
}

TEST_F(CaptureFunction, CallsTheHooksOfTheOptionsUntilTheGraphIsReset) {
  std::vector<std::string> calls;
  const GraphHooks hooks{.captured = [&](GraphHandle) { calls.emplace_back("captured"); },
                         .before_replay = [&](const StreamRef&) { calls.emplace_back("before_replay"); },
                         .reset = [&] { calls.emplace_back("reset"); }};
  CUDAGraph graph = capture({.hooks = hooks}, [&] { add(x_); });
  graph.replay();
  graph.reset();
  EXPECT_EQ(calls, (std::vector<std::string>{"captured", "before_replay", "reset"}));

  capture(graph, [&] { add(x_); });
  graph.replay();
  EXPECT_EQ(calls.size(), 3);
}

TEST_F(CaptureFunction, HoldsTheGeneratorsOfTheOptions) {
  Generator generator;
  capture({.generators = {generator}}, [&] {
    add(x_);
    EXPECT_THROW(generator.set_offset(4), UsageError);
  });
  generator.set_offset(4);
}

TEST_F(CaptureFunction, LetsMemoryOfTheBodyOutliveTheGraph) {
  Buffer<int> made;
  {
    CUDAGraph graph = capture([&] {
      made = Buffer<int>(1);
      made.fill_bytes_async(0);
      add(made, 7);
    });
    graph.replay();
    EXPECT_EQ(made.read(), std::vector<int>{7});
  }
  EXPECT_EQ(made.read(), std::vector<int>{7});
}

TEST_F(CaptureFunction, ACallInRelaxedModeDoesNotBreakTheCapture) {
  CUDAGraph graph = capture([&] {
    add(x_);
    const CaptureModeGuard relaxed;
    EXPECT_EQ(make_unsafe_call(), ErrorCode::success);
  });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CaptureFunction, TheModeIsAsBeforeAfterAGuard) {
  EXPECT_THROW(capture([&] {
                 add(x_);
                 { const CaptureModeGuard relaxed; }
                 static_cast<void>(make_unsafe_call());
               }),
               CaptureError);
}

TEST_F(CaptureFunction, ReleasesFinishedGraphsOnRequest) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  const SideStream side;
  reprise::test::Gate gate;
  {
    CUDAGraph graph = capture(side.ref(), [&] { add(x_); });
    graph.retain(std::move(held));
    call_on_host(side.ref(), &reprise::test::Gate::pass, &gate);
    graph.replay();
  }
  release_finished_graphs();
  EXPECT_FALSE(watched.expired()) << "the replay has not run yet";
  gate.open();
  side.ref().synchronize();
  release_finished_graphs();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace reprise::graphs::test
