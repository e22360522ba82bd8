// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "tests/conformance/contracts/contract.h"

// How executable graphs run: order, parallel branches, lifetime.

namespace reprise::backend::test {
namespace {

class GraphLaunchContract : public Contract {
 protected:
  GraphHandle graph_ = nullptr;
  void SetUp() override { graph_ = new_graph(); }
};
REPRISE_ON_EVERY_DEVICE(GraphLaunchContract);

TEST_P(GraphLaunchContract, ComesInTheOrderOfItsStream) {
  int* log = new_memory<int>(3);
  int* length = new_memory<int>();
  add_kernel(graph_, {}, Append{}, log, length, 2);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  Gate& gate = new_gate(by_steps_too);
  hold(stream, gate);
  EXPECT_OK(launch(stream, Append{}, log, length, 1));
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_OK(launch(stream, Append{}, log, length, 3));
  EXPECT_FALSE(gate.is_open()) << "the launch does not wait";
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(log, 3), (std::vector<int>{1, 2, 3}));
}

TEST_P(GraphLaunchContract, TheStreamWaitsForAllBranches) {
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  add_host(graph_, {}, &Gate::pass, &gate);
  add_kernel(graph_, {}, Store{}, device, 1);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(instantiate(graph_), stream));
  EXPECT_TRUE(gate.wait_until_reached());
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(stream));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 1);
}

TEST_P(GraphLaunchContract, RunsOnTheLegacyStreamInItsOrder) {
  int* device = new_memory<int>();
  add_kernel(graph_, {}, Add{}, device, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle blocking = new_stream(StreamFlags::blocking);
  Gate& gate = new_gate();
  hold(blocking, gate);
  EXPECT_OK(backend().graph_launch(exec, nullptr));
  EXPECT_RESULT(ErrorCode::not_ready, backend().stream_query(nullptr));
  gate.open();
  EXPECT_OK(backend().stream_synchronize(nullptr));
  EXPECT_EQ(read(device), 1);
}

TEST_P(GraphLaunchContract, RunsIndependentBranchesAtOnce) {
  REPRISE_NEEDS(GetParam(), Capability::parallel_host_functions);
  Meeting meeting(3);
  GraphNodeHandle root = add(graph_, EmptyNodeParams{});
  for (int i = 0; i < 3; ++i) add_host(graph_, {root}, &Meeting::attend, &meeting);
  run(instantiate(graph_), new_stream());
  EXPECT_TRUE(meeting.all_met());
}

TEST_P(GraphLaunchContract, RunsDifferentExecutablesAtOnce) {
  REPRISE_NEEDS(GetParam(), Capability::parallel_host_functions);
  Meeting meeting(2);
  add_host(graph_, {}, &Meeting::attend, &meeting);
  GraphExecHandle first = instantiate(graph_);
  GraphExecHandle second = instantiate(graph_);
  StreamHandle one = new_stream();
  StreamHandle other = new_stream();
  EXPECT_OK(backend().graph_launch(first, one));
  EXPECT_OK(backend().graph_launch(second, other));
  EXPECT_OK(backend().stream_synchronize(one));
  EXPECT_OK(backend().stream_synchronize(other));
  EXPECT_TRUE(meeting.all_met());
}

TEST_P(GraphLaunchContract, BothSidesOfADiamondComeBeforeItsEnd) {
  int* log = new_memory<int>(400);
  int* length = new_memory<int>();
  GraphNodeHandle top = add_kernel(graph_, {}, Append{}, log, length, 1);
  GraphNodeHandle left = add_kernel(graph_, {top}, Append{}, log, length, 2);
  GraphNodeHandle right = add_kernel(graph_, {top}, Append{}, log, length, 2);
  add_kernel(graph_, {left, right}, Append{}, log, length, 3);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  for (int i = 0; i < 100; ++i) EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  const std::vector<int> order = read(log, 400);
  for (std::size_t i = 0; i < 400; i += 4)
    EXPECT_EQ(std::vector<int>(order.data() + i, order.data() + i + 4), (std::vector<int>{1, 2, 2, 3})) << i;
}

TEST_P(GraphLaunchContract, ALaunchWaitsForTheLaunchOfTheSameExecutableOnAnotherStream) {
  Gate& gate = new_gate();
  add_host(graph_, {}, &Gate::pass, &gate);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle first = new_stream();
  StreamHandle second = new_stream();
  EXPECT_OK(backend().graph_launch(exec, first));
  EXPECT_TRUE(gate.wait_until_reached());
  EXPECT_OK(backend().graph_launch(exec, second));
  // Other work of a third stream runs meanwhile, so that the second launch has had every chance to begin.
  for (int i = 0; i < 10; ++i) EXPECT_OK(backend().stream_synchronize(new_stream()));
  EXPECT_EQ(gate.arrivals(), 1);
  gate.open();
  EXPECT_OK(backend().stream_synchronize(first));
  EXPECT_OK(backend().stream_synchronize(second));
  EXPECT_EQ(gate.arrivals(), 2);
}

struct Overlap {
  std::atomic<int> inside = 0, most = 0, calls = 0;

  static void enter(void* data) {
    auto& self = *static_cast<Overlap*>(data);
    const int now = ++self.inside;
    int most = self.most;
    while (most < now && !self.most.compare_exchange_weak(most, now)) {
    }
    for (int i = 0; i < 10; ++i) std::this_thread::yield();
    --self.inside;
    ++self.calls;
  }
};

TEST_P(GraphLaunchContract, LaunchesOfOneExecutableNeverOverlap) {
  Overlap overlap;
  add_host(graph_, {}, &Overlap::enter, &overlap);
  GraphExecHandle exec = instantiate(graph_);
  const std::array<StreamHandle, 3> streams{new_stream(), new_stream(), new_stream()};
  for (int i = 0; i < 50; ++i)
    for (StreamHandle stream : streams) EXPECT_OK(backend().graph_launch(exec, stream));
  for (StreamHandle stream : streams) EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(overlap.most, 1);
  EXPECT_EQ(overlap.calls, 150);
}

TEST_P(GraphLaunchContract, LaunchesFromSeveralThreadsNeverOverlap) {
  Overlap overlap;
  add_host(graph_, {}, &Overlap::enter, &overlap);
  GraphExecHandle exec = instantiate(graph_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, stream = new_stream()] {
      for (int j = 0; j < 25; ++j) EXPECT_OK(backend().graph_launch(exec, stream));
      EXPECT_OK(backend().stream_synchronize(stream));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlap.most, 1);
  EXPECT_EQ(overlap.calls, 100);
}

TEST_P(GraphLaunchContract, AnExecutableDoesNotSeeLaterChangesOfTheTemplate) {
  int* device = new_memory<int>(2);
  GraphNodeHandle node = add_kernel(graph_, {}, Add{}, device, 1);
  GraphExecHandle exec = instantiate(graph_);
  Arguments<Add> arguments(device, 100);
  EXPECT_OK(
      backend().graph_node_set_params(node, NodeParams{KernelNodeParams{function<Add>(), {}, arguments.pointers()}}));
  add_kernel(graph_, {node}, Store{}, device + 1, 9);
  StreamHandle stream = new_stream();
  run(exec, stream);
  EXPECT_EQ(read(device, 2), (std::vector<int>{1, 0}));
  run(instantiate(graph_), stream);
  EXPECT_EQ(read(device, 2), (std::vector<int>{101, 9}));
}

TEST_P(GraphLaunchContract, AnExecutableOutlivesItsTemplate) {
  int* device = new_memory<int>();
  add_kernel(graph_, {}, Add{}, device, 1);
  GraphExecHandle exec = instantiate(graph_);
  destroy(graph_);
  run(exec, new_stream());
  EXPECT_EQ(read(device), 1);
}

TEST_P(GraphLaunchContract, TheTemplateMayBeDestroyedWhileALaunchRuns) {
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  GraphNodeHandle first = add_host(graph_, {}, &Gate::pass, &gate);
  add_kernel(graph_, {first}, Store{}, device, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_TRUE(gate.wait_until_reached());
  destroy(graph_);
  EXPECT_FALSE(gate.is_open()) << "destroying does not wait";
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 1);
}

TEST_P(GraphLaunchContract, TheExecutableMayBeDestroyedWhileALaunchRuns) {
  Gate& gate = new_gate();
  int* device = new_memory<int>();
  GraphNodeHandle first = add_host(graph_, {}, &Gate::pass, &gate);
  add_kernel(graph_, {first}, Add{}, device, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_launch(exec, stream));
  EXPECT_OK(backend().graph_launch(exec, stream));  // this one has not begun when the executable goes
  EXPECT_TRUE(gate.wait_until_reached());
  destroy(exec);
  EXPECT_FALSE(gate.is_open()) << "destroying does not wait";
  gate.open();
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 2);
}

