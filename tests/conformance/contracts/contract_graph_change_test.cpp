// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/conformance/contracts/contract.h"
#include "tests/conformance/recorder/measured.h"

// Changes of executable graphs: parameters, enabling, whole updates.

namespace reprise::backend::test {
namespace {

/// Other parameters than Store has.
struct StoreSum {
  REPRISE_KERNEL void operator()(Thread, int* out, double a, char b) const { *out = static_cast<int>(a) + b; }
};

class GraphChangeContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  int* device_ = nullptr;
  void SetUp() override {
    graph_ = new_graph();
    device_ = new_memory<int>(4);
  }

  template <class K, class... A>
  Result set_kernel(GraphExecHandle exec, GraphNodeHandle node, K, A... values) {
    Arguments<K> arguments(values...);
    return backend().graph_exec_node_set_params(exec, node,
                                                NodeParams{KernelNodeParams{function<K>(), {}, arguments.pointers()}});
  }
};

class GraphParamsContract : public GraphChangeContract {};
REPRISE_ON_EVERY_DEVICE(GraphParamsContract);

TEST_P(GraphParamsContract, ChangesTheArgumentsOfAKernel) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  EXPECT_OK(set_kernel(exec, node, Store{}, device_ + 1, 2));
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{0, 2}));
}

TEST_P(GraphParamsContract, ChangesTheKernelItself) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(set_kernel(exec, node, Add{}, device_, 5));
  run(exec, stream);
  run(exec, stream);
  EXPECT_EQ(read(device_), 10);
  EXPECT_OK(set_kernel(exec, node, StoreSum{}, device_, 1.0, char{2}));
  run(exec, stream);
  EXPECT_EQ(read(device_), 3);
}

TEST_P(GraphParamsContract, ChangesCopiesSetsHostFunctionsAndEvents) {
  int first_source = 1, second_source = 2;
  std::atomic<int> first_count = 0, second_count = 0;
  const auto count = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  EventHandle first_event = new_event();
  EventHandle second_event = new_event();
  GraphNodeHandle copy = add(graph_, MemcpyNodeParams{device_, &first_source, 4});
  GraphNodeHandle set = add(graph_, MemsetNodeParams{device_ + 1, 1, 4, 1});
  GraphNodeHandle call = add_host(graph_, {}, count, &first_count);
  GraphNodeHandle record = add(graph_, EventRecordNodeParams{first_event});
  GraphExecHandle exec = instantiate(graph_);

  EXPECT_OK(backend().graph_exec_node_set_params(exec, copy, NodeParams{MemcpyNodeParams{device_, &second_source, 4}}));
  EXPECT_OK(backend().graph_exec_node_set_params(exec, set, NodeParams{MemsetNodeParams{device_ + 1, 2, 4, 2}}));
  EXPECT_OK(backend().graph_exec_node_set_params(exec, call, NodeParams{HostNodeParams{count, &second_count}}));
  EXPECT_OK(backend().graph_exec_node_set_params(exec, record, NodeParams{EventRecordNodeParams{second_event}}));
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 3), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(first_count, 0);
  EXPECT_EQ(second_count, 1);
  float milliseconds = -1;
  EXPECT_RESULT(ErrorCode::invalid_handle, backend().event_elapsed_ms(&milliseconds, first_event, first_event));
  EXPECT_OK(backend().event_elapsed_ms(&milliseconds, second_event, second_event));
}

TEST_P(GraphParamsContract, ChangesTheEventThatIsWaitedFor) {
  EventHandle held_event = new_event();
  EventHandle free_event = new_event();
  StreamHandle held = new_stream();
  Gate& never_opened = new_gate();
  hold(held, never_opened);
  EXPECT_OK(backend().event_record(held_event, held, EventUseFlags::ordering));
  GraphNodeHandle wait = add(graph_, EventWaitNodeParams{held_event});
  GraphExecHandle exec = instantiate(graph_);
  EXPECT_OK(backend().graph_exec_node_set_params(exec, wait, NodeParams{EventWaitNodeParams{free_event}}));
  run(exec, new_stream());
  EXPECT_RESULT(ErrorCode::not_ready, backend().event_query(held_event));
}

