// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/graph/control_flow/control_flow_fixture.h"

// Views of nodes in child graphs and bodies.

namespace reprise::graphs::test {
namespace {

using Numbers = std::vector<std::string>;

Numbers numbers_of(const std::vector<GraphNode>& nodes) {
  Numbers found;
  for (const GraphNode& node : nodes) found.push_back(node.number());
  return found;
}

/// x[0] += the seed, which stands for a number that is drawn
struct Draw {
  REPRISE_KERNEL void operator()(Thread, PhiloxState state, int* x) const { x[0] += static_cast<int>(state.seed()); }
};

class InnerNodes : public ControlFlow {
 protected:
  /// x += 1, then x[0] = 0 if `clears`.
  CUDAGraph child(bool clears = false) {
    return capture([&] {
      add(x_);
      if (clears) fill_async(x_.data(), 0, sizeof(int));
    });
  }
  /// Node 0 runs the child; node 2 is an `if_`, whose body runs it again after another kernel.
  CUDAGraph parent(const GraphOptions& options = {}) {
    const CUDAGraph added = child();
    return capture(options, [&] {
      add_child(added);
      if_(flag_.data(), [&] {
        multiply(x_, 3, y_);
        add_child(added);
      });
    });
  }
};

TEST_F(InnerNodes, AreThoseOfTheChildGraph) {
  const CUDAGraph added = child(true);
  const CUDAGraph graph = capture([&] {
    add(x_, 10);
    add_child(added);
  });
  EXPECT_TRUE(graph.nodes()[0].inner().empty()) << "a kernel has none";
  const std::vector<std::vector<GraphNode>> inner = graph.nodes()[1].inner();
  ASSERT_EQ(inner.size(), 1U);
  EXPECT_EQ(numbers_of(inner[0]), (Numbers{"1.0", "1.1"}));
  EXPECT_EQ(inner[0][0].type(), NodeType::kernel);
  EXPECT_EQ(inner[0][1].type(), NodeType::memset);
  EXPECT_EQ(inner[0][1].index(), 1U);
  EXPECT_TRUE(contains(inner[0][0].str(), "Add (node 1.0)"));
  EXPECT_TRUE(contains(inner[0][0].name(), "Add"));
  EXPECT_EQ(inner[0][0].arg<int>(1), 1);
  EXPECT_TRUE(inner[0][0].enabled());
  EXPECT_TRUE(inner[0][0].dependencies().empty());
  ASSERT_EQ(inner[0][1].dependencies().size(), 1U);
  EXPECT_EQ(inner[0][1].dependencies()[0].index, 0U) << "of the same graph";
}

TEST_F(InnerNodes, AreThoseOfEachBody) {
  const CUDAGraph graph = capture([&] {
    if_(flag_.data(), [&] {
      add(x_);
      if_(flag_.data(), [&] { add(y_); });
    });
  });
  const GraphNode condition = graph.nodes().back();
  ASSERT_EQ(condition.type(), NodeType::conditional);
  ASSERT_EQ(condition.inner().size(), 1U);
  const std::vector<GraphNode> body = condition.inner()[0];
  const std::string prefix = condition.number() + ".0.";
  ASSERT_GE(body.size(), 2U);
  EXPECT_EQ(body.front().number(), prefix + "0");
  const GraphNode nested = body.back();
  ASSERT_EQ(nested.type(), NodeType::conditional);
  ASSERT_EQ(nested.inner().size(), 1U);
  EXPECT_EQ(nested.inner()[0].front().number(), nested.number() + ".0.0");
  EXPECT_EQ(nested.inner()[0].front().arg<int*>(0), y_.data());
}

TEST_F(InnerNodes, AreFoundByTheirNames) {
  CUDAGraph graph = parent();
  const GraphNode multiplies = graph.node("Multiply");
  EXPECT_EQ(multiplies.arg<int>(1), 3);
  EXPECT_EQ(multiplies.number(), graph.nodes().back().number() + ".0.0");
  const std::string text = text_of<UsageError>([&] { (void)graph.node("Add"); });
  const std::string in_body = graph.nodes().back().number() + ".0.1.0";
  EXPECT_TRUE(contains(text, "which 2 nodes have"));
  EXPECT_TRUE(contains(text, "(node 0.0)"));
  EXPECT_TRUE(contains(text, "(node " + in_body + ")"));
  EXPECT_EQ(graph.node(in_body).number(), in_body) << "the number that the text lists finds the node";
  EXPECT_EQ(graph.node("0.0").arg<int>(1), 1);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph.node("0.7"); }), "which no node has"));
}

TEST_F(InnerNodes, DoNotHideTheNodeWhoseNameTheyShare) {
  const CUDAGraph added = child();
  const CUDAGraph graph = capture({.enable_annotations = true}, [&] {
    const annotate scope("outer");
    add_child(added);
  });
  EXPECT_EQ(graph.node("outer").number(), "0");
  EXPECT_EQ(graph.node("Add").number(), "0.0");
}

