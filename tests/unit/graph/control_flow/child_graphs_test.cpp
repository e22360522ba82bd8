// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Graphs within graphs: add_child(), and CUDAGraph::replay() in a capture.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;

class ChildGraphs : public ::testing::Test {
 protected:
  /// x = x + 1, as a graph.
  CUDAGraph add_one(const GraphOptions& options = {}) {
    return capture(options, [&] { add(x_); });
  }

  Buffer<int> x_ = zeros(4);
  Buffer<int> y_ = zeros(4);
};

TEST_F(ChildGraphs, RunInTheirPlaceAmongTheNodesOfTheParent) {
  const CUDAGraph child = add_one();
  CUDAGraph parent = capture([&] {
    add(x_, 10);
    add_child(child);
    multiply(x_, 3, y_);
  });
  EXPECT_EQ(parent.node_count(), 3U);
  EXPECT_EQ(parent.nodes()[1].type(), NodeType::child_graph);
  EXPECT_EQ(first(x_), 0) << "the capture launches nothing";
  parent.replay();
  EXPECT_EQ(first(y_), 33);
  parent.replay();
  EXPECT_EQ(first(y_), 66);
}

TEST_F(ChildGraphs, AreWhatAReplayInACaptureMakes) {
  CUDAGraph child = add_one();
  const Stream side;
  CUDAGraph parent = capture([&] {
    child.replay();
    side.wait(current_stream());
    child.replay(side);
    current_stream().wait(side);
    add(x_, 10);
  });
  EXPECT_EQ(parent.node_count(), 3U);
  parent.replay();
  EXPECT_EQ(first(x_), 12);
  child.replay();
  EXPECT_EQ(first(x_), 13) << "outside of captures it is launched";
}

TEST_F(ChildGraphs, AreCopies) {
  CUDAGraph child = add_one({.keep_graph = KeepGraph::yes});
  CUDAGraph parent = capture([&] { add_child(child); });
  child.node("Add").set_arg(1, 5);
  parent.replay();
  EXPECT_EQ(first(x_), 1) << "later changes do not reach the parent";
  CUDAGraph changed = capture([&] { add_child(child); });
  changed.replay();
  EXPECT_EQ(first(x_), 6) << "earlier ones do";
}

TEST_F(ChildGraphs, NestAtAnyDepth) {
  const CUDAGraph inner = add_one();
  const CUDAGraph middle = capture([&] {
    add_child(inner);
    add_child(inner);
  });
  CUDAGraph outer = capture([&] {
    add_child(middle);
    add(x_, 10);
    add_child(middle);
  });
  outer.replay();
  EXPECT_EQ(first(x_), 14);
}

TEST_F(ChildGraphs, OfOneGraphRunOneAfterAnother) {
  const CUDAGraph child = add_one();
  const Stream side;
  CUDAGraph parent = capture([&] {
    side.wait(current_stream());
    add_child(child);
    add_child(child, side);
    current_stream().wait(side);
    add(x_, 10);
  });
  const std::vector<GraphNode> nodes = parent.nodes();
  ASSERT_EQ(nodes.size(), 3U);
  ASSERT_EQ(nodes[1].dependencies().size(), 1U) << "although no stream orders them";
  EXPECT_EQ(nodes[1].dependencies()[0].index, 0U);
  parent.replay();
  EXPECT_EQ(first(x_), 12);
}

TEST_F(ChildGraphs, OfOneGraphWithinOtherChildrenRunOneAfterAnotherToo) {
  const CUDAGraph child = add_one();
  const CUDAGraph one = capture([&] { add_child(child); }), other = capture([&] { add_child(child); });
  const Stream side;
  CUDAGraph parent = capture([&] {
    side.wait(current_stream());
    add_child(one);
    add_child(other, side);
    add_child(child);
    current_stream().wait(side);
  });
  const std::vector<GraphNode> nodes = parent.nodes();
  ASSERT_EQ(nodes.size(), 3U);
  ASSERT_EQ(nodes[1].dependencies().size(), 1U) << "although no stream orders them";
  EXPECT_EQ(nodes[1].dependencies()[0].index, 0U);
  EXPECT_EQ(nodes[2].dependencies().size(), 2U) << "the stream's, and the last copy";
  parent.replay();
  EXPECT_EQ(first(x_), 3);
}

