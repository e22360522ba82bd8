// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "backend/condition_record.h"
#include "kernels/condition_kernel.h"
#include "tests/conformance/contracts/contract.h"

// Conditional nodes, and the kernel that sets their conditions.

namespace reprise::backend::test {
namespace {

using Flag = std::uint32_t;

/// --*flag unless it is 0, and counts its runs.
struct CountDown {
  REPRISE_KERNEL void operator()(Thread, Flag* flag, int* runs) const {
    if (*flag > 0) --*flag;
    ++*runs;
  }
  static auto accesses(Flag* flag, int* runs) {
    return std::array{reads(flag, 1), writes(flag, 1), reads(runs, 1), writes(runs, 1)};
  }
};

struct SetFlag {
  REPRISE_KERNEL void operator()(Thread, Flag* flag, Flag value) const { *flag = value; }
  static auto accesses(Flag* flag, Flag) { return std::array{writes(flag, 1)}; }
};

class ConditionalContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  Flag* flag_ = nullptr;
  int* device_ = nullptr;
  StreamHandle stream_ = nullptr;
  void SetUp() override {
    graph_ = new_graph();
    flag_ = new_memory<Flag>(4);
    device_ = new_memory<int>(4);
    stream_ = new_stream();
  }

  ConditionalHandle new_condition(GraphHandle graph, unsigned at_launch = 0) {
    ConditionalHandle handle = 0;
    EXPECT_OK(backend().graph_conditional_handle_create(&handle, graph, at_launch));
    return handle;
  }

  struct Condition {
    ConditionalHandle handle;
    const Flag* flag;
    LoopState* loop = nullptr;
    std::uint32_t limit = 0;
    std::uint32_t begins = 0;
  };
  /// The params of the kernel that sets a condition; `condition` must outlive them.
  KernelNodeParams setter(Condition& condition) {
    KernelNodeParams params;
    EXPECT_OK(backend().kernel_function(condition_record(), &params.function));
    arguments_ = {&condition.handle, &condition.flag, &condition.loop, &condition.limit, &condition.begins};
    params.params = arguments_.data();
    return params;
  }
  GraphNodeHandle add_setter(GraphHandle graph, const std::vector<GraphNodeHandle>& dependencies, Condition condition) {
    return add(graph, setter(condition), dependencies);
  }

  struct Conditional {
    GraphNodeHandle node = nullptr;
    std::vector<GraphHandle> bodies = {};
  };
  Conditional add_conditional(GraphHandle graph, const std::vector<GraphNodeHandle>& dependencies,
                              ConditionalHandle handle, ConditionalType type, unsigned bodies = 1) {
    Conditional made;
    NodeParams params = ConditionalNodeParams{handle, type, bodies};
    EXPECT_OK(backend().graph_add_node(&made.node, graph, dependencies, params));
    made.bodies = std::get<ConditionalNodeParams>(params).bodies;
    EXPECT_EQ(made.bodies.size(), bodies);
    return made;
  }
  /// The flag is read before the node and, of a loop, at the end of the body, which its caller adds.
  Conditional add_with_flag(GraphHandle graph, const std::vector<GraphNodeHandle>& dependencies, ConditionalType type,
                            unsigned bodies = 1) {
    const ConditionalHandle handle = new_condition(graph);
    last_ = handle;
    return add_conditional(graph, {add_setter(graph, dependencies, {handle, flag_})}, handle, type, bodies);
  }
  void set_flag(Flag value, Flag* flag = nullptr) {
    EXPECT_OK(backend().set({flag != nullptr ? flag : flag_, value, 4, 1}));
    EXPECT_OK(backend().stream_synchronize(nullptr));
  }
  Result try_to_instantiate(GraphHandle graph) {
    GraphExecHandle exec = nullptr;
    Result result = backend().graph_instantiate(&exec, graph, InstantiateFlags::none, nullptr);
    if (exec != nullptr) {
      EXPECT_OK(backend().graph_exec_destroy(exec));
    }
    return result;
  }

