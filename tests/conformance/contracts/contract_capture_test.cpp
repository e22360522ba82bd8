// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/contracts/contract.h"

// What a capture makes of the work of one stream.

namespace reprise::backend::test {
namespace {

using Pairs = std::vector<std::pair<GraphNodeHandle, GraphNodeHandle>>;
using Nodes = std::vector<GraphNodeHandle>;

class CaptureContract : public Contract {
 protected:
  static constexpr auto relaxed = CaptureMode::relaxed;
  static constexpr auto by_thread = CaptureMode::thread;

  StreamHandle stream_ = nullptr;
  int* device_ = nullptr;
  int* pinned_value_ = nullptr;
  void SetUp() override {
    stream_ = new_stream();
    device_ = new_memory<int>(4);
    pinned_value_ = new_pinned<int>();
  }

  CaptureInfo info_of(StreamHandle stream) {
    CaptureInfo info;
    EXPECT_OK(backend().stream_capture_info(stream, &info));
    return info;
  }
  /// A copy: what the backend gives is valid until the next call on the stream.
  Nodes dependencies_of(StreamHandle stream) {
    const CaptureInfo info = info_of(stream);
    return {info.dependencies.begin(), info.dependencies.end()};
  }
  std::vector<NodeType> types_of(GraphHandle graph) {
    std::vector<NodeType> types;
    for (GraphNodeHandle node : nodes_of(graph)) types.push_back(type_of(node));
    return types;
  }
};
REPRISE_ON_EVERY_DEVICE(CaptureContract);

TEST_P(CaptureContract, DoesNotExecute) {
  std::atomic<int> calls = 0;
  begin_capture(stream_);
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  EXPECT_OK(backend().set_async({device_ + 1, 2, 4, 1}, stream_));
  EXPECT_OK(backend().copy_async(pinned_value_, device_, 4, stream_));
  EXPECT_OK(
      backend().launch_host_function({[](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls}, stream_));
  GraphHandle graph = end_capture(stream_);
  EXPECT_OK(backend().device_synchronize());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{0, 0}));
  EXPECT_EQ(*pinned_value_, 0);
  EXPECT_EQ(calls, 0);

  run(instantiate(graph), stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 2}));
  EXPECT_EQ(*pinned_value_, 1);
  EXPECT_EQ(calls, 1);
}

TEST_P(CaptureContract, MakesANodeOfEachPieceOfWorkInItsOrder) {
  EventHandle event = new_event();
  begin_capture(stream_);
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  EXPECT_OK(backend().copy_async(pinned_value_, device_, 4, stream_));
  EXPECT_OK(backend().set_async({device_, 2, 4, 1}, stream_));
  EXPECT_OK(backend().launch_host_function({[](void*) {}, nullptr}, stream_));
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::external));
  EXPECT_OK(backend().stream_wait_event(stream_, event, EventUseFlags::external));
  GraphHandle graph = end_capture(stream_);
  EXPECT_EQ(types_of(graph), (std::vector<NodeType>{NodeType::kernel, NodeType::memcpy, NodeType::memset,
                                                    NodeType::host, NodeType::event_record, NodeType::event_wait}));
  Pairs chain;
  const Nodes nodes = nodes_of(graph);
  for (std::size_t i = 1; i < nodes.size(); ++i) chain.emplace_back(nodes[i - 1], nodes[i]);
  EXPECT_EQ(edges_of(graph), chain);
}

TEST_P(CaptureContract, CopiesKernelArgumentsAtTheCall) {
  begin_capture(stream_);
  {
    Arguments<Store> arguments(device_, 5);
    EXPECT_OK(backend().launch_kernel({function<Store>(), {}, arguments.pointers()}, stream_));
    arguments.values() = {device_ + 1, 6};
  }
  run(instantiate(end_capture(stream_)), stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{5, 0}));
}

TEST_P(CaptureContract, CopiesPageableMemoryAtEachReplay) {
  int source = 1;
  begin_capture(stream_);
  EXPECT_OK(backend().copy_async(device_, &source, 4, stream_));
  GraphExecHandle exec = instantiate(end_capture(stream_));
  source = 2;
  run(exec, stream_);
  EXPECT_EQ(read(device_), 2);
  source = 3;
  run(exec, stream_);
  EXPECT_EQ(read(device_), 3);
}

TEST_P(CaptureContract, GivesAnEmptyGraphForNoWork) {
  begin_capture(stream_);
  EXPECT_OK(backend().copy_async(device_, device_ + 1, 0, stream_));  // no bytes: no node
  GraphHandle graph = end_capture(stream_);
  EXPECT_TRUE(nodes_of(graph).empty());
  run(instantiate(graph), stream_);
}

