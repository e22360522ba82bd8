// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/conformance/contracts/contract.h"

// The shape of template graphs: nodes, edges, clones, pictures.

namespace reprise::backend::test {
namespace {

using Pairs = std::vector<std::pair<GraphNodeHandle, GraphNodeHandle>>;

class GraphShapeContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  void SetUp() override { graph_ = new_graph(); }

  GraphNodeHandle add_empty() { return add(graph_, EmptyNodeParams{}); }
  Result connect(GraphNodeHandle from, GraphNodeHandle to) {
    const Edge edge{from, to};
    return backend().graph_add_dependencies(graph_, {&edge, 1});
  }
  Result disconnect(GraphNodeHandle from, GraphNodeHandle to) {
    const Edge edge{from, to};
    return backend().graph_remove_dependencies(graph_, {&edge, 1});
  }
};
REPRISE_ON_EVERY_DEVICE(GraphShapeContract);

TEST_P(GraphShapeContract, ListsNodesInTheOrderOfTheirMaking) {
  std::vector<GraphNodeHandle> made;
  for (int i = 0; i < 20; ++i) made.push_back(add_empty());
  EXPECT_EQ(nodes_of(graph_), made);
}

TEST_P(GraphShapeContract, RunsNodesAsTheEdgesSayWhateverTheOrderOfTheirMaking) {
  int* log = new_memory<int>(3);
  int* length = new_memory<int>();
  GraphNodeHandle last = add_kernel(graph_, {}, Append{}, log, length, 3);
  GraphNodeHandle middle = add_kernel(graph_, {}, Append{}, log, length, 2);
  GraphNodeHandle first = add_kernel(graph_, {}, Append{}, log, length, 1);
  EXPECT_OK(connect(first, middle));
  EXPECT_OK(connect(middle, last));
  EXPECT_THAT(edges_of(graph_), testing::UnorderedElementsAre(std::pair(first, middle), std::pair(middle, last)));
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(log, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(GraphShapeContract, DependenciesOfANewNodeAreEdges) {
  GraphNodeHandle first = add_empty();
  GraphNodeHandle second = add_empty();
  GraphNodeHandle join = add(graph_, EmptyNodeParams{}, {first, second});
  EXPECT_THAT(edges_of(graph_), testing::UnorderedElementsAre(std::pair(first, join), std::pair(second, join)));
}

TEST_P(GraphShapeContract, RemovesEdges) {
  GraphNodeHandle first = add_empty();
  GraphNodeHandle second = add_empty();
  EXPECT_OK(connect(first, second));
  EXPECT_OK(disconnect(first, second));
  EXPECT_TRUE(edges_of(graph_).empty());
  EXPECT_OK(connect(second, first)) << "the other way round is no cycle now";
  run(instantiate(graph_), new_stream());
}

TEST_P(GraphShapeContract, RefusesAnEdgeThatIsThere) {
  GraphNodeHandle first = add_empty();
  GraphNodeHandle second = add_empty();
  EXPECT_OK(connect(first, second));
  EXPECT_RESULT(ErrorCode::invalid_value, connect(first, second));
  EXPECT_EQ(edges_of(graph_).size(), 1U);
}

TEST_P(GraphShapeContract, RefusesToRemoveAnEdgeThatIsNotThere) {
  GraphNodeHandle first = add_empty();
  GraphNodeHandle second = add_empty();
  EXPECT_RESULT(ErrorCode::invalid_value, disconnect(first, second));
  EXPECT_OK(connect(first, second));
  EXPECT_RESULT(ErrorCode::invalid_value, disconnect(second, first));
  EXPECT_EQ(edges_of(graph_).size(), 1U);
}

TEST_P(GraphShapeContract, RefusesAnEdgeFromANodeToItself) {
  GraphNodeHandle node = add_empty();
  EXPECT_RESULT(ErrorCode::invalid_value, connect(node, node));
}

TEST_P(GraphShapeContract, RefusesNodesOfAnotherGraph) {
  GraphNodeHandle own_node = add_empty();
  GraphNodeHandle foreign = add(new_graph(), EmptyNodeParams{});
  EXPECT_RESULT(ErrorCode::invalid_value, connect(foreign, own_node));
  GraphNodeHandle node = nullptr;
  NodeParams params = EmptyNodeParams{};
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph_, {&foreign, 1}, params));
  EXPECT_EQ(nodes_of(graph_).size(), 1U);
}

TEST_P(GraphShapeContract, RefusesTheSameDependencyTwice) {
  GraphNodeHandle first = add_empty();
  const GraphNodeHandle twice[] = {first, first};
  GraphNodeHandle node = nullptr;
  NodeParams params = EmptyNodeParams{};
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph_, twice, params));
  EXPECT_EQ(nodes_of(graph_).size(), 1U);
}

TEST_P(GraphShapeContract, RefusesToInstantiateACycle) {
  GraphNodeHandle first = add_empty();
  GraphNodeHandle second = add_empty();
  EXPECT_OK(connect(first, second));
  EXPECT_OK(connect(second, first));
  GraphExecHandle exec = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_instantiate(&exec, graph_, InstantiateFlags::none, nullptr));
  EXPECT_EQ(exec, nullptr);
  EXPECT_OK(disconnect(second, first));
  run(instantiate(graph_), new_stream());
}

