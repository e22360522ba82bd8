// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/update/update_fixture.h"

// CUDAGraph::update() of graphs that cannot do the work of each other.

namespace reprise::graphs::test {
namespace {

using backend::test::FaultyBackend;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_P(GraphUpdate, RefusesAnotherClusterOrCooperativeBeforeAnythingChanges) {
  for (const bool cooperative : {false, true}) {
    LaunchConfig config;
    config.grid = Dim3(2);
    CUDAGraph graph(GetParam()), other(GetParam());
    const auto body = [&](int amount) { launch(current_stream(), config, Add{}, x_.data(), amount, std::size_t{1}); };
    capture(graph, [&] { body(1); });
    graph.replay();
    (cooperative ? void(config.cooperative = true) : void(config.cluster = Dim3(2)));
    capture(other, [&] { body(5); });
    try {
      graph.update(other);
      FAIL() << "other attributes";
    } catch (const GraphUpdateError& error) {
      EXPECT_EQ(error.result(), UpdateResult::attributes_changed);
      EXPECT_THAT(error.what(), HasSubstr("its cluster, or whether it is cooperative, differs"));
    }
    EXPECT_EQ(graph.node("Add").arg<int>(1), 1);
    EXPECT_FALSE(graph.recapture([&] { body(5); }).in_place);
    EXPECT_EQ(graph.node("Add").arg<int>(1), 5);
  }
}

TEST_P(GraphUpdate, NamesTheNodeTheFieldAndTheReasonWhenItIsNotPossible) {
  const auto body = [&](const void* source) {
    const annotate scope("load");
    add(x_);
    copy_async(x_.data(), source, 4);
  };
  int on_the_host = 7;
  const GraphOptions options{.enable_annotations = true};
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, options, [&] { body(y_.data()); });
  graph.replay();
  capture(other, options, [&] { body(&on_the_host); });
  try {
    graph.update(other);
    FAIL() << "a copy from another kind of memory";
  } catch (const GraphUpdateError& error) {
    EXPECT_EQ(error.result(), UpdateResult::parameters_changed);
    ASSERT_THAT(error.differences(), SizeIs(1));
    EXPECT_EQ(error.differences()[0].field, "source");
    EXPECT_THAT(error.what(), HasSubstr("CUDAGraph::update: expected a graph to which CUDA can update"));
    EXPECT_THAT(error.what(), HasSubstr("CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED (5)"));
    EXPECT_THAT(error.what(), HasSubstr(": memcpy (node 1) in load. Nothing has changed."));
    EXPECT_THAT(error.what(), HasSubstr("  memcpy (node 1) in load: source: 0x"));
  }
  EXPECT_EQ(graph.nodes()[1].memcpy_params().source, y_.data());
  y_.fill_bytes_async(1);
  graph.replay();
  EXPECT_EQ(first(x_), 0x01010101);
}

/// Two graphs of other shapes, and what the update is refused with.
struct Misfit {
  const char* name;
  void (*body)(Buffer<int>& x, Buffer<int>& y, Stream& fork);
  UpdateResult result;
  const char* part;
};

TEST_P(GraphUpdate, RefusesGraphsOfOtherShapesAndLeavesBothAsTheyWere) {
  Stream fork;
  const Misfit misfits[] = {
      {"more nodes", [](Buffer<int>& x, Buffer<int>& y, Stream&) { add(x), add(x), add(y), add(y); },
       UpdateResult::topology_changed, "the graph has 4 nodes, and this one 3"},
      {"fewer nodes", [](Buffer<int>& x, Buffer<int>&, Stream&) { add(x); }, UpdateResult::topology_changed,
       "the graph has 1 node, and this one 3"},
      {"another type", [](Buffer<int>& x, Buffer<int>& y, Stream&) { add(x), y.fill_bytes_async(0), add(y); },
       UpdateResult::node_type_changed,
       "the node is a memset node, and the one in its place a kernel node: memset (node 1)"},
      {"other dependencies",
       [](Buffer<int>& x, Buffer<int>& y, Stream& side) {
         side.wait(current_stream());
         add(x), add(x);
         add(y, 1, side);
         current_stream().wait(side);
       },
       UpdateResult::topology_changed, "the node has other dependencies: kernel"},
  };
  CUDAGraph graph(GetParam());
  capture(graph, [&] { add(x_), add(x_), add(y_); });
  graph.replay();
  const MempoolId pool = graph.pool();
  for (const Misfit& misfit : misfits) {
    SCOPED_TRACE(misfit.name);
    CUDAGraph other(GetParam());
    capture(other, [&] { misfit.body(x_, y_, fork); });
    try {
      graph.update(other);
      ADD_FAILURE() << "not refused";
    } catch (const GraphUpdateError& error) {
      EXPECT_EQ(error.result(), misfit.result);
      EXPECT_THAT(error.what(), HasSubstr(misfit.part));
      EXPECT_THAT(error.what(), HasSubstr("The graphs differ:\n  "));
      EXPECT_FALSE(error.differences().empty());
    }
    EXPECT_EQ(graph.pool(), pool);
    EXPECT_EQ(graph.nodes()[0].arg<int*>(0), x_.data());
    const int before = first(x_);
    graph.replay();
    EXPECT_EQ(first(x_), before + 2);
    EXPECT_NO_THROW(other.replay());
    device_.synchronize();
  }
}

/// A child graph of another shape, and what the update is refused with.
struct ChildMisfit {
  const char* name;
  void (*body)(Buffer<int>& x, Buffer<int>& y);  ///< of the innermost child
  UpdateResult result;
  const char* part;
  const char* difference;
};

// The innermost child lies in one that follows a kernel: its nodes are 1.0.0, 1.0.1.
TEST_P(GraphUpdate, NamesTheNodeOfAChildGraphOfAnotherShape) {
  const ChildMisfit misfits[] = {
      {"more nodes",
       [](Buffer<int>& x, Buffer<int>& y) {
         add(x), add(x, 5);
         const annotate scope("clear");
         y.fill_bytes_async(0);
       },
       UpdateResult::topology_changed,
       ": the child graph has 3 nodes, and the one in its place 2: child graph (node 1.0) in inner. Nothing",
       "differ:\n  memset (node 1.0.2) in clear: only in the second graph"},
      {"fewer nodes", [](Buffer<int>& x, Buffer<int>&) { add(x); }, UpdateResult::topology_changed,
       ": the child graph has 1 node, and the one in its place 2: child graph (node 1.0) in inner. Nothing",
       "differ:\n  kernel reprise::graphs::test::Add (node 1.0.1) in inner: only in the first graph"},
      {"another type", [](Buffer<int>& x, Buffer<int>& y) { add(x), y.fill_bytes_async(0); },
       UpdateResult::node_type_changed,
       ": the node is a memset node, and the one in its place a kernel node: memset (node 1.0.1) in inner. ",
       "differ:\n  memset (node 1.0.1) in inner: type: kernel, then memset"},
  };
  const auto capture_around = [&](CUDAGraph& graph, int amount, auto&& body) {
    const GraphOptions options{.enable_annotations = true};
    CUDAGraph inner, middle;
    capture(inner, options, body);
    capture(middle, options, [&] {
      const annotate scope("inner");
      add_child(inner);
    });
    capture(graph, options, [&] {
      add(y_, amount);  // listed after the differences of the refused node
      const annotate scope("middle");
      add_child(middle);
    });
  };
  CUDAGraph graph(GetParam());
  capture_around(graph, 1, [&] { add(x_), add(x_, 5); });
  graph.replay();
  for (const ChildMisfit& misfit : misfits) {
    SCOPED_TRACE(misfit.name);
    CUDAGraph other(GetParam());
    capture_around(other, 2, [&] { misfit.body(x_, y_); });
    try {
      graph.update(other);
      ADD_FAILURE() << "not refused";
    } catch (const GraphUpdateError& error) {
      EXPECT_EQ(error.result(), misfit.result);
      EXPECT_THAT(error.what(), HasSubstr(misfit.part));
      EXPECT_THAT(error.what(), HasSubstr(misfit.difference));
    }
    const int x = first(x_), y = first(y_);
    graph.replay();
    EXPECT_EQ(first(x_), x + 6);
    EXPECT_EQ(first(y_), y + 1);
  }
}

TEST_P(GraphUpdate, RefusesItselfOtherDevicesAndGraphsWithoutATemplate) {
  static auto& backend = *new FaultyBackend(default_device().backend());
  const Device other_device(backend);
  CUDAGraph graph = replayed(x_, 1);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.update(graph); }), "with the graph itself"));
  CUDAGraph empty;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.update(empty); }), "`empty`"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { empty.update(graph); }), "`empty`"));
  CUDAGraph discarded;
  capture(discarded, {.discard_template = true}, [&] { work(y_, 2); });
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.update(discarded); }), "discard_template"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { discarded.update(graph); }), "discard_template"));
  CUDAGraph capturing;
  capturing.capture_begin();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.update(capturing); }), "`capturing`"));
  capturing.capture_abandon();
  {
    const DeviceGuard there(other_device);
    Buffer<int> far = zeros(4);
    const CUDAGraph of_other = captured(far, 2);
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.update(of_other); }), "an executable stays on its device"));
  }
  CUDAGraph moved_from;
  const CUDAGraph taken = std::move(moved_from);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.update(moved_from); }), "moved from"));  // NOLINT: that is it
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_P(GraphUpdate, IsRefusedWithinHooksOfBothGraphs) {
  CUDAGraph graph = replayed(x_, 1);
  CUDAGraph other = captured(y_, 2);
  int refused = 0;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) {
    refused += contains(text_of<UsageError>([&] { graph.update(other); }), "within a hook of the same graph");
  };
  const HookId id = graph.add_hooks(hooks);
  graph.replay();
  graph.remove_hooks(id);
  other.add_hooks(hooks);
  other.replay();
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace reprise::graphs::test