  ConditionalHandle last_ = 0;  // of add_with_flag()

 private:
  std::vector<void*> arguments_;
};
REPRISE_ON_EVERY_DEVICE(ConditionalContract);

TEST_P(ConditionalContract, TheBodyOfAnIfRunsIfTheConditionIsNotZero) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_);
  EXPECT_EQ(type_of(made.node), NodeType::conditional);
  add_kernel(made.bodies[0], {}, Add{}, device_, 1);
  add_kernel(graph_, {made.node}, Add{}, device_ + 1, 1);
  GraphExecHandle exec = instantiate(graph_);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{0, 1}));
  set_flag(7);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 2}));
  set_flag(0);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 3}));
}

TEST_P(ConditionalContract, TheSecondBodyOfAnIfIsTheElse) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_, 2);
  add_kernel(made.bodies[0], {}, Add{}, device_, 1);
  add_kernel(made.bodies[1], {}, Add{}, device_ + 1, 1);
  GraphExecHandle exec = instantiate(graph_);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{0, 1}));
  set_flag(1);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{1, 1}));
}

TEST_P(ConditionalContract, ASwitchRunsTheBodyOfItsNumberOrNone) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::switch_, 3);
  for (int i = 0; i < 3; ++i) add_kernel(made.bodies[static_cast<std::size_t>(i)], {}, Add{}, device_ + i, 1);
  GraphExecHandle exec = instantiate(graph_);
  for (const Flag value : {0U, 2U, 2U, 3U, 1000U}) {
    set_flag(value);
    run(exec, stream_);
  }
  EXPECT_EQ(read(device_, 3), (std::vector<int>{1, 0, 2}));
}

TEST_P(ConditionalContract, AWhileRunsItsBodyUntilTheConditionIsZero) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::while_);
  GraphNodeHandle work = add_kernel(made.bodies[0], {}, CountDown{}, flag_, device_);
  add_setter(made.bodies[0], {work}, {last_, flag_});
  add_kernel(graph_, {made.node}, Add{}, device_ + 1, 1);
  GraphExecHandle exec = instantiate(graph_);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{0, 1})) << "not once";
  set_flag(5);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{5, 2}));
  set_flag(20000);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{20005, 3}));
}

TEST_P(ConditionalContract, TheConditionIsTheDefaultAtEachLaunch) {
  const ConditionalHandle handle = new_condition(graph_, 1);
  const Conditional made = add_conditional(graph_, {}, handle, ConditionalType::while_);
  GraphNodeHandle work = add_kernel(made.bodies[0], {}, Add{}, device_, 1);
  add_setter(made.bodies[0], {work}, {handle, flag_});  // zero: the loop ends
  GraphExecHandle exec = instantiate(graph_);
  run(exec, stream_);
  run(exec, stream_);
  EXPECT_EQ(read(device_), 2);
}

TEST_P(ConditionalContract, TheKernelOfTheLibraryEndsALoopAtItsLimit) {
  auto* const loop = new_memory<LoopState>();
  const ConditionalHandle handle = new_condition(graph_);
  const Conditional made =
      add_conditional(graph_, {add_setter(graph_, {}, {handle, flag_, loop, 10, 1})}, handle, ConditionalType::while_);
  GraphNodeHandle work = add_kernel(made.bodies[0], {}, CountDown{}, flag_, device_);
  add_setter(made.bodies[0], {work}, {handle, flag_, loop, 10, 0});
  GraphExecHandle exec = instantiate(graph_);
  const auto expect = [&](Flag rounds, std::uint32_t iterations, std::uint32_t stopped) {
    set_flag(rounds);
    run(exec, stream_);
    const LoopState state = read(loop);
    EXPECT_EQ(state.iterations, iterations);
    EXPECT_EQ(state.stopped, stopped);
  };
  expect(3, 3, 0);
  expect(1000, 10, 1);
  expect(10, 10, 0);
  expect(0, 0, 0);
}