TEST_P(CaptureContract, TellsItsStatus) {
  EXPECT_EQ(status_of(stream_), CaptureStatus::none);
  begin_capture(stream_);
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_synchronize(stream_));
  EXPECT_EQ(status_of(stream_), CaptureStatus::invalidated);
  EXPECT_EQ(info_of(stream_).status, CaptureStatus::invalidated);
  GraphHandle graph = nullptr;
  EXPECT_RESULT(ErrorCode::stream_capture_invalidated, backend().stream_end_capture(stream_, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status_of(stream_), CaptureStatus::none);
}

TEST_P(CaptureContract, TellsItsGraphAndWhatTheNextNodeWillDependOn) {
  EXPECT_EQ(info_of(stream_).status, CaptureStatus::none);
  begin_capture(stream_);
  EXPECT_TRUE(dependencies_of(stream_).empty());
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  const Nodes first = dependencies_of(stream_);
  EXPECT_OK(launch(stream_, Store{}, device_, 2));
  const Nodes second = dependencies_of(stream_);
  const CaptureInfo info = info_of(stream_);
  EXPECT_EQ(info.status, CaptureStatus::active);
  EXPECT_NE(info.id, 0U);
  GraphHandle graph_meanwhile = info.graph;
  GraphHandle graph = end_capture(stream_);
  EXPECT_EQ(graph_meanwhile, graph);
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(nodes_of(graph), (Nodes{first[0], second[0]}));
}

TEST_P(CaptureContract, HasAnIdOfItsOwn) {
  begin_capture(stream_);
  const std::uint64_t first = info_of(stream_).id;
  StreamHandle other = new_stream();
  begin_capture(other);
  const std::uint64_t second = info_of(other).id;
  end_capture(other);
  end_capture(stream_);
  begin_capture(stream_);
  const std::uint64_t third = info_of(stream_).id;
  end_capture(stream_);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
}

TEST_P(CaptureContract, LeavesOtherStreamsAlone) {
  StreamHandle other = new_stream();
  begin_capture(stream_, relaxed);
  EXPECT_OK(launch(other, Store{}, device_, 3));
  EXPECT_OK(backend().stream_synchronize(other));
  GraphHandle graph = end_capture(stream_);
  EXPECT_TRUE(nodes_of(graph).empty());
  EXPECT_EQ(read(device_), 3);
}

TEST_P(CaptureContract, CapturesOfTwoStreamsMakeTwoGraphs) {
  StreamHandle other = new_stream();
  begin_capture(stream_);
  begin_capture(other);
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  EXPECT_OK(launch(other, Store{}, device_ + 1, 2));
  EXPECT_OK(launch(other, Store{}, device_ + 2, 3));
  GraphHandle first = end_capture(stream_);
  GraphHandle second = end_capture(other);
  EXPECT_EQ(nodes_of(first).size(), 1U);
  EXPECT_EQ(nodes_of(second).size(), 2U);
}

TEST_P(CaptureContract, RefusesTheLegacyStream) {
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported, backend().stream_begin_capture(nullptr, relaxed));
  EXPECT_RESULT(ErrorCode::stream_capture_unsupported,
                backend().stream_begin_capture(reinterpret_cast<StreamHandle>(1), relaxed));
  EXPECT_EQ(status_of(nullptr), CaptureStatus::none);
}

TEST_P(CaptureContract, RefusesToEndWhatDidNotBegin) {
  GraphHandle graph = nullptr;
  EXPECT_RESULT(ErrorCode::illegal_state, backend().stream_end_capture(stream_, &graph));
  EXPECT_EQ(graph, nullptr);
  expect_can_capture(stream_);
}

TEST_P(CaptureContract, ACapturedExternalRecordTimesAPartOfAReplay) {
  EventHandle start = new_event();
  EventHandle end = new_event();
  begin_capture(stream_);
  EXPECT_OK(backend().event_record(start, stream_, EventUseFlags::external));
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  EXPECT_OK(backend().event_record(end, stream_, EventUseFlags::external));
  run(instantiate(end_capture(stream_)), stream_);
  EXPECT_OK(backend().event_query(end));
  float milliseconds = -1;
  EXPECT_OK(backend().event_elapsed_ms(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
}

TEST_P(CaptureContract, AnEventThatOnlyAReplayRecordsIsOrdinary) {
  EventHandle event = new_event();
  begin_capture(stream_, relaxed);
  EXPECT_OK(backend().event_record(event, stream_, EventUseFlags::external));
  EXPECT_OK(backend().event_query(event)) << "not captured: this is not the capture's point";
  end_capture(stream_);
}

TEST_P(CaptureContract, IntoAGraphAppendsBehindTheNodesThatAreNamed) {
  GraphHandle graph = new_graph();
  GraphNodeHandle root = add_kernel(graph, {}, Add{}, device_, 1);
  GraphNodeHandle other = add_kernel(graph, {}, Add{}, device_ + 1, 1);
  EXPECT_OK(backend().stream_begin_capture_to_graph(stream_, graph, {&root, 1}, by_thread));
  EXPECT_EQ(info_of(stream_).graph, graph);
  EXPECT_EQ(dependencies_of(stream_), (Nodes{root}));
  EXPECT_OK(launch(stream_, Store{}, device_ + 2, 5));
  GraphHandle ended = nullptr;
  EXPECT_OK(backend().stream_end_capture(stream_, &ended));
  EXPECT_EQ(ended, graph);
  const Nodes nodes = nodes_of(graph);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[1], other);
  EXPECT_EQ(edges_of(graph), (Pairs{{root, nodes[2]}}));
  run(instantiate(graph), stream_);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{1, 1, 5}));
}

