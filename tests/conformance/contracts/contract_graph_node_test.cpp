// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/contracts/contract.h"

// What each type of node does when a graph runs, and what may not become a node.

namespace reprise::backend::test {
namespace {

class GraphNodeContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  void SetUp() override { graph_ = new_graph(); }

  void expect_refused(NodeParams params, ErrorCode expected = ErrorCode::invalid_value) {
    GraphNodeHandle node = nullptr;
    EXPECT_RESULT(expected, backend().graph_add_node(&node, graph_, {}, params));
    EXPECT_EQ(node, nullptr);
    EXPECT_TRUE(nodes_of(graph_).empty());
    add(graph_, EmptyNodeParams{});
    EXPECT_EQ(nodes_of(graph_).size(), 1U) << "the graph is usable";
  }
};
REPRISE_ON_EVERY_DEVICE(GraphNodeContract);

TEST_P(GraphNodeContract, KernelNodesLaunchWithTheArgumentsOfTheirMaking) {
  int* device = new_memory<int>();
  GraphNodeHandle node = nullptr;
  {
    Arguments<Add> arguments(device, 3);
    NodeParams params = KernelNodeParams{function<Add>(), {}, arguments.pointers()};
    EXPECT_OK(backend().graph_add_node(&node, graph_, {}, params));
    arguments.values() = {device, 100};
  }
  EXPECT_EQ(type_of(node), NodeType::kernel);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  run(exec, stream);
  run(exec, stream);
  EXPECT_EQ(read(device), 6);
}

TEST_P(GraphNodeContract, MemcpyNodesReadTheirSourceAtEachLaunch) {
  int* device = new_memory<int>();
  int source = 1, back = 0;
  GraphNodeHandle in = add(graph_, MemcpyNodeParams{device, &source, sizeof(int)});
  GraphNodeHandle out = add(graph_, MemcpyNodeParams{&back, device, sizeof(int)}, {in});
  EXPECT_EQ(type_of(out), NodeType::memcpy);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  run(exec, stream);
  EXPECT_EQ(back, 1);
  source = 2;
  run(exec, stream);
  EXPECT_EQ(back, 2);
}

TEST_P(GraphNodeContract, MemsetNodesSetElementsOfEachSize) {
  std::uint32_t* words = new_memory<std::uint32_t>(3);
  add(graph_, MemsetNodeParams{words, 0x11223344, 4, 1});
  add(graph_, MemsetNodeParams{words + 1, 0x11223344, 2, 2});
  GraphNodeHandle last = add(graph_, MemsetNodeParams{words + 2, 0x11223344, 1, 4});
  EXPECT_EQ(type_of(last), NodeType::memset);
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(words, 3), (std::vector<std::uint32_t>{0x11223344, 0x33443344, 0x44444444}));
}

TEST_P(GraphNodeContract, HostNodesCallTheirFunctionOnceALaunch) {
  std::atomic<int> calls = 0;
  GraphNodeHandle node = add_host(
      graph_, {}, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &calls);
  EXPECT_EQ(type_of(node), NodeType::host);
  GraphExecHandle exec = instantiate(graph_);
  EXPECT_EQ(calls, 0);
  StreamHandle stream = new_stream();
  run(exec, stream);
  run(exec, stream);
  EXPECT_EQ(calls, 2);
}

TEST_P(GraphNodeContract, EventRecordNodesRecordWhenTheyAreReached) {
  EventHandle event = new_event();
  Gate& before = new_gate();
  Gate& after = new_gate();
  GraphNodeHandle first = add_host(graph_, {}, &Gate::pass, &before);
  GraphNodeHandle node = add(graph_, EventRecordNodeParams{event}, {first});
  add_host(graph_, {node}, &Gate::pass, &after);
  EXPECT_EQ(type_of(node), NodeType::event_record);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_TRUE(before.wait_until_reached());
  EXPECT_RESULT(ErrorCode::not_ready, backend().event_query(event));
  before.open();
  EXPECT_OK(backend().event_synchronize(event)) << "the rest of the graph is still held";
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(stream));
}

TEST_P(GraphNodeContract, EventWaitNodesWaitForTheLastRecordAsOfTheLaunch) {
  EventHandle event = new_event();
  int* device = new_memory<int>();
  GraphNodeHandle node = add(graph_, EventWaitNodeParams{event});
  add_kernel(graph_, {node}, Add{}, device, 1);
  EXPECT_EQ(type_of(node), NodeType::event_wait);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  run(exec, stream);  // never recorded: no wait
  EXPECT_EQ(read(device), 1);

  StreamHandle first = new_stream();
  StreamHandle held = new_stream();
  Gate& gate = new_gate();
  Gate& never_opened = new_gate();
  hold(first, gate);
  EXPECT_OK(backend().event_record(event, first, EventUseFlags::ordering));
  EXPECT_OK(backend().graph_launch(exec, stream));
  hold(held, never_opened);
  EXPECT_OK(backend().event_record(event, held, EventUseFlags::ordering));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(stream));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 2);
}

