// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/conformance/contracts/contract.h"

// Graphs as nodes of other graphs.

namespace reprise::backend::test {
namespace {

class ChildGraphContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  GraphHandle child_ = nullptr;
  int* device_ = nullptr;
  void SetUp() override {
    graph_ = new_graph();
    child_ = new_graph();
    device_ = new_memory<int>(4);
  }

  GraphHandle graph_in(GraphNodeHandle node) {
    NodeParams params = EmptyNodeParams{};
    EXPECT_OK(backend().graph_node_params(node, &params));
    const auto* const child = std::get_if<ChildGraphNodeParams>(&params);
    EXPECT_NE(child, nullptr);
    return child != nullptr ? child->graph : nullptr;
  }
  template <class K, class... A>
  Result set_kernel(GraphExecHandle exec, GraphNodeHandle node, K, A... values) {
    Arguments<K> arguments(values...);
    return backend().graph_exec_node_set_params(exec, node,
                                                NodeParams{KernelNodeParams{function<K>(), {}, arguments.pointers()}});
  }
};
REPRISE_ON_EVERY_DEVICE(ChildGraphContract);

TEST_P(ChildGraphContract, RunsAsOneNodeOfItsParent) {
  int* log = new_memory<int>(4);
  int* length = new_memory<int>();
  GraphNodeHandle inner = add_kernel(child_, {}, Append{}, log, length, 2);
  add_kernel(child_, {inner}, Append{}, log, length, 3);
  GraphNodeHandle first = add_kernel(graph_, {}, Append{}, log, length, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_}, {first});
  add_kernel(graph_, {node}, Append{}, log, length, 4);
  EXPECT_EQ(type_of(node), NodeType::child_graph);
  EXPECT_EQ(nodes_of(graph_).size(), 3U);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(backend().set({length, 0, 4, 1}));
    EXPECT_OK(backend().stream_synchronize(nullptr));
    run(exec, stream);
    EXPECT_EQ(read(log, 4), (std::vector<int>{1, 2, 3, 4}));
  }
}

TEST_P(ChildGraphContract, IsACopyThatLaterChangesOfTheOriginalDoNotReach) {
  GraphNodeHandle original = add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  Arguments<Add> arguments(device_, 100);
  EXPECT_OK(backend().graph_node_set_params(original,
                                            NodeParams{KernelNodeParams{function<Add>(), {}, arguments.pointers()}}));
  add_kernel(child_, {}, Add{}, device_ + 1, 100);
  EXPECT_NE(graph_in(node), child_);
  EXPECT_EQ(nodes_of(graph_in(node)).size(), 1U);
  destroy(child_);
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 0}));
}

TEST_P(ChildGraphContract, HasAGraphOfItsOwnWhoseChangesReachTheNode) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphHandle own = graph_in(node);
  EXPECT_EQ(graph_in(node), own) << "the same each time";
  add_kernel(own, nodes_of(own), Add{}, device_ + 1, 5);
  EXPECT_EQ(edges_of(own).size(), 1U);
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 5}));
}

TEST_P(ChildGraphContract, TheSameChildTwiceIsTwoNodes) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle first = add(graph_, ChildGraphNodeParams{child_});
  GraphNodeHandle second = add(graph_, ChildGraphNodeParams{child_}, {first});
  EXPECT_NE(graph_in(first), graph_in(second));
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device_), 2);
}

TEST_P(ChildGraphContract, NestsAndMayBeEmpty) {
  add_kernel(child_, {}, Add{}, device_, 1);
  add(child_, ChildGraphNodeParams{new_graph()});
  GraphHandle middle = new_graph();
  GraphNodeHandle inner = add(middle, ChildGraphNodeParams{child_});
  add_kernel(middle, {inner}, Add{}, device_, 10);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{middle});
  add_kernel(graph_, {node}, Add{}, device_, 100);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  run(exec, stream);
  run(exec, stream);
  EXPECT_EQ(read(device_), 222);
}

TEST_P(ChildGraphContract, BranchesOfAChildAreJoinedAtItsEnd) {
  int* log = new_memory<int>(6);
  int* length = new_memory<int>();
  for (int i = 0; i < 5; ++i) add_kernel(child_, {}, Append{}, log, length, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  add_kernel(graph_, {node}, Append{}, log, length, 2);
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(log, 6), (std::vector<int>{1, 1, 1, 1, 1, 2}));
}