TEST_P(GraphShapeContract, DestroysANodeWithItsEdges) {
  int* device = new_memory<int>();
  GraphNodeHandle first = add_empty();
  GraphNodeHandle doomed = add_kernel(graph_, {first}, Store{}, device, 1);
  GraphNodeHandle last = add(graph_, EmptyNodeParams{}, {doomed});
  EXPECT_OK(backend().graph_destroy_node(doomed));
  EXPECT_EQ(nodes_of(graph_), (std::vector<GraphNodeHandle>{first, last}));
  EXPECT_TRUE(edges_of(graph_).empty());
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device), 0);
}

TEST_P(GraphShapeContract, AnEmptyGraphRunsAndDoesNothing) {
  StreamHandle stream = new_stream();
  run(instantiate(graph_), stream);
  EXPECT_OK(backend().stream_query(stream));
}

TEST_P(GraphShapeContract, ACloneIsAGraphOfItsOwn) {
  int* device = new_memory<int>();
  GraphNodeHandle first = add_kernel(graph_, {}, Add{}, device, 1);
  GraphNodeHandle second = add_kernel(graph_, {first}, Add{}, device, 10);
  GraphHandle clone = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  EXPECT_OK(backend().graph_destroy_node(second));
  EXPECT_EQ(nodes_of(clone).size(), 2U);
  EXPECT_EQ(edges_of(clone).size(), 1U);
  run(instantiate(clone), new_stream());
  EXPECT_EQ(read(device), 11);
}

TEST_P(GraphShapeContract, FindsANodeInAClone) {
  int* device = new_memory<int>();
  GraphNodeHandle first = add_kernel(graph_, {}, Store{}, device, 1);
  GraphNodeHandle second = add(graph_, EmptyNodeParams{}, {first});
  GraphHandle clone = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  GraphNodeHandle found_first = nullptr, found_second = nullptr;
  EXPECT_OK(backend().graph_node_find_in_clone(&found_first, first, clone));
  EXPECT_OK(backend().graph_node_find_in_clone(&found_second, second, clone));
  EXPECT_EQ(nodes_of(clone), (std::vector<GraphNodeHandle>{found_first, found_second}));
  EXPECT_NE(found_first, first);
  EXPECT_EQ(edges_of(clone), (Pairs{{found_first, found_second}}));
  EXPECT_EQ(type_of(found_first), NodeType::kernel);
}

TEST_P(GraphShapeContract, DoesNotFindANodeOfAnotherGraphInAClone) {
  add_empty();
  GraphHandle clone = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  GraphNodeHandle found = nullptr;
  GraphNodeHandle foreign = add(new_graph(), EmptyNodeParams{});
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_node_find_in_clone(&found, foreign, clone));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_node_find_in_clone(&found, add_empty(), clone))
      << "made after the clone";
  EXPECT_EQ(found, nullptr);
}

TEST_P(GraphShapeContract, RefusesToDestroyANullGraph) {
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_destroy(nullptr));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_exec_destroy(nullptr));
}

class GraphPictureContract : public GraphShapeContract {
 protected:
  // The name contains the id of the process: tests run at the same time.
  std::string path_ =
      testing::TempDir() + "reprise_contract_" + std::to_string(getpid()) + "_" + test_name_of(GetParam()) + ".dot";

  void SetUp() override {
    GraphShapeContract::SetUp();
    int* device = new_memory<int>();
    GraphNodeHandle kernel = add_kernel(graph_, {}, Append{}, device, device, 1);
    add(graph_, EmptyNodeParams{}, {kernel});
  }
  void TearDown() override {
    (void)std::remove(path_.c_str());
    GraphShapeContract::TearDown();
  }
  std::string print(DotFlags flags) {
    EXPECT_OK(backend().graph_debug_dot_print(graph_, path_.c_str(), flags));
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
};
REPRISE_ON_EVERY_DEVICE(GraphPictureContract);

TEST_P(GraphPictureContract, NamesTheKernelsAndShowsTheEdges) {
  for (const DotFlags flags : {DotFlags::none, DotFlags::verbose}) {
    const std::string dot = print(flags);
    EXPECT_EQ(dot.rfind("digraph", 0), 0U) << dot;
    EXPECT_NE(dot.find("Append"), std::string::npos) << dot;
    EXPECT_NE(dot.find("->"), std::string::npos) << dot;
    EXPECT_NE(dot.rfind('}'), std::string::npos);
  }
}

TEST_P(GraphPictureContract, SaysMoreWhenAsked) {
  EXPECT_LT(print(DotFlags::none).size(), print(DotFlags::verbose).size());
}

TEST_P(GraphPictureContract, FailsForAPathThatCannotBeWritten) {
  EXPECT_NE(backend().graph_debug_dot_print(graph_, "/no such directory/graph.dot", DotFlags::none),
            ErrorCode::success);
  EXPECT_FALSE(print(DotFlags::none).empty());
}

}  // namespace
}  // namespace reprise::backend::test