TEST_P(GraphParamsContract, ALaunchThatHasNotBegunYetDoesNotSeeTheChange) {
  int* log = new_memory<int>(3);
  int* length = new_memory<int>();
  GraphNodeHandle node = add_kernel(graph_, {}, Append{}, log, length, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  hold(stream, gate);
  for (int value = 1; value <= 3; ++value) {
    EXPECT_OK(set_kernel(exec, node, Append{}, log, length, value));
    EXPECT_OK(backend().graph_launch(exec, stream));
  }
  EXPECT_OK(set_kernel(exec, node, Append{}, log, length, 99));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(log, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(GraphParamsContract, ALaunchThatRunsDoesNotSeeTheChange) {
  Gate& gate = new_gate();
  GraphNodeHandle first = add_host(graph_, {}, &Gate::pass, &gate);
  GraphNodeHandle node = add_kernel(graph_, {first}, Add{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_TRUE(gate.wait_until_reached());
  EXPECT_OK(set_kernel(exec, node, Add{}, device_, 10));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device_), 1);
  run(exec, stream);
  EXPECT_EQ(read(device_), 11);
}

TEST_P(GraphParamsContract, RefusesNodesThatAreNotOfTheTemplate) {
  add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  GraphNodeHandle foreign = add_kernel(new_graph(), {}, Store{}, device_, 2);
  GraphNodeHandle later = add_kernel(graph_, {}, Store{}, device_, 3);
  EXPECT_RESULT(ErrorCode::invalid_value, set_kernel(exec, foreign, Store{}, device_, 4));
  EXPECT_RESULT(ErrorCode::invalid_value, set_kernel(exec, later, Store{}, device_, 5));
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

TEST_P(GraphParamsContract, RefusesTheNodesOfAClone) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  GraphHandle clone = nullptr;
  GraphNodeHandle found = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  EXPECT_OK(backend().graph_node_find_in_clone(&found, node, clone));
  EXPECT_RESULT(ErrorCode::invalid_value, set_kernel(exec, found, Store{}, device_, 2));
}

TEST_P(GraphParamsContract, RefusesNodesThatAreDestroyed) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  EXPECT_OK(backend().graph_destroy_node(node));
  EXPECT_RESULT(ErrorCode::invalid_value, set_kernel(exec, node, Store{}, device_, 2));
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

TEST_P(GraphParamsContract, RefusesNodesOfATemplateThatIsDestroyed) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  destroy(graph_);
  EXPECT_RESULT(ErrorCode::invalid_value, set_kernel(exec, node, Store{}, device_, 2));
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

TEST_P(GraphParamsContract, RefusesParametersOfAnotherType) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  EXPECT_RESULT(ErrorCode::invalid_value,
                backend().graph_exec_node_set_params(exec, node, NodeParams{MemsetNodeParams{device_, 2, 4, 1}}));
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

TEST_P(GraphParamsContract, RefusesParametersThatCannotRun) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphNodeHandle call = add_host(
      graph_, {}, [](void*) {}, nullptr);
  GraphExecHandle exec = instantiate(graph_);
  Arguments<Store> arguments(device_, 2);
  LaunchConfig config;
  config.block = Dim3(0);
  EXPECT_RESULT(ErrorCode::invalid_value,
                backend().graph_exec_node_set_params(
                    exec, node, NodeParams{KernelNodeParams{function<Store>(), config, arguments.pointers()}}));
  EXPECT_RESULT(ErrorCode::invalid_value,
                backend().graph_exec_node_set_params(exec, call, NodeParams{HostNodeParams{nullptr, nullptr}}));
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

class GraphEnableContract : public GraphChangeContract {};
REPRISE_ON_EVERY_DEVICE(GraphEnableContract);

TEST_P(GraphEnableContract, SkipsDisabledNodesAndKeepsTheirEdges) {
  int source = 3;
  int* log = new_memory<int>(4);
  int* length = new_memory<int>();
  GraphNodeHandle first = add_kernel(graph_, {}, Append{}, log, length, 1);
  GraphNodeHandle kernel = add_kernel(graph_, {first}, Append{}, log, length, 2);
  GraphNodeHandle copy = add(graph_, MemcpyNodeParams{device_, &source, 4}, {kernel});
  add_kernel(graph_, {copy}, Append{}, log, length, 3);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  for (GraphNodeHandle node : {kernel, copy}) EXPECT_OK(backend().graph_node_set_enabled(exec, node, false));
  run(exec, stream);
  EXPECT_EQ(read(log, 3), (std::vector<int>{1, 3, 0}));
  EXPECT_EQ(read(device_), 0);
  for (GraphNodeHandle node : {kernel, copy}) EXPECT_OK(backend().graph_node_set_enabled(exec, node, true));
  EXPECT_OK(backend().set({length, 0, 4, 1}));
  EXPECT_OK(backend().stream_synchronize(nullptr));
  run(exec, stream);
  EXPECT_EQ(read(log, 3), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(read(device_), 3);
}

// What stands before a disabled node takes longer than what stands after it.
TEST_P(GraphEnableContract, KeepsTheOrderOfTheNeighboursOfADisabledNode) {
  int* const other = new_memory<int>(2);
  Arguments<Store> arguments(other, 1);
  for (const NodeParams& middle : {NodeParams{KernelNodeParams{function<Store>(), {}, arguments.pointers()}},
                                   NodeParams{MemcpyNodeParams{other, other + 1, 4}}}) {
    GraphHandle graph = new_graph();
    GraphNodeHandle late = add_kernel(graph, {}, StoreLate{}, device_, 10);
    GraphNodeHandle disabled = add(graph, middle, {late});
    add_kernel(graph, {disabled}, Add{}, device_, 3);
    GraphExecHandle exec = instantiate(graph);
    EXPECT_OK(backend().graph_node_set_enabled(exec, disabled, false));
    StreamHandle stream = new_stream();
    for (int i = 0; i < 3; ++i) {
      run(exec, stream);
      EXPECT_EQ(read(device_), 13) << "node of kind " << middle.index();
    }
    EXPECT_EQ(read(other), 0);
  }
}

TEST_P(GraphEnableContract, TellsWhetherANodeIsEnabled) {
  GraphNodeHandle node = add_kernel(graph_, {}, Store{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  bool enabled = false;
  EXPECT_OK(backend().graph_node_enabled(exec, node, &enabled));
  EXPECT_TRUE(enabled);
  EXPECT_OK(backend().graph_node_set_enabled(exec, node, false));
  EXPECT_OK(backend().graph_node_enabled(exec, node, &enabled));
  EXPECT_FALSE(enabled);
}

TEST_P(GraphEnableContract, ALaunchThatHasNotBegunYetDoesNotSeeTheChange) {
  GraphNodeHandle node = add_kernel(graph_, {}, Add{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  hold(stream, gate);
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_OK(backend().graph_node_set_enabled(exec, node, false));
  EXPECT_OK(backend().graph_launch(exec, stream));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device_), 1);
}

TEST_P(GraphEnableContract, IsForKernelsCopiesAndSetsOnly) {
  GraphNodeHandle host = add_host(
      graph_, {}, [](void*) {}, nullptr);
  GraphNodeHandle event = add(graph_, EventRecordNodeParams{new_event()});
  GraphNodeHandle empty = add(graph_, EmptyNodeParams{});
  GraphExecHandle exec = instantiate(graph_);
  for (GraphNodeHandle node : {host, event, empty}) {
    bool enabled = true;
    EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_node_set_enabled(exec, node, false));
    EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_node_enabled(exec, node, &enabled));
  }
}

class GraphUpdateContract : public GraphChangeContract {
 protected:
  /// What the executable is made of: 10 goes to the first number, then 3 is added to the second.
  GraphHandle original() {
    GraphHandle graph = new_graph();
    GraphNodeHandle first = add(graph, MemsetNodeParams{device_, 10, 4, 1});
    add_kernel(graph, {first}, Add{}, device_ + 1, 3);
    return graph;
  }

  void expect_updated(GraphExecHandle exec, GraphHandle graph) {
    UpdateInfo info{UpdateResult::error, reinterpret_cast<GraphNodeHandle>(1)};
    EXPECT_OK(backend().graph_exec_update(exec, graph, &info));
    EXPECT_EQ(info.result, UpdateResult::success);
    EXPECT_EQ(info.node, nullptr);
  }

  /// Refused for this reason, and afterwards the executable does what it did.
  void expect_refused(GraphHandle graph, UpdateResult reason, GraphNodeHandle node) {
    GraphExecHandle exec = instantiate(original());
    UpdateInfo info;
    EXPECT_RESULT(ErrorCode::graph_exec_update_failure, backend().graph_exec_update(exec, graph, &info));
    EXPECT_EQ(info.result, reason);
    EXPECT_EQ(info.node, node);
    run(exec, new_stream());
    EXPECT_EQ(read(device_, 4), (std::vector<int>{10, 3, 0, 0}));
  }
};
REPRISE_ON_EVERY_DEVICE(GraphUpdateContract);

TEST_P(GraphUpdateContract, TakesAllParametersOfAGraphOfTheSameShape) {
  GraphExecHandle exec = instantiate(original());
  GraphHandle changed = new_graph();
  GraphNodeHandle first = add(changed, MemsetNodeParams{device_ + 2, 20, 4, 2});
  add_kernel(changed, {first}, Store{}, device_ + 1, 7);
  expect_updated(exec, changed);
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 4), (std::vector<int>{0, 7, 20, 20}));
}

TEST_P(GraphUpdateContract, ALaunchThatHasNotBegunYetDoesNotSeeIt) {
  GraphExecHandle exec = instantiate(original());
  GraphHandle changed = new_graph();
  GraphNodeHandle first = add(changed, MemsetNodeParams{device_ + 2, 20, 4, 1});
  add_kernel(changed, {first}, Add{}, device_ + 1, 7);
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  hold(stream, gate);
  EXPECT_OK(backend().graph_launch(exec, stream));
  expect_updated(exec, changed);
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device_, 3), (std::vector<int>{10, 3, 0}));
  run(exec, stream);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{10, 10, 20}));
}