TEST_P(ConditionalContract, BodiesNestThreeDeep) {
  Flag* const flags = new_memory<Flag>(3);
  GraphHandle graph = graph_;
  std::vector<GraphNodeHandle> before;
  // Each level sets the flag of the next to 3 and loops over it.
  for (int level = 0; level < 3; ++level) {
    Flag* const flag = flags + level;
    GraphNodeHandle set = add_kernel(graph, before, SetFlag{}, flag, Flag{3});
    const ConditionalHandle handle = new_condition(graph);
    const Conditional made =
        add_conditional(graph, {add_setter(graph, {set}, {handle, flag})}, handle, ConditionalType::while_);
    if (level > 0) {
      // The end of the outer body.
      GraphNodeHandle down = add_kernel(graph, {made.node}, CountDown{}, flags + level - 1, device_ + level - 1);
      add_setter(graph, {down}, {last_, flags + level - 1});
    }
    last_ = handle;
    graph = made.bodies[0];
  }
  GraphNodeHandle down = add_kernel(graph, {}, CountDown{}, flags + 2, device_ + 2);
  add_setter(graph, {down}, {last_, flags + 2});
  GraphExecHandle exec = instantiate(graph_);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{3, 9, 27}));
  run(exec, stream_);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{6, 18, 54}));
}

TEST_P(ConditionalContract, TheBranchesOfABodyAreJoinedBeforeTheNextIteration) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::while_);
  GraphHandle body = made.bodies[0];
  GraphNodeHandle down = add_kernel(body, {}, CountDown{}, flag_, device_);
  add_setter(body, {down}, {last_, flag_});
  GraphNodeHandle first = add_kernel(body, {}, Add{}, device_ + 1, 1);
  GraphNodeHandle second = add_kernel(body, {first}, Add{}, device_ + 1, 1);
  add(body, MemcpyNodeParams{device_ + 2, device_ + 1, 4}, {down, second});
  set_flag(50);
  run(instantiate(graph_), stream_);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{50, 100, 100}));
}

TEST_P(ConditionalContract, ABodyMayHaveAChildGraphAndBeEmpty) {
  GraphHandle child = new_graph();
  add_kernel(child, {}, Add{}, device_, 1);
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_, 2);
  add(made.bodies[0], ChildGraphNodeParams{child});
  GraphExecHandle exec = instantiate(graph_);
  run(exec, stream_);
  set_flag(1);
  run(exec, stream_);
  EXPECT_EQ(read(device_), 1);
}

TEST_P(ConditionalContract, WhatLiesInABodyIsNoChildOfAnotherGraph) {
  GraphHandle child = new_graph();
  add_kernel(child, {}, Add{}, device_, 1);
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_);
  NodeParams params = ChildGraphNodeParams{child};
  GraphNodeHandle node = nullptr;
  EXPECT_OK(backend().graph_add_node(&node, made.bodies[0], {}, params));
  EXPECT_OK(backend().graph_node_params(node, &params));
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_add_node(&node, new_graph(), {}, params));
  const Conditional other = add_with_flag(new_graph(), {}, ConditionalType::if_);
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_add_node(&node, other.bodies[0], {}, params));
}

TEST_P(ConditionalContract, ReadsBackTheNodeAndItsBodies) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::switch_, 2);
  NodeParams params = EmptyNodeParams{};
  EXPECT_OK(backend().graph_node_params(made.node, &params));
  const auto& read_back = std::get<ConditionalNodeParams>(params);
  EXPECT_EQ(read_back.handle, last_);
  EXPECT_EQ(read_back.type, ConditionalType::switch_);
  EXPECT_EQ(read_back.body_count, 2U);
  EXPECT_EQ(read_back.bodies, made.bodies);
}

TEST_P(ConditionalContract, RefusesNumbersOfBodiesThatTheTypeCannotHave) {
  const auto refuse = [&](ConditionalType type, unsigned bodies) {
    GraphHandle graph = new_graph();
    GraphNodeHandle node = nullptr;
    NodeParams params = ConditionalNodeParams{new_condition(graph), type, bodies};
    EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph, {}, params));
    EXPECT_TRUE(nodes_of(graph).empty());
  };
  refuse(ConditionalType::if_, 0);
  refuse(ConditionalType::if_, 3);
  refuse(ConditionalType::while_, 2);
  refuse(ConditionalType::switch_, 0);
}