TEST_P(ChildGraphContract, RefusesAGraphThatIsNull) {
  NodeParams params = ChildGraphNodeParams{nullptr};
  GraphNodeHandle node = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph_, {}, params));
  EXPECT_TRUE(nodes_of(graph_).empty());
}

TEST_P(ChildGraphContract, IsClonedWithItsParent) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphHandle clone = nullptr;
  ASSERT_OK(backend().graph_clone(&clone, graph_));
  own(clone);
  GraphNodeHandle twin = nullptr;
  EXPECT_OK(backend().graph_node_find_in_clone(&twin, node, clone));
  EXPECT_NE(graph_in(twin), graph_in(node));
  EXPECT_EQ(nodes_of(graph_in(twin)).size(), 1U);
  destroy(graph_);
  run(instantiate(clone), new_stream());
  EXPECT_EQ(read(device_), 1);
}

TEST_P(ChildGraphContract, IsDestroyedWithItsNode) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  add_kernel(graph_, {node}, Add{}, device_, 10);
  EXPECT_OK(backend().graph_destroy_node(node));
  run(instantiate(graph_), new_stream());
  EXPECT_EQ(read(device_), 10);
}

TEST_P(ChildGraphContract, RefusesToInstantiateACycleInAChild) {
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphHandle inside = graph_in(node);
  GraphNodeHandle first = add(inside, EmptyNodeParams{});
  GraphNodeHandle second = add(inside, EmptyNodeParams{}, {first});
  const Edge back{second, first};
  EXPECT_OK(backend().graph_add_dependencies(inside, {&back, 1}));
  GraphExecHandle exec = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_instantiate(&exec, graph_, InstantiateFlags::none, nullptr));
}

TEST_P(ChildGraphContract, TheParametersOfItsNodesChangeInTheExecutableOfTheParent) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphNodeHandle second = add(graph_, ChildGraphNodeParams{child_}, {node});
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(set_kernel(exec, nodes_of(graph_in(node)).front(), Add{}, device_ + 1, 7));
  run(exec, stream);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 7}));
  EXPECT_RESULT(ErrorCode::invalid_value, set_kernel(exec, nodes_of(child_).front(), Add{}, device_ + 1, 7))
      << "the graph that was copied is no part of the executable";
  EXPECT_EQ(type_of(second), NodeType::child_graph);
}

TEST_P(ChildGraphContract, AChildOfTheSameShapeReplacesOneInTheExecutable) {
  GraphNodeHandle set = add(child_, MemsetNodeParams{device_, 1, 4, 1});
  add_kernel(child_, {set}, Add{}, device_ + 1, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphExecHandle exec = instantiate(graph_);
  GraphHandle other = new_graph();
  GraphNodeHandle other_set = add(other, MemsetNodeParams{device_ + 2, 20, 4, 1});
  add_kernel(other, {other_set}, Store{}, device_ + 3, 30);
  EXPECT_OK(backend().graph_exec_node_set_params(exec, node, NodeParams{ChildGraphNodeParams{other}}));
  run(exec, new_stream());
  EXPECT_EQ(read(device_, 4), (std::vector<int>{0, 0, 20, 30}));
}

TEST_P(ChildGraphContract, AChildOfAnotherShapeReplacesNone) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphExecHandle exec = instantiate(graph_);
  GraphHandle longer = new_graph();
  add_kernel(longer, {add_kernel(longer, {}, Add{}, device_, 1)}, Add{}, device_, 1);
  EXPECT_NE(backend().graph_exec_node_set_params(exec, node, NodeParams{ChildGraphNodeParams{longer}}),
            ErrorCode::success);
  GraphHandle other_type = new_graph();
  add(other_type, MemsetNodeParams{device_, 1, 4, 1});
  EXPECT_NE(backend().graph_exec_node_set_params(exec, node, NodeParams{ChildGraphNodeParams{other_type}}),
            ErrorCode::success);
  run(exec, new_stream());
  EXPECT_EQ(read(device_), 1);
}

