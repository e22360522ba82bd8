// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/conformance/contracts/contract.h"

// The data of edges: ports, and edges of programmatic dependent launches.

namespace reprise::backend {
inline void PrintTo(const EdgeData& data, std::ostream* out) {
  *out << "{from " << int{data.from_port} << " to " << int{data.to_port} << " type " << int{data.type} << "}";
}

namespace test {
namespace {

constexpr EdgeData full = {};

class EdgeDataContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  int* device_ = nullptr;
  void SetUp() override {
    graph_ = new_graph();
    device_ = new_memory<int>(4);
  }

  std::vector<Edge> all_edges(GraphHandle graph) {
    std::vector<Edge> edges;
    EXPECT_OK(backend().graph_edges(graph, &edges));
    return edges;
  }
  EdgeData data_of(GraphHandle graph, GraphNodeHandle from, GraphNodeHandle to) {
    for (const Edge& edge : all_edges(graph))
      if (edge.from == from && edge.to == to) return edge.data;
    ADD_FAILURE() << "there is no such edge";
    return {};
  }
  GraphNodeHandle kernel(const std::vector<GraphNodeHandle>& dependencies = {}) {
    return add_kernel(graph_, dependencies, Add{}, device_, 1);
  }
  Result connect(const std::vector<Edge>& edges) { return backend().graph_add_dependencies(graph_, edges); }
  static LaunchConfig programmatic() {
    LaunchConfig config;
    config.programmatic = true;
    return config;
  }
};
REPRISE_ON_EVERY_DEVICE(EdgeDataContract);

TEST_P(EdgeDataContract, EdgesOfSeveralKindsAreAddedByOneCall) {
  std::vector<GraphNodeHandle> nodes;
  for (int i = 0; i < 5; ++i) nodes.push_back(kernel());
  EXPECT_OK(connect({{nodes[0], nodes[1], programmatic_edge},
                     {nodes[1], nodes[2], full},
                     {nodes[2], nodes[3], programmatic_edge},
                     {nodes[3], nodes[4], {2, 0, 1}}}));
  EXPECT_EQ(data_of(graph_, nodes[0], nodes[1]), programmatic_edge);
  EXPECT_EQ(data_of(graph_, nodes[1], nodes[2]), full);
  EXPECT_EQ(data_of(graph_, nodes[2], nodes[3]), programmatic_edge);
  EXPECT_EQ(data_of(graph_, nodes[3], nodes[4]), (EdgeData{2, 0, 1}));
  run(instantiate(graph_), new_stream());
}

TEST_P(EdgeDataContract, ARefusedCallAddsNoEdgeOfAnyKind) {
  GraphNodeHandle first = kernel();
  GraphNodeHandle second = kernel();
  GraphNodeHandle third = kernel();
  EXPECT_RESULT(
      ErrorCode::invalid_value,
      connect({{first, second, full}, {second, third, programmatic_edge}, {third, third, programmatic_edge}}));
  EXPECT_TRUE(all_edges(graph_).empty());
}

TEST_P(EdgeDataContract, ANewNodeTakesTheDataOfItsEdges) {
  GraphNodeHandle first = kernel();
  GraphNodeHandle second = kernel();
  const GraphNodeHandle before[] = {first, second};
  const EdgeData data[] = {programmatic_edge, full};
  Arguments<Add> arguments(device_, 1);
  NodeParams params = KernelNodeParams{function<Add>(), {}, arguments.pointers()};
  GraphNodeHandle node = nullptr;
  EXPECT_OK(backend().graph_add_node(&node, graph_, {before, data}, params));
  EXPECT_EQ(data_of(graph_, first, node), programmatic_edge);
  EXPECT_EQ(data_of(graph_, second, node), full);
}

TEST_P(EdgeDataContract, RefusesProgrammaticEdgesThatAreNotBetweenKernels) {
  GraphNodeHandle first = kernel();
  GraphNodeHandle empty = add(graph_, EmptyNodeParams{});
  EXPECT_RESULT(ErrorCode::invalid_value, connect({{empty, first, programmatic_edge}}));
  EXPECT_RESULT(ErrorCode::invalid_value, connect({{first, empty, programmatic_edge}}));
  EXPECT_TRUE(all_edges(graph_).empty());
}

TEST_P(EdgeDataContract, RemovesAnEdgeWithItsData) {
  GraphNodeHandle first = kernel();
  GraphNodeHandle second = kernel();
  const Edge edge{first, second, programmatic_edge};
  EXPECT_OK(connect({edge}));
  EXPECT_OK(backend().graph_remove_dependencies(graph_, {&edge, 1}));
  EXPECT_TRUE(all_edges(graph_).empty());
}

TEST_P(EdgeDataContract, AProgrammaticLaunchInACaptureIsAnEdge) {
  StreamHandle stream = new_stream();
  begin_capture(stream);
  EXPECT_OK(launch(stream, Store{}, device_, 1));
  EXPECT_OK(launch(stream, programmatic(), Store{}, device_ + 1, 2));
  EXPECT_OK(launch(stream, Store{}, device_ + 2, 3));
  GraphHandle graph = end_capture(stream);
  const auto nodes = nodes_of(graph);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(data_of(graph, nodes[0], nodes[1]), programmatic_edge);
  EXPECT_EQ(data_of(graph, nodes[1], nodes[2]), full);
  run(instantiate(graph), stream);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(EdgeDataContract, AProgrammaticLaunchAfterOtherWorkIsAFullEdge) {
  StreamHandle stream = new_stream();
  begin_capture(stream);
  EXPECT_OK(backend().set_async({device_, 1, 4, 1}, stream));
  EXPECT_OK(launch(stream, programmatic(), Add{}, device_, 2));
  GraphHandle graph = end_capture(stream);
  const auto nodes = nodes_of(graph);
  EXPECT_EQ(data_of(graph, nodes[0], nodes[1]), full);
  run(instantiate(graph), stream);
  EXPECT_EQ(read(device_), 3);
}

TEST_P(EdgeDataContract, TheDependenciesOfACaptureCarryTheirData) {
  StreamHandle stream = new_stream();
  begin_capture(stream);
  EXPECT_OK(launch(stream, Store{}, device_, 1));
  CaptureInfo info;
  EXPECT_OK(backend().stream_capture_info(stream, &info));
  ASSERT_EQ(info.dependencies.size(), 1U);
  const GraphNodeHandle node = info.dependencies.front();
  const std::span<const EdgeData> data(&programmatic_edge, 1);
  EXPECT_OK(backend().stream_update_capture_dependencies(stream, {std::span(&node, 1), data}, UpdateDependencies::set));
  EXPECT_OK(backend().stream_capture_info(stream, &info));
  ASSERT_EQ(info.dependencies.size(), 1U);
  ASSERT_EQ(info.edges.size(), 1U);
  EXPECT_EQ(info.edges.front(), programmatic_edge);
  EXPECT_OK(launch(stream, Store{}, device_ + 1, 2));
  GraphHandle graph = end_capture(stream);
  const auto nodes = nodes_of(graph);
  EXPECT_EQ(data_of(graph, nodes[0], nodes[1]), programmatic_edge);
}

// Measured on an H200, driver 580.
TEST_P(EdgeDataContract, AProgrammaticLaunchJoinsAFork) {
  StreamHandle stream = new_stream();
  StreamHandle fork = new_stream();
  EventHandle event = new_event();
  begin_capture(stream);
  EXPECT_OK(launch(stream, Store{}, device_, 1));
  EXPECT_OK(backend().event_record(event, stream, EventUseFlags::ordering));
  EXPECT_OK(backend().stream_wait_event(fork, event, EventUseFlags::ordering));
  EXPECT_OK(launch(fork, Store{}, device_ + 1, 2));
  EXPECT_OK(backend().event_record(event, fork, EventUseFlags::ordering));
  EXPECT_OK(backend().stream_wait_event(stream, event, EventUseFlags::ordering));
  EXPECT_OK(launch(stream, programmatic(), Store{}, device_ + 2, 3));
  const GraphHandle graph = end_capture(stream);
  const auto nodes = nodes_of(graph);
  ASSERT_EQ(nodes.size(), 3U);
  for (const GraphNodeHandle before : {nodes[0], nodes[1]}) {
    const EdgeData data = data_of(graph, before, nodes[2]);
    std::printf("the edge of a programmatic launch has ports %d, %d and type %d\n", data.from_port, data.to_port,
                data.type);
  }
  run(instantiate(graph), stream);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(EdgeDataContract, AForkThatWasJoinedStaysSoAfterAProgrammaticLaunch) {
  StreamHandle stream = new_stream();
  StreamHandle fork = new_stream();
  EventHandle event = new_event();
  begin_capture(stream);
  EXPECT_OK(launch(stream, Store{}, device_, 1));
  EXPECT_OK(backend().event_record(event, stream, EventUseFlags::ordering));
  EXPECT_OK(backend().stream_wait_event(fork, event, EventUseFlags::ordering));
  EXPECT_OK(launch(fork, Store{}, device_ + 1, 2));
  EXPECT_OK(backend().event_record(event, fork, EventUseFlags::ordering));
  EXPECT_OK(backend().stream_wait_event(stream, event, EventUseFlags::ordering));
  EXPECT_OK(launch(stream, Store{}, device_ + 2, 3));
  EXPECT_OK(launch(stream, programmatic(), Store{}, device_ + 3, 4));
  run(instantiate(end_capture(stream)), stream);
  EXPECT_EQ(read(device_, 4), (std::vector<int>{1, 2, 3, 4}));
}

TEST_P(EdgeDataContract, RefusesAKernelNodeThatIsProgrammaticItself) {
  Arguments<Add> arguments(device_, 1);
  NodeParams params = KernelNodeParams{function<Add>(), programmatic(), arguments.pointers()};
  GraphNodeHandle node = nullptr;
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_add_node(&node, graph_, {}, params));
}

TEST_P(EdgeDataContract, AnUpdateSeesOtherDataOfAnEdge) {
  const auto make = [&](const EdgeData& data) {
    GraphHandle graph = new_graph();
    GraphNodeHandle first = add_kernel(graph, {}, Add{}, device_, 1);
    GraphNodeHandle second = add_kernel(graph, {}, Add{}, device_, 1);
    const Edge edge{first, second, data};
    EXPECT_OK(backend().graph_add_dependencies(graph, {&edge, 1}));
    return graph;
  };
  GraphExecHandle exec = instantiate(make(full));
  UpdateInfo info;
  EXPECT_RESULT(ErrorCode::graph_exec_update_failure,
                backend().graph_exec_update(exec, make(programmatic_edge), &info));
  EXPECT_NE(info.result, UpdateResult::success);
}

}  // namespace
}  // namespace test
}  // namespace reprise::backend