TEST_P(GraphUpdateContract, TakesItsOwnTemplateAfterChangesOfThat) {
  GraphHandle graph = original();
  const std::vector<GraphNodeHandle> nodes = nodes_of(graph);
  GraphExecHandle exec = instantiate(graph);
  Arguments<Store> arguments(device_ + 1, 7);
  EXPECT_OK(backend().graph_node_set_params(nodes[0], NodeParams{MemsetNodeParams{device_ + 2, 20, 4, 2}}));
  EXPECT_OK(backend().graph_node_set_params(nodes[1],
                                            NodeParams{KernelNodeParams{function<Store>(), {}, arguments.pointers()}}));
  StreamHandle stream = new_stream();
  run(exec, stream);
  EXPECT_EQ(read(device_, 4), (std::vector<int>{10, 3, 0, 0}));
  expect_updated(exec, graph);
  run(exec, stream);
  EXPECT_EQ(read(device_, 4), (std::vector<int>{10, 7, 20, 20}));
  EXPECT_OK(set_kernel(exec, nodes[1], Store{}, device_ + 1, 8));
  run(exec, stream);
  EXPECT_EQ(read(device_ + 1), 8);
}

TEST_P(GraphUpdateContract, KeepsDisabledNodesDisabled) {
  GraphHandle graph = original();
  const std::vector<GraphNodeHandle> nodes = nodes_of(graph);
  GraphExecHandle exec = instantiate(graph);
  EXPECT_OK(backend().graph_node_set_enabled(exec, nodes[1], false));
  expect_updated(exec, graph);
  bool enabled = true;
  EXPECT_OK(backend().graph_node_enabled(exec, nodes[1], &enabled));
  EXPECT_FALSE(enabled);
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{10, 0}));
}