TEST_P(CaptureContract, IntoAGraphRefusesForeignNodesAndNoGraph) {
  GraphNodeHandle foreign = add(new_graph(), EmptyNodeParams{});
  GraphHandle graph = new_graph();
  EXPECT_RESULT(ErrorCode::invalid_value,
                backend().stream_begin_capture_to_graph(stream_, graph, {&foreign, 1}, by_thread));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().stream_begin_capture_to_graph(stream_, nullptr, {}, by_thread));
  expect_can_capture(stream_);
}

TEST_P(CaptureContract, IntoAGraphRefusesASecondCaptureMeanwhile) {
  GraphHandle graph = new_graph();
  StreamHandle other = new_stream();
  EXPECT_OK(backend().stream_begin_capture_to_graph(stream_, graph, {}, by_thread));
  EXPECT_RESULT(ErrorCode::illegal_state, backend().stream_begin_capture_to_graph(other, graph, {}, by_thread));
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  GraphHandle ended = nullptr;
  EXPECT_OK(backend().stream_end_capture(stream_, &ended));
  EXPECT_OK(backend().stream_begin_capture_to_graph(other, graph, {}, by_thread));
  EXPECT_OK(backend().stream_end_capture(other, &ended));
}

TEST_P(CaptureContract, UpdatingDependenciesAddsToThem) {
  begin_capture(stream_);
  GraphHandle graph_meanwhile = info_of(stream_).graph;
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  GraphNodeHandle extra = add_kernel(graph_meanwhile, {}, Store{}, device_ + 1, 2);
  EXPECT_OK(backend().stream_update_capture_dependencies(stream_, {&extra, 1}, UpdateDependencies::add));
  EXPECT_EQ(dependencies_of(stream_).size(), 2U);
  EXPECT_OK(launch(stream_, Store{}, device_ + 2, 3));
  GraphHandle graph = end_capture(stream_);
  const Nodes nodes = nodes_of(graph);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(edges_of(graph), (Pairs{{nodes[0], nodes[2]}, {nodes[1], nodes[2]}}));
}

TEST_P(CaptureContract, UpdatingDependenciesReplacesThem) {
  begin_capture(stream_);
  GraphHandle graph_meanwhile = info_of(stream_).graph;
  EXPECT_OK(launch(stream_, Store{}, device_, 1));
  const Nodes first = dependencies_of(stream_);
  GraphNodeHandle inserted = add_kernel(graph_meanwhile, first, Store{}, device_ + 1, 2);
  EXPECT_OK(backend().stream_update_capture_dependencies(stream_, {&inserted, 1}, UpdateDependencies::set));
  EXPECT_EQ(dependencies_of(stream_), (Nodes{inserted}));
  EXPECT_OK(launch(stream_, Store{}, device_ + 2, 3));
  GraphHandle graph = end_capture(stream_);
  const Nodes nodes = nodes_of(graph);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(edges_of(graph), (Pairs{{nodes[0], nodes[1]}, {nodes[1], nodes[2]}}));
  run(instantiate(graph), stream_);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(CaptureContract, UpdatingDependenciesRefusesForeignNodesAndGoesOn) {
  GraphNodeHandle foreign = add(new_graph(), EmptyNodeParams{});
  begin_capture(stream_);
  EXPECT_RESULT(ErrorCode::invalid_value,
                backend().stream_update_capture_dependencies(stream_, {&foreign, 1}, UpdateDependencies::add));
  EXPECT_EQ(status_of(stream_), CaptureStatus::active);
  end_capture(stream_);
}

TEST_P(CaptureContract, UpdatingDependenciesNeedsACapture) {
  EXPECT_RESULT(ErrorCode::illegal_state,
                backend().stream_update_capture_dependencies(stream_, {}, UpdateDependencies::set));
}

TEST_P(CaptureContract, EachThreadHasAModeOfItsOwnThatIsGlobalAtFirst) {
  const auto exchange = [&](CaptureMode mode) {
    EXPECT_OK(backend().thread_exchange_capture_mode(&mode));
    return mode;
  };
  EXPECT_EQ(exchange(relaxed), CaptureMode::global);
  on_another_thread([&] {
    EXPECT_EQ(exchange(by_thread), CaptureMode::global);
    EXPECT_EQ(exchange(relaxed), by_thread);
  });
  EXPECT_EQ(exchange(CaptureMode::global), relaxed);
}

}  // namespace
}  // namespace reprise::backend::test