TEST_P(GraphNodeContract, EventNodesTimeAPartOfAGraph) {
  EventHandle start = new_event();
  EventHandle end = new_event();
  int* device = new_memory<int>();
  GraphNodeHandle first = add(graph_, EventRecordNodeParams{start});
  GraphNodeHandle work = add_kernel(graph_, {first}, Store{}, device, 1);
  add(graph_, EventRecordNodeParams{end}, {work});
  run(instantiate(graph_), new_stream());
  float milliseconds = -1;
  EXPECT_OK(backend().event_elapsed_ms(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 0);
}

TEST_P(GraphNodeContract, EmptyNodesJoinEdges) {
  int* log = new_memory<int>(4);
  int* length = new_memory<int>();
  GraphNodeHandle first = add_kernel(graph_, {}, Append{}, log, length, 1);
  GraphNodeHandle second = add_kernel(graph_, {}, Append{}, log, length, 1);
  GraphNodeHandle join = add(graph_, EmptyNodeParams{}, {first, second});
  add_kernel(graph_, {join}, Append{}, log, length, 2);
  add_kernel(graph_, {join}, Append{}, log, length, 2);
  EXPECT_EQ(type_of(join), NodeType::empty);
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(log, 4), (std::vector<int>{1, 1, 2, 2}));
}

TEST_P(GraphNodeContract, RefusesKernelsThatCannotBeLaunched) {
  Arguments<Store> arguments(new_memory<int>(), 1);
  LaunchConfig config;
  config.block = Dim3(2000);
  expect_refused(KernelNodeParams{function<Store>(), config, arguments.pointers()});
}

TEST_P(GraphNodeContract, RefusesKernelsWithoutArguments) {
  expect_refused(KernelNodeParams{function<Store>(), {}, nullptr});
}

TEST_P(GraphNodeContract, RefusesToSetElementsOfOtherSizes) {
  expect_refused(MemsetNodeParams{new_memory<int>(), 0, 3, 1});
}

TEST_P(GraphNodeContract, RefusesToSetMisalignedMemory) {
  expect_refused(MemsetNodeParams{new_memory<char>(64) + 1, 0, 4, 1});
}

TEST_P(GraphNodeContract, RefusesToSetNothing) {
  expect_refused(MemsetNodeParams{new_memory<int>(), 0, 4, 0});
}

TEST_P(GraphNodeContract, RefusesHostFunctionsThatAreNull) {
  expect_refused(HostNodeParams{nullptr, nullptr});
}

TEST_P(GraphNodeContract, RefusesEventsThatAreNull) {
  expect_refused(EventRecordNodeParams{nullptr});
}

TEST_P(GraphNodeContract, RefusesToWaitForEventsThatAreNull) {
  expect_refused(EventWaitNodeParams{nullptr});
}

TEST_P(GraphNodeContract, ReadsBackWhatANodeDoes) {
  int* device = new_memory<int>(4);
  EventHandle event = new_event();
  int host = 0;
  const auto params_of = [&](GraphNodeHandle node) {
    NodeParams params = EmptyNodeParams{};
    EXPECT_OK(backend().graph_node_params(node, &params));
    return params;
  };

  const auto kernel = std::get<KernelNodeParams>(params_of(add_kernel(graph_, {}, Store{}, device, 42)));
  EXPECT_EQ(kernel.function, function<Store>());
  EXPECT_EQ(kernel.config.block, Dim3(1));
  EXPECT_EQ(*static_cast<int**>(kernel.params[0]), device);
  EXPECT_EQ(*static_cast<int*>(kernel.params[1]), 42);

  const auto copy = std::get<MemcpyNodeParams>(params_of(add(graph_, MemcpyNodeParams{device, &host, 4})));
  EXPECT_EQ(copy.destination, device);
  EXPECT_EQ(copy.source, &host);
  EXPECT_EQ(copy.bytes, 4U);

  const auto set = std::get<MemsetNodeParams>(params_of(add(graph_, MemsetNodeParams{device, 5, 2, 3})));
  EXPECT_EQ(set.destination, device);
  EXPECT_EQ(set.value, 5U);
  EXPECT_EQ(set.element_bytes, 2U);
  EXPECT_EQ(set.count, 3U);

  const auto call = std::get<HostNodeParams>(params_of(add_host(graph_, {}, &Gate::pass, &host)));
  EXPECT_TRUE(call.function == &Gate::pass);
  EXPECT_EQ(call.data, &host);

  EXPECT_EQ(std::get<EventRecordNodeParams>(params_of(add(graph_, EventRecordNodeParams{event}))).event, event);
  EXPECT_EQ(std::get<EventWaitNodeParams>(params_of(add(graph_, EventWaitNodeParams{event}))).event, event);
}

TEST_P(GraphNodeContract, ChangesWhatANodeDoesBeforeInstantiation) {
  int* device = new_memory<int>();
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device, 1);
  Arguments<Store> arguments(device, 2);
  EXPECT_OK(
      backend().graph_node_set_params(node, NodeParams{KernelNodeParams{function<Store>(), {}, arguments.pointers()}}));
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device), 2);
}

TEST_P(GraphNodeContract, RefusesToChangeANodeIntoAnotherType) {
  int* device = new_memory<int>();
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device, 1);
  EXPECT_RESULT(ErrorCode::invalid_value,
                backend().graph_node_set_params(node, NodeParams{MemsetNodeParams{device, 9, 4, 1}}));
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device), 1);
}

}  // namespace
}  // namespace reprise::backend::test