TEST_F(ChildGraphs, OfAChangedGraphKeepTheMemoryThatTheyWrite) {
  auto written = std::make_unique<Buffer<int>>(4);
  int* const address = written->data();
  CUDAGraph child = capture({.inputs = {.retain = true}}, [&] { multiply(x_, 2, *written); });
  const Parameter<int*> place = child.parameter(address);
  CUDAGraph parent = capture([&] { add_child(child); });
  written.reset();
  Buffer<int> elsewhere(4);
  child.set(place, elsewhere.data());
  child.replay();
  current_stream().synchronize();
  release_finished_graphs();
  const Buffer<int> next(4);
  EXPECT_NE(next.data(), address) << "the parent's copy still writes there";
  parent.replay();
}

TEST_F(ChildGraphs, KeepTheirMemoryForTheParentWhenTheyAreGone) {
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
    x_.write(std::vector{0, 0, 0, 0});
    auto retained = std::make_shared<int>(7);
    Buffer<int> result;
    std::optional<CUDAGraph> child = capture({.keep_graph = keep}, [&] {
      result = Buffer<int>(4);
      multiply(x_, 2, result);
    });
    child->retain(retained);
    CUDAGraph parent = capture([&] {
      add(x_, 5);
      add_child(*child);
    });
    child.reset();
    release_finished_graphs();
    EXPECT_GE(retained.use_count(), 2) << "the parent shares it";
    parent.replay();
    EXPECT_EQ(first(result), 10);
    result.reset();
    parent.reset();
    EXPECT_TRUE(eventually([&] {
      release_finished_graphs();
      return retained.use_count() == 1;
    }));
  }
}

TEST_F(ChildGraphs, MayOutliveTheParent) {
  Buffer<int> result;
  CUDAGraph child = capture([&] {
    result = Buffer<int>(4);
    multiply(x_, 2, result);
  });
  {
    const CUDAGraph parent = capture([&] { add_child(child); });
  }
  release_finished_graphs();
  add(x_, 21);
  child.replay();
  EXPECT_EQ(first(result), 42);
}

TEST_F(ChildGraphs, OwnTheirMemorySoThatItIsNoInputOfTheParent) {
  Buffer<int> result;
  const CUDAGraph child = capture([&] {
    result = Buffer<int>(4);
    multiply(x_, 2, result);
  });
  CUDAGraph parent = capture({.check_input_liveness = true}, [&] { add_child(child); });
  ASSERT_EQ(parent.inputs().size(), 1U);
  EXPECT_EQ(parent.inputs()[0].address, x_.data());
  result.reset();
  parent.replay();
  current_stream().synchronize();
  x_.reset();
  EXPECT_THROW(parent.replay(), DeadInputError) << "inputs of children are those of the parent";
}

TEST_F(ChildGraphs, MayBeChangedAndResetWhileTheParentRuns) {
  CUDAGraph child = add_one();
  CUDAGraph parent = capture([&] { add_child(child); });
  reprise::test::Gate gate;
  call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
  parent.replay();
  child.reset();
  gate.open();
  EXPECT_EQ(first(x_), 1);
}

// --- Refusals -------------------------------------------------------------------------------------------------------

TEST_F(ChildGraphs, AreRefusedWhereNoCaptureIsUnderway) {
  const CUDAGraph child = add_one();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { add_child(child); }),
                       "add_child: the stream takes part in no capture that this library began"));
}

TEST_F(ChildGraphs, AreRefusedWithoutATemplate) {
  GraphOptions options;
  options.discard_template = true;
  const CUDAGraph child = add_one(options);
  CUDAGraph parent = capture([&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { add_child(child); }), "GraphOptions::discard_template"));
    add(x_, 3);
  });
  parent.replay();
  EXPECT_EQ(first(x_), 3) << "the capture went on";
  const CUDAGraph empty;
  EXPECT_TRUE(text_of<UsageError>([&] { add_child(empty); }).starts_with("add_child")) << "not the query of its device";
  EXPECT_THROW(add_child(empty, current_stream()), UsageError);
}