TEST_P(GraphUpdateContract, RefusesAnotherNumberOfNodes) {
  GraphHandle changed = original();
  add(changed, EmptyNodeParams{}, {nodes_of(changed).back()});
  expect_refused(changed, UpdateResult::topology_changed, nullptr);
}

TEST_P(GraphUpdateContract, RefusesOtherEdges) {
  GraphHandle changed = original();
  const auto edges = edges_of(changed);
  const Edge edge{edges.front().first, edges.front().second};
  EXPECT_OK(backend().graph_remove_dependencies(changed, {&edge, 1}));
  GraphExecHandle exec = instantiate(original());
  UpdateInfo info;
  EXPECT_RESULT(ErrorCode::graph_exec_update_failure, backend().graph_exec_update(exec, changed, &info));
  EXPECT_EQ(info.result, UpdateResult::topology_changed);
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{10, 3}));
}

TEST_P(GraphUpdateContract, RefusesANodeOfAnotherTypeAndNamesIt) {
  GraphHandle changed = new_graph();
  GraphNodeHandle first = add(changed, MemsetNodeParams{device_, 20, 4, 1});
  GraphNodeHandle other = add_host(
      changed, {first}, [](void*) {}, nullptr);
  expect_refused(changed, UpdateResult::node_type_changed, other);
}