TEST_P(ConditionalContract, RefusesAHandleOfAnotherGraphAndOneThatHasANode) {
  const ConditionalHandle handle = new_condition(graph_);
  add_conditional(graph_, {}, handle, ConditionalType::if_);
  GraphNodeHandle node = nullptr;
  NodeParams params = ConditionalNodeParams{handle, ConditionalType::if_, 1};
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph_, {}, params));
  GraphHandle other = new_graph();
  NodeParams foreign = ConditionalNodeParams{new_condition(graph_), ConditionalType::if_, 1};
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, other, {}, foreign));
  EXPECT_EQ(nodes_of(graph_).size(), 1U);
}

TEST_P(ConditionalContract, RefusesToInstantiateAHandleWithoutANode) {
  (void)new_condition(graph_);
  EXPECT_RESULT(ErrorCode::invalid_value, try_to_instantiate(graph_));
}

// Measured on an H200, driver 580: accepted until the instantiation.
TEST_P(ConditionalContract, RefusesToInstantiateABodyWithAHostFunction) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_);
  add_host(
      made.bodies[0], {}, [](void*) {}, nullptr);
  EXPECT_RESULT(ErrorCode::invalid_value, try_to_instantiate(graph_));
}

// Measured likewise.
TEST_P(ConditionalContract, AGraphWithAConditionalNodeHasOneExecutableAndNoCopies) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_);
  add_kernel(made.bodies[0], {}, Add{}, device_, 1);
  GraphExecHandle first = instantiate(graph_);
  EXPECT_RESULT(ErrorCode::not_supported, try_to_instantiate(graph_));
  GraphHandle clone = nullptr;
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_clone(&clone, graph_));
  GraphHandle parent = new_graph();
  NodeParams params = ChildGraphNodeParams{graph_};
  GraphNodeHandle node = nullptr;
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_add_node(&node, parent, {}, params));
  EXPECT_TRUE(nodes_of(parent).empty());
  set_flag(1);
  run(first, stream_);
  destroy(first);
  run(instantiate(graph_), stream_);
  EXPECT_EQ(read(device_), 2);
}

TEST_P(ConditionalContract, TheParametersOfABodyChangeInTheExecutable) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::if_);
  GraphNodeHandle inside = add_kernel(made.bodies[0], {}, Add{}, device_, 1);
  GraphExecHandle exec = instantiate(graph_);
  Arguments<Add> arguments(device_ + 1, 10);
  EXPECT_OK(backend().graph_exec_node_set_params(
      exec, inside, NodeParams{KernelNodeParams{function<Add>(), {}, arguments.pointers()}}));
  set_flag(1);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 2), (std::vector<int>{0, 10}));
}

TEST_P(ConditionalContract, OutlivesItsTemplate) {
  const Conditional made = add_with_flag(graph_, {}, ConditionalType::while_);
  GraphNodeHandle work = add_kernel(made.bodies[0], {}, CountDown{}, flag_, device_);
  add_setter(made.bodies[0], {work}, {last_, flag_});
  GraphExecHandle exec = instantiate(graph_);
  destroy(graph_);
  set_flag(4);
  run(exec, stream_);
  EXPECT_EQ(read(device_), 4);
}

class ConditionalCaptureContract : public ConditionalContract {
 protected:
  CaptureInfo info_of(StreamHandle stream) {
    CaptureInfo info;
    EXPECT_OK(backend().stream_capture_info(stream, &info));
    return info;
  }
  Result launch_setter(StreamHandle stream, Condition condition) {
    return backend().launch_kernel(setter(condition), stream);
  }
  /// Makes a conditional node the next one of the capture.
  Conditional capture_conditional(ConditionalType type, unsigned bodies = 1) {
    const CaptureInfo info = info_of(stream_);
    last_ = new_condition(info.graph);
    EXPECT_OK(launch_setter(stream_, {last_, flag_}));
    const CaptureInfo after = info_of(stream_);
    const Conditional made =
        add_conditional(after.graph, {after.dependencies.begin(), after.dependencies.end()}, last_, type, bodies);
    EXPECT_OK(backend().stream_update_capture_dependencies(stream_, {&made.node, 1}, UpdateDependencies::set));
    return made;
  }
};
REPRISE_ON_EVERY_DEVICE(ConditionalCaptureContract);