TEST_P(GraphLaunchContract, UploadsAheadOfTheFirstLaunch) {
  int* device = new_memory<int>();
  add_kernel(graph_, {}, Add{}, device, 1);
  GraphExecHandle exec = instantiate(graph_);
  StreamHandle stream = new_stream();
  EXPECT_OK(backend().graph_upload(exec, stream));
  EXPECT_OK(backend().stream_synchronize(stream));
  EXPECT_EQ(read(device), 0) << "uploading does not run it";
  run(exec, stream);
  EXPECT_EQ(read(device), 1);
}

TEST_P(GraphLaunchContract, UploadsWhenInstantiatedSo) {
  int* device = new_memory<int>();
  add_kernel(graph_, {}, Add{}, device, 1);
  StreamHandle stream = new_stream();
  GraphExecHandle exec = nullptr;
  ASSERT_OK(backend().graph_instantiate(&exec, graph_, InstantiateFlags::upload, stream));
  run(exec, stream);
  EXPECT_EQ(read(device), 1);
  EXPECT_OK(backend().graph_exec_destroy(exec));
}

TEST_P(GraphLaunchContract, SeveralExecutablesOfOneTemplateAreIndependent) {
  int* device = new_memory<int>();
  GraphNodeHandle node = add_kernel(graph_, {}, Add{}, device, 1);
  GraphExecHandle first = instantiate(graph_);
  GraphExecHandle second = instantiate(graph_);
  Arguments<Add> arguments(device, 10);
  EXPECT_OK(backend().graph_exec_node_set_params(
      second, node, NodeParams{KernelNodeParams{function<Add>(), {}, arguments.pointers()}}));
  StreamHandle stream = new_stream();
  run(first, stream);
  run(second, stream);
  EXPECT_EQ(read(device), 11);
}

}  // namespace
}  // namespace reprise::backend::test