TEST_P(GraphUpdateContract, RefusesACopyFromAnotherKindOfMemoryAndNamesIt) {
  REPRISE_NEEDS(GetParam(), Capability::update_finds_memory_kinds);
  int on_the_host = 5;
  add(graph_, MemcpyNodeParams{device_ + 1, device_, 4});
  GraphExecHandle exec = instantiate(graph_);
  GraphHandle changed = new_graph();
  GraphNodeHandle copy = add(changed, MemcpyNodeParams{device_ + 1, &on_the_host, 4});
  UpdateInfo info;
  EXPECT_RESULT(ErrorCode::graph_exec_update_failure, backend().graph_exec_update(exec, changed, &info));
  EXPECT_EQ(info.result, UpdateResult::parameters_changed);
  EXPECT_EQ(info.node, copy);
  run(exec, new_stream());
  EXPECT_EQ(read(device_ + 1), 0);
}

/// Updates with memory and kernels of a second device.
class GraphUpdateOfTwoDevices : public GraphChangeContract {
 protected:
  void SetUp() override {
    REPRISE_NEEDS(GetParam(), Capability::two_devices);
    GraphChangeContract::SetUp();
    void* memory = nullptr;
    ASSERT_OK(other().memory_allocate(&memory, 4 * sizeof(int)));
    of_other_ = static_cast<int*>(memory);
    ASSERT_OK(other().stream_create(&other_stream_, StreamFlags::non_blocking, 0));
  }
  void TearDown() override {
    if (of_other_ != nullptr) {
      EXPECT_OK(other().stream_destroy(other_stream_));
      EXPECT_OK(other().memory_free(of_other_));
    }
    GraphChangeContract::TearDown();
  }

  Backend& other() const { return *another_like(GetParam()); }

  /// What `submit` captures on a stream of the other device.
  template <class Submit>
  GraphHandle captured_on_other(const Submit& submit) {
    EXPECT_OK(other().stream_begin_capture(other_stream_, CaptureMode::relaxed));
    EXPECT_OK(submit(other_stream_));
    GraphHandle captured = nullptr;
    EXPECT_OK(other().stream_end_capture(other_stream_, &captured));
    return own(captured);
  }
  GraphHandle graph_of(const NodeParams& only) {
    GraphHandle graph = new_graph();
    add(graph, only);
    return graph;
  }
  /// Updates an executable of one graph of one node to another one, and launches it. Returns why it was refused.
  UpdateResult update(GraphHandle graph, GraphHandle changed) {
    GraphExecHandle exec = instantiate(graph);
    UpdateInfo info;
    const bool refused = backend().graph_exec_update(exec, changed, &info).failed();
    EXPECT_EQ(refused, info.result != UpdateResult::success);
    run(exec, new_stream());
    return info.result;
  }

  StreamHandle other_stream_ = nullptr;
  int* of_other_ = nullptr;
};
REPRISE_ON_EVERY_DEVICE(GraphUpdateOfTwoDevices);

TEST_P(GraphUpdateOfTwoDevices, CopiesStayOnTheirs) {
  int* const pinned = new_pinned<int>();
  const auto copy = [&](int* to, const int* from) { return graph_of(MemcpyNodeParams{to, from, 4}); };
  GraphHandle within = copy(device_, device_ + 2);
  EXPECT_EQ(update(within, copy(device_, of_other_)), UpdateResult::parameters_changed);
  EXPECT_EQ(update(within, copy(of_other_, device_ + 2)), UpdateResult::parameters_changed);
  EXPECT_EQ(update(within, copy(of_other_, of_other_ + 2)), UpdateResult::parameters_changed);
  EXPECT_EQ(update(copy(device_, pinned), copy(of_other_, pinned)), UpdateResult::parameters_changed);
  EXPECT_EQ(update(within, copy(device_ + 1, device_ + 3)), UpdateResult::success);
}