TEST_F(ChildGraphs, WithADisabledNodeAreRefused) {
  CUDAGraph child = add_one({.name = "step"});
  child.replay();
  child.nodes()[0].set_enabled(false);
  CUDAGraph parent = capture([&] {
    const std::string text = text_of<UsageError>([&] { add_child(child); });
    EXPECT_TRUE(contains(text, "add_child of graph `step`: node 0 is disabled"));
    add(x_, 3);
  });
  child.nodes()[0].set_enabled(true);
  parent = capture([&] { add_child(child); });
  parent.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(ChildGraphs, OfAnotherDeviceAreRefused) {
  if (devices().size() < 2 || devices()[1].type() != current_device().type())
    GTEST_SKIP() << "there is one device here";
  CUDAGraph child = add_one();
  const Stream there(devices()[1] == current_device() ? devices()[0] : devices()[1]);
  CUDAGraph parent = capture(there, [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { add_child(child, there); }), "the stream is of device"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { child.replay(there); }), "the stream is of device"));
    Buffer<int> z(1, there);
    z.fill_bytes_async(0, there);
  });
}

TEST_F(ChildGraphs, OfTheirOwnCaptureAreRefused) {
  CUDAGraph graph;
  capture(graph, [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { add_child(graph); }), "`capturing`"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(); }), "`capturing`"));
    add(x_);
  });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(ChildGraphs, AreRefusedWithinAHookOfTheirs) {
  CUDAGraph child = add_one();
  std::string text;
  child.add_hooks({.before_replay = [&](const StreamRef&) { text = text_of<UsageError>([&] { add_child(child); }); }});
  child.replay();
  EXPECT_TRUE(contains(text, "within a hook of the same graph"));
}

TEST_F(ChildGraphs, AGraphThatWasMovedFromIsRefused) {
  CUDAGraph child = add_one();
  const CUDAGraph moved = std::move(child);
  CUDAGraph parent = capture([&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { add_child(child, current_stream()); }), "moved from"));  // NOLINT
    EXPECT_TRUE(contains(text_of<UsageError>([&] { add_child(child); }), "moved from"));
    add_child(moved);
  });
  parent.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(ChildGraphs, InACaptureOfOtherCodeAreRefused) {
  CUDAGraph child = add_one();
  const Stream stream;
  const backend::Checked runtime(current_device().backend());
  runtime.stream_begin_capture(stream.native(), CaptureMode::relaxed);
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { add_child(child, stream); }), "in no capture that this library began"));
  GraphHandle graph = nullptr;
  runtime.stream_end_capture(stream.native(), &graph);
  runtime.graph_destroy(graph);
}

/// Fails each of the calls that add a child with random numbers.
class FailingChildGraphs : public ::testing::Test {
 protected:
  static FaultyBackend& runtime() {
    static auto& runtime = *new FaultyBackend(default_device().backend());  // devices live until the process ends
    return runtime;
  }
  ~FailingChildGraphs() override {
    runtime_.heal();
    current_stream().synchronize();
  }
  /// Captures x += 10, the child, whose addition fails in this call, and x += 100.
  void capture_with_failing(Call call) {
    capture(parent_, [&] {
      add(x_, 10);
      runtime_.fail(call, ErrorCode::unknown);
      EXPECT_THROW(add_child(child_), BackendError) << backend::cuda_name(call);
      runtime_.heal();
      add(x_, 100);
    });
  }

  FaultyBackend& runtime_ = runtime();
  const DeviceGuard guard_{Device(runtime_)};
  Buffer<int> x_ = zeros(4);
  Generator generator_{current_device(), 1};
  CUDAGraph child_ = capture([&] {
    add(x_);
    (void)generator_.philox_state(4);
  });
  CUDAGraph parent_;
};

TEST_F(FailingChildGraphs, LeaveTheCaptureAsItWasUntilTheNodeIsAdded) {
  for (const Call call : {Call::graph_nodes, Call::graph_node_type, Call::graph_add_node}) {
    capture_with_failing(call);
    x_.write(std::vector(4, 0));
    parent_.replay();
    EXPECT_EQ(first(x_), 110) << backend::cuda_name(call);
    parent_.reset();
  }
}

TEST_F(FailingChildGraphs, FailTheCaptureOnceTheNodeIsAdded) {
  for (const Call call :
       {Call::graph_node_params, Call::graph_node_set_params, Call::stream_update_capture_dependencies}) {
    EXPECT_TRUE(
        contains(text_of<UsageError>([&] { capture_with_failing(call); }), "A node was added to the capture in part"))
        << backend::cuda_name(call);
    EXPECT_THROW(parent_.pool(), UsageError) << "it is empty";
    capture(parent_, [&] { add_child(child_); });
    x_.write(std::vector(4, 0));
    parent_.replay();
    EXPECT_EQ(first(x_), 1) << backend::cuda_name(call);
    parent_.reset();
  }
}

}  // namespace
}  // namespace reprise::graphs::test