TEST_P(ConditionalCaptureContract, ABodyIsCapturedOnAnotherStreamWhileTheFirstOneCaptures) {
  StreamHandle inside = new_stream();
  StreamHandle fork = new_stream();
  EventHandle event = new_event();
  begin_capture(stream_);
  const Conditional made = capture_conditional(ConditionalType::while_);
  EXPECT_OK(backend().stream_begin_capture_to_graph(inside, made.bodies[0], {}, CaptureMode::thread));
  EXPECT_NE(info_of(inside).id, info_of(stream_).id) << "a capture of its own";
  EXPECT_EQ(info_of(inside).graph, made.bodies[0]);
  EXPECT_OK(launch(inside, CountDown{}, flag_, device_));
  EXPECT_OK(backend().event_record(event, inside, EventUseFlags::ordering));
  EXPECT_OK(backend().stream_wait_event(fork, event, EventUseFlags::ordering));
  EXPECT_EQ(info_of(fork).id, info_of(inside).id) << "forks share it";
  EXPECT_OK(launch(fork, Add{}, device_ + 1, 1));
  EXPECT_OK(backend().event_record(event, fork, EventUseFlags::ordering));
  EXPECT_OK(launch_setter(inside, {last_, flag_}));
  EXPECT_OK(backend().stream_wait_event(inside, event, EventUseFlags::ordering));
  EXPECT_OK(launch(stream_, Add{}, device_ + 2, 1));
  GraphHandle ended = nullptr;
  EXPECT_OK(backend().stream_end_capture(inside, &ended));
  EXPECT_EQ(ended, made.bodies[0]);
  GraphHandle graph = end_capture(stream_);
  GraphExecHandle exec = instantiate(graph);
  set_flag(3);
  run(exec, stream_);
  EXPECT_EQ(read(device_, 3), (std::vector<int>{3, 3, 1}));
}

TEST_P(ConditionalCaptureContract, ABodyCanBeCapturedInEveryPairOfModes) {
  for (const CaptureMode outer : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed})
    for (const CaptureMode inner : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
      StreamHandle inside = new_stream();
      EXPECT_OK(backend().stream_begin_capture(stream_, outer));
      const Conditional made = capture_conditional(ConditionalType::if_);
      EXPECT_OK(backend().stream_begin_capture_to_graph(inside, made.bodies[0], {}, inner));
      EXPECT_OK(launch(inside, Add{}, device_, 1));
      GraphHandle ended = nullptr;
      EXPECT_OK(backend().stream_end_capture(inside, &ended));
      run(instantiate(end_capture(stream_)), stream_);
    }
  EXPECT_EQ(read(device_), 0) << "the flag was 0";
}

// Measured: accepted in the capture, and refused at the instantiation.
TEST_P(ConditionalCaptureContract, AHostFunctionInABodyIsCapturedAndNotInstantiated) {
  StreamHandle inside = new_stream();
  begin_capture(stream_);
  const Conditional made = capture_conditional(ConditionalType::if_);
  EXPECT_OK(backend().stream_begin_capture_to_graph(inside, made.bodies[0], {}, CaptureMode::thread));
  EXPECT_OK(backend().launch_host_function({[](void*) {}, nullptr}, inside));
  GraphHandle ended = nullptr;
  EXPECT_OK(backend().stream_end_capture(inside, &ended));
  EXPECT_RESULT(ErrorCode::invalid_value, try_to_instantiate(end_capture(stream_)));
}

}  // namespace
}  // namespace reprise::backend::test