TEST_P(ChildGraphContract, IsUpdatedWithItsParent) {
  const auto make = [&](int amount, int copies) {
    GraphHandle child = new_graph();
    for (int i = 0; i < copies; ++i) add_kernel(child, nodes_of(child), Add{}, device_, amount);
    GraphHandle graph = new_graph();
    add_kernel(graph, {add(graph, ChildGraphNodeParams{child})}, Add{}, device_, 1000);
    return graph;
  };
  GraphExecHandle exec = instantiate(make(1, 1));
  UpdateInfo info;
  EXPECT_OK(backend().graph_exec_update(exec, make(5, 1), &info));
  StreamHandle stream = new_stream();
  run(exec, stream);
  EXPECT_EQ(read(device_), 1005);
  EXPECT_RESULT(ErrorCode::graph_exec_update_failure, backend().graph_exec_update(exec, make(5, 2), &info));
  EXPECT_EQ(info.result, UpdateResult::topology_changed);
  run(exec, stream);
  EXPECT_EQ(read(device_), 2010);
}

TEST_P(ChildGraphContract, ItsUserObjectsLiveWithTheParent) {
  std::atomic<int> destroyed = 0;
  UserObjectHandle object = nullptr;
  ASSERT_OK(backend().user_object_create(
      &object, &destroyed, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1));
  add_kernel(child_, {}, Add{}, device_, 1);
  EXPECT_OK(backend().graph_retain_user_object(child_, object, 1, RetainFlags::move));
  add(graph_, ChildGraphNodeParams{child_});
  destroy(child_);
  GraphExecHandle exec = instantiate(graph_);
  destroy(graph_);
  run(exec, new_stream());
  EXPECT_EQ(destroyed, 0) << "the executable holds what the child held";
  destroy(exec);
  EXPECT_OK(backend().device_synchronize());
  const auto end = std::chrono::steady_clock::now() + reprise::test::patience;
  while (destroyed == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(destroyed, 1);
}

TEST_P(ChildGraphContract, BecomesANodeOfACapture) {
  add_kernel(child_, {}, Add{}, device_, 10);
  StreamHandle stream = new_stream();
  begin_capture(stream);
  EXPECT_OK(launch(stream, Store{}, device_, 1));
  CaptureInfo info;
  EXPECT_OK(backend().stream_capture_info(stream, &info));
  GraphNodeHandle node = nullptr;
  NodeParams params = ChildGraphNodeParams{child_};
  EXPECT_OK(backend().graph_add_node(&node, info.graph, {info.dependencies, info.edges}, params));
  EXPECT_OK(backend().stream_update_capture_dependencies(stream, {&node, 1}, UpdateDependencies::set));
  EXPECT_OK(launch(stream, Add{}, device_, 100));
  GraphHandle captured = end_capture(stream);
  EXPECT_EQ(nodes_of(captured).size(), 3U);
  EXPECT_EQ(edges_of(captured).size(), 2U);
  run(instantiate(captured), stream);
  EXPECT_EQ(read(device_), 111);
}

TEST_P(ChildGraphContract, EventNodesOfAChildRecordAtEachLaunch) {
  EventHandle event = new_event();
  add(child_, EventRecordNodeParams{event});
  add(graph_, ChildGraphNodeParams{child_});
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  run(exec, stream);
  EXPECT_OK(backend().event_synchronize(event));
  float milliseconds = -1;
  EXPECT_OK(backend().event_elapsed_ms(&milliseconds, event, event));
}

TEST_P(ChildGraphContract, ALaunchThatHasNotBegunDoesNotSeeAChangeOfAChild) {
  add_kernel(child_, {}, Add{}, device_, 1);
  GraphNodeHandle node = add(graph_, ChildGraphNodeParams{child_});
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  function<Add>();
  hold(stream, gate);
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_OK(set_kernel(exec, nodes_of(graph_in(node)).front(), Add{}, device_, 10));
  EXPECT_OK(backend().graph_launch(exec, stream));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device_), 11);
}

TEST_P(ChildGraphContract, IsInThePictureOfItsParent) {
  add_kernel(child_, {}, CountThreads{}, reinterpret_cast<unsigned*>(device_));
  add(graph_, ChildGraphNodeParams{child_});
  const std::string path =
      testing::TempDir() + "reprise_child_" + std::to_string(getpid()) + "_" + test_name_of(GetParam()) + ".dot";
  EXPECT_OK(backend().graph_debug_dot_print(graph_, path.c_str(), DotFlags::verbose));
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  (void)std::remove(path.c_str());
  EXPECT_THAT(text.str(), testing::HasSubstr("CountThreads"));
}

}  // namespace
}  // namespace reprise::backend::test