// CUDA reports `error` without access between the two devices.
TEST_P(GraphUpdateOfTwoDevices, SetsMayMoveToTheHostButNotToTheOther) {
  int* const pinned = new_pinned<int>();
  const auto set = [&](int* to, unsigned value) { return graph_of(MemsetNodeParams{to, value, 4, 1}); };
  GraphHandle of_other = captured_on_other([&](StreamHandle stream) {
    return other().set_async({of_other_, 1, 4, 1}, stream);
  });
  EXPECT_THAT(update(set(device_, 2), of_other), testing::AnyOf(UpdateResult::parameters_changed, UpdateResult::error));
  EXPECT_EQ(read(device_), 2) << "the executable is as before";
  EXPECT_EQ(update(set(device_, 3), set(pinned, 4)), UpdateResult::success);
  EXPECT_EQ(*pinned, 4);
  EXPECT_EQ(update(set(pinned, 5), set(device_, 6)), UpdateResult::success);
  EXPECT_EQ(read(device_), 6);
}

TEST_P(GraphUpdateOfTwoDevices, KernelsStayOnTheirs) {
  FunctionHandle store = nullptr;
  ASSERT_OK(other().kernel_function(kernel_record<Store>(), &store));
  Arguments<Store> arguments(of_other_, 5);
  GraphHandle of_other = captured_on_other([&](StreamHandle stream) {
    return other().launch_kernel({store, {}, arguments.pointers()}, stream);
  });
  add_kernel(graph_, {}, Store{}, device_, 7);
  EXPECT_EQ(update(graph_, of_other), UpdateResult::unsupported_function_change);
  EXPECT_EQ(read(device_), 7) << "the executable is as before";
}

// As the documentation of cuGraphExecUpdate has it.
TEST_P(GraphUpdateContract, RefusesAnotherCooperativeAndNamesTheKernel) {
  LaunchConfig config;
  config.grid = Dim3(2);
  GraphHandle graph = new_graph(), changed = new_graph();
  Arguments<Store> arguments(device_, 1);
  add(graph, KernelNodeParams{function<Store>(), config, arguments.pointers()});
  GraphExecHandle exec = instantiate(graph);
  config.cooperative = true;
  GraphNodeHandle node = add(changed, KernelNodeParams{function<Store>(), config, arguments.pointers()});
  UpdateInfo info;
  EXPECT_RESULT(ErrorCode::graph_exec_update_failure, backend().graph_exec_update(exec, changed, &info));
  EXPECT_EQ(info.result, UpdateResult::attributes_changed);
  EXPECT_EQ(info.node, node);
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

// The documentation of CUDA names clusters among the attributes that an update may refuse.
TEST_P(GraphUpdateContract, AcceptsAnotherCluster) {
  LaunchConfig config;
  config.grid = Dim3(2);
  GraphHandle graph = new_graph(), changed = new_graph();
  Arguments<Store> arguments(device_, 1), others(device_, 2);
  add(graph, KernelNodeParams{function<Store>(), config, arguments.pointers()});
  GraphExecHandle exec = instantiate(graph);
  config.cluster = Dim3(2);
  add(changed, KernelNodeParams{function<Store>(), config, others.pointers()});
  expect_updated(exec, changed);
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 2);
}

TEST_P(GraphUpdateContract, TakesACopyOfAnotherSize) {
  add(graph_, MemcpyNodeParams{device_ + 2, device_, 4});
  GraphExecHandle exec = instantiate(graph_);
  GraphHandle changed = new_graph();
  add(changed, MemcpyNodeParams{device_ + 2, device_, 8});
  EXPECT_OK(backend().set({device_, 6, 4, 2}));
  EXPECT_OK(backend().stream_synchronize(nullptr));
  expect_updated(exec, changed);
  run(exec, new_stream());
  EXPECT_EQ(read(device_ + 2, 2), (std::vector<int>{6, 6}));
}

TEST_P(GraphUpdateContract, WorksAgainAfterARefusal) {
  GraphExecHandle exec = instantiate(original());
  UpdateInfo info;
  EXPECT_RESULT(ErrorCode::graph_exec_update_failure, backend().graph_exec_update(exec, graph_, &info));
  EXPECT_EQ(info.result, UpdateResult::topology_changed);
  expect_updated(exec, original());
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{10, 3}));
}

}  // namespace
}  // namespace reprise::backend::test