TEST_F(InnerNodes, ChangeInThisGraphAlone) {
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes}) {
    x_.write(std::array{0});
    CUDAGraph added = child();
    CUDAGraph graph = capture({.keep_graph = keep}, [&] {
      add_child(added);
      add(x_, 10);
      add_child(added);
    });
    graph.nodes()[2].inner()[0][0].set_arg(1, 500);
    graph.replay();
    EXPECT_EQ(first(x_), 511);
    graph.node("0.0").set_arg(1, 3);
    graph.replay();
    EXPECT_EQ(first(x_), 511 + 513);
    EXPECT_EQ(graph.node("0.0").arg<int>(1), 3);
    if (keep == KeepGraph::yes) {
      graph.instantiate();
      graph.replay();
      EXPECT_EQ(first(x_), 511 + 2 * 513);
    }
    added.replay();
    EXPECT_EQ(first(x_) % 10, keep == KeepGraph::yes ? 8 : 5) << "the child adds 1";
  }
}

TEST_F(InnerNodes, OfBodiesChangeToo) {
  set(1);
  CUDAGraph graph = parent();
  graph.replay();
  EXPECT_EQ(first(y_), 3);
  graph.node("Multiply").set_arg(1, 7);
  graph.replay();
  EXPECT_EQ(first(y_), 7 * 3) << "the two children and the one before have added 1 each";
}

TEST_F(InnerNodes, ChangeLaunchesCopiesAndSetsAsThoseOfTheGraphItself) {
  const CUDAGraph added = capture([&] {
    fill_async(x_.data(), 1, sizeof(int));
    copy_async(y_.data(), x_.data(), sizeof(int));
  });
  CUDAGraph graph = capture([&] { add_child(added); });
  const std::vector<GraphNode> inner = graph.nodes()[0].inner()[0];
  ASSERT_EQ(inner.size(), 2U);
  MemsetNodeParams set = inner[0].memset_params();
  set.value = 2;
  inner[0].set_params(set);
  graph.replay();
  EXPECT_EQ(first(y_), 0x02020202);
  MemcpyNodeParams copy = inner[1].memcpy_params();
  Buffer<int> other = zeros();
  copy.destination = other.data();
  inner[1].set_params(copy);
  y_.write(std::array{0});
  graph.replay();
  EXPECT_EQ(first(other), 0x02020202);
  EXPECT_EQ(first(y_), 0);
}

TEST_F(InnerNodes, AreNotDisabled) {
  CUDAGraph graph = parent();
  const std::string text = text_of<UsageError>([&] { graph.node("0.0").set_enabled(false); });
  EXPECT_TRUE(contains(text, "needs a node of the graph itself"));
  EXPECT_TRUE(contains(text, "(node 0.0)"));
  EXPECT_TRUE(graph.node("0.0").enabled());
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(InnerNodes, OfTheLibraryAreRefused) {
  CUDAGraph graph = counting();
  const std::vector<GraphNode> body = graph.nodes().back().inner()[0];
  const GraphNode& own = body.back();
  ASSERT_TRUE(contains(own.name(), "condition"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] { own.set_params(own.launch_config()); }), "the library's own"));
}

TEST_F(InnerNodes, AreViewsOfTheTemplateAsItIs) {
  CUDAGraph graph = parent({.keep_graph = KeepGraph::yes});
  const GraphNode in_child = graph.node("0.0");
  const GraphNode in_body = graph.node("Multiply");
  ASSERT_EQ(default_device().backend().graph_destroy_node(graph.nodes()[0].native()), ErrorCode::success);
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { (void)in_child.name(); }), "was called on node 0.0, which was removed"));
  EXPECT_EQ(in_body.arg<int>(1), 3);
  graph.reset();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)in_body.inner(); }), "whose graph was reset"));
}

TEST_F(InnerNodes, KeepTheirHandlesThroughAnUpdate) {
  const CUDAGraph added = child();
  CUDAGraph graph = capture([&] { add_child(added); });
  const GraphNode inner = graph.node("Add");
  const CUDAGraph five = capture([&] { add(x_, 5); });
  {
    const CUDAGraph other = capture([&] { add_child(five); });
    graph.update(other);
  }
  EXPECT_EQ(inner.arg<int>(1), 5);
  graph.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(InnerNodes, NodesOfTheLibraryDoNotShareTheNameOfAScope) {
  Generator generator(current_device(), 5);
  const auto draw = [&] { launch(1, Draw{}, generator.philox_state(1), x_.data()); };
  const CUDAGraph drawing = capture(draw);
  const CUDAGraph graph = capture({.progress_marks = true}, [&] {
    const auto in_scope = [](const char* name, const auto& work) {
      const annotate scope(name);
      work();
    };
    in_scope("plain", [&] { add(x_); });  // and a mark
    in_scope("draw", draw);               // and the head node of the random numbers
    in_scope("child", [&] { add_child(drawing); });
    in_scope("condition", [&] { if_(flag_.data(), [&] { add(x_); }); });  // and the kernel that reads it
    in_scope("loop", [&] {
      (void)while_(flag_.data(), [&] {
        add(x_);
        count_down();
      });
    });
  });
  EXPECT_EQ(graph.node("plain").type(), NodeType::kernel);
  EXPECT_TRUE(contains(graph.node("draw").str(), "Draw"));
  EXPECT_EQ(graph.node("child").type(), NodeType::child_graph);
  EXPECT_EQ(graph.node("condition").inner().size(), 1U);
  EXPECT_EQ(graph.node("loop").inner().size(), 1U);
}

}  // namespace
}  // namespace reprise::graphs::test
