// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/single_nodes.h"

#include "tests/unit/inspect/made_graphs_fixture.h"

// Nodes that are executed without the others of their graph.

namespace reprise::inspect::test {
namespace {

using graphs::test::contains;
using graphs::test::read;
using graphs::test::text_of;
using graphs::test::zeros;
using ::testing::ElementsAre;

class SingleNodesTest : public MadeGraphs<> {
 protected:
  SingleNodesTest() { x_.write(std::vector<int>{1, 2}); }

  /// A copy that is said to be one of rows with gaps, which no graph but its own can have.
  ScannedNode add_pitched_copy(GraphHandle graph) {
    GraphNodeHandle const copy = add(graph, backend::MemcpyNodeParams{y_.data(), x_.data(), 8});
    device_.pretended.emplace(copy, backend::PitchedCopyNodeParams{});
    ScannedNode node;
    node.handle = node.top = copy;
    node.type = backend::NodeType::memcpy;
    node.graph = graph;
    return node;
  }
  static std::string describe() { return "memcpy (node 1)"; }

  Buffer<int> x_{2}, y_ = zeros(2), z_ = zeros(2);
};

TEST_F(SingleNodesTest, WhatCannotBeAddedToAnotherGraphIsExecutedInAClone) {
  GraphHandle const graph = make();
  add(graph, backend::MemcpyNodeParams{z_.data(), x_.data(), 8});
  const ScannedNode copy = add_pitched_copy(graph);
  add(graph, backend::MemcpyNodeParams{z_.data(), x_.data(), 8});
  SingleNodes nodes(device_);
  GraphExecHandle const exec = nodes.make(copy, describe);
  const Stream stream;
  ASSERT_EQ(device_.graph_launch(exec, stream.native()), ErrorCode::success);
  stream.synchronize();
  EXPECT_THAT(read(y_), ElementsAre(1, 2));
  EXPECT_THAT(read(z_), ElementsAre(0, 0)) << "no other node ran";
}

TEST_F(SingleNodesTest, WhatCannotBeAddedNorClonedIsRefused) {
  GraphHandle const graph = make();
  add(graph, backend::MemoryAllocateNodeParams{512});
  const ScannedNode copy = add_pitched_copy(graph);
  SingleNodes nodes(device_);
  const auto text = text_of<UsageError>([&] { nodes.make(copy, describe); });
  EXPECT_TRUE(contains(text, "compare: memcpy (node 1) has parameters that the driver does not provide"));
}

TEST_F(SingleNodesTest, ConditionalNodesOfOtherCodeAreRefused) {
  device_.fail(backend::Call::graph_node_params, ErrorCode::not_supported);
  SingleNodes nodes(device_);
  ScannedNode node;
  node.type = backend::NodeType::conditional;
  const auto text = text_of<UsageError>([&] { nodes.make(node, [] { return "node"; }); });
  EXPECT_TRUE(contains(text, "compare: node was not made by this library"));
}

}  // namespace
}  // namespace reprise::inspect::test
