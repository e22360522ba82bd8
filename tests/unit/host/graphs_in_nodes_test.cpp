// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/check.h"
#include "backend/condition_record.h"
#include "backend/monitor.h"
#include "kernels/condition_kernel.h"
#include "reprise/reprise.h"

// What the host device has beyond CUDA for child graphs, bodies and memory of graphs: races, schedules, times, errors.

namespace reprise::graphs_in_nodes_test {
namespace {

using backend::Checked;
using backend::ConditionalHandle;
using backend::ConditionalNodeParams;
using backend::ConditionalType;
using backend::KernelNodeParams;
using backend::LoopState;
using backend::MemoryAllocateNodeParams;
using backend::MemoryFreeNodeParams;
using backend::NodeParams;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

struct Increment {
  REPRISE_KERNEL void operator()(Thread, int* x) const { ++*x; }
  static auto accesses(int* x) { return std::array{reads(x, 1), writes(x, 1)}; }
};

struct CountDown {
  REPRISE_KERNEL void operator()(Thread, std::uint32_t* flag) const { --*flag; }
  static auto accesses(std::uint32_t* flag) { return std::array{reads(flag, 1), writes(flag, 1)}; }
};

struct Copy {
  REPRISE_KERNEL void operator()(Thread, const int* from, int* to) const { *to = *from; }
};

struct Throws {
  REPRISE_KERNEL void operator()(Thread) const {
#if !defined(__CUDA_ARCH__)  // device code has no exceptions
    throw std::runtime_error("no more");
#endif
  }
};

using Nodes = std::vector<GraphNodeHandle>;

/// For races that are meant: the check finds them when work is submitted, and nothing runs at once.
constexpr std::uint64_t one_at_a_time = 0;

/// A simulator and what builds graphs on it by hand.
struct Scene {
  explicit Scene(std::optional<std::uint64_t> seed = {}, bool races = false)
      : simulator({.check_races = races, .scheduler_seed = seed}) {
    x.write(std::vector<int>(4));
    flag.write(std::vector<std::uint32_t>{0});
  }
  ~Scene() {
    for (GraphExecHandle exec : execs) (void)backend().graph_exec_destroy(exec);
    for (GraphHandle graph : graphs) (void)backend().graph_destroy(graph);
  }

  backend::Backend& backend() { return device.backend(); }
  Checked runtime() { return Checked(backend()); }

  GraphHandle new_graph() {
    GraphHandle graph = nullptr;
    runtime().graph_create(&graph);
    return graphs.emplace_back(graph);
  }
  GraphNodeHandle add(GraphHandle graph, const Nodes& before, NodeParams params) {
    GraphNodeHandle node = nullptr;
    runtime().graph_add_node(&node, graph, before, params);
    added = params;
    return node;
  }
  template <class K, class... A>
  GraphNodeHandle kernel(GraphHandle graph, const Nodes& before, K, A... values) {
    return kernel_of(graph, before, kernel_record<K>(), values...);
  }
  template <class... A>
  GraphNodeHandle kernel_of(GraphHandle graph, const Nodes& before, const KernelRecord& record, A... values) {
    KernelNodeParams params;
    runtime().kernel_function(record, &params.function);
    void* pointers[] = {static_cast<void*>(&values)..., nullptr};
    params.params = pointers;
    return add(graph, before, params);
  }
  GraphNodeHandle child(GraphHandle graph, const Nodes& before, GraphHandle of) {
    return add(graph, before, backend::ChildGraphNodeParams{of});
  }
  std::vector<GraphHandle> conditional(GraphHandle graph, ConditionalType type, unsigned bodies = 1) {
    runtime().graph_conditional_handle_create(&condition, graph, 0);
    const GraphNodeHandle set = setter(graph, {}, condition);
    last = add(graph, {set}, ConditionalNodeParams{condition, type, bodies});
    return std::get<ConditionalNodeParams>(added).bodies;
  }
  GraphNodeHandle setter(GraphHandle graph, const Nodes& before, ConditionalHandle handle) {
    return kernel_of(graph, before, backend::condition_record(), handle, static_cast<const std::uint32_t*>(flag.data()),
                     static_cast<LoopState*>(nullptr), std::uint32_t{0}, std::uint32_t{0});
  }
  GraphExecHandle instantiate(GraphHandle graph, InstantiateFlags flags = InstantiateFlags::none) {
    GraphExecHandle exec = nullptr;
    runtime().graph_instantiate(&exec, graph, flags, nullptr);
    return execs.emplace_back(exec);
  }
  void run(GraphExecHandle exec) {
    runtime().graph_launch(exec, stream.native());
    stream.synchronize();
  }

  HostSimulator simulator;
  Device device = simulator.device();
  DeviceGuard guard{device};
  Stream stream;
  StreamGuard stream_guard{stream};
  Buffer<int> x{4};
  Buffer<std::uint32_t> flag{1};
  std::vector<GraphHandle> graphs;
  std::vector<GraphExecHandle> execs;
  NodeParams added = backend::EmptyNodeParams{};
  ConditionalHandle condition = 0;
  GraphNodeHandle last = nullptr;
};

std::vector<std::optional<std::uint64_t>> schedules() {
  return {std::nullopt, 0, 1, 2, 3};
}

TEST(GraphsInNodes, ALoopOfAHundredThousandIterationsNeedsNoStackInAnySchedule) {
  for (const auto& seed : schedules()) {
    Scene s(seed);
    GraphHandle graph = s.new_graph();
    GraphHandle body = s.conditional(graph, ConditionalType::while_).front();
    const GraphNodeHandle down = s.kernel(body, {}, CountDown{}, s.flag.data());
    s.setter(body, {down}, s.condition);
    s.kernel(body, {}, Increment{}, s.x.data());
    s.flag.write(std::vector<std::uint32_t>{100000});
    s.run(s.instantiate(graph));
    EXPECT_EQ(s.x.read()[0], 100000);
  }
}

TEST(GraphsInNodes, LoopsInLoopsInChildrenRunInAnySchedule) {
  for (const auto& seed : schedules()) {
    Scene s(seed);
    GraphHandle grandchild = s.new_graph();
    for (int i = 0; i < 3; ++i) s.kernel(grandchild, {}, Increment{}, s.x.data() + i);
    GraphHandle child = s.new_graph();
    s.kernel(child, {s.child(child, {}, grandchild)}, Increment{}, s.x.data() + 3);
    GraphHandle graph = s.new_graph();
    GraphHandle body = s.conditional(graph, ConditionalType::while_).front();
    const GraphNodeHandle inner = s.child(body, {}, child);
    s.setter(body, {s.kernel(body, {inner}, CountDown{}, s.flag.data())}, s.condition);
    GraphExecHandle exec = s.instantiate(graph);
    for (int i = 0; i < 3; ++i) {
      s.flag.write(std::vector<std::uint32_t>{50});
      s.run(exec);
    }
    EXPECT_EQ(s.x.read(), std::vector<int>(4, 150));
  }
}

TEST(GraphsInNodes, ARaceInAChildIsReportedWithTheNumbersOfItsNodes) {
  Scene s(one_at_a_time, true);
  GraphHandle child = s.new_graph();
  s.kernel(child, {}, Increment{}, s.x.data());
  s.kernel(child, {}, Increment{}, s.x.data());
  GraphHandle graph = s.new_graph();
  s.add(graph, {}, backend::EmptyNodeParams{});
  s.child(graph, {}, child);
  (void)s.simulator.races();
  s.runtime().graph_launch(s.instantiate(graph), s.stream.native());
  std::vector<std::string> races;
  for (const HostRace& race : s.simulator.races()) races.push_back(race.str());
  EXPECT_THAT(races, Not(IsEmpty()));
  for (const std::string& race : races)
    EXPECT_THAT(race, AllOf(HasSubstr("node 1.0 of a"), HasSubstr("node 1.1 of a")));
}

TEST(GraphsInNodes, AChildIsOrderedWithTheNodesBeforeAndAfterIt) {
  Scene s(one_at_a_time, true);
  GraphHandle child = s.new_graph();
  s.kernel(child, {}, Increment{}, s.x.data());
  GraphHandle graph = s.new_graph();
  const GraphNodeHandle first = s.kernel(graph, {}, Increment{}, s.x.data());
  const GraphNodeHandle node = s.child(graph, {first}, child);
  s.kernel(graph, {node}, Increment{}, s.x.data());
  s.run(s.instantiate(graph));
  EXPECT_THAT(s.simulator.races(), IsEmpty());
}

TEST(GraphsInNodes, AChildThatNothingOrdersRacesWithItsNeighbour) {
  Scene s(one_at_a_time, true);
  GraphHandle child = s.new_graph();
  s.kernel(child, {}, Increment{}, s.x.data());
  GraphHandle graph = s.new_graph();
  s.child(graph, {}, child);
  s.kernel(graph, {}, Increment{}, s.x.data());
  s.runtime().graph_launch(s.instantiate(graph), s.stream.native());
  EXPECT_THAT(s.simulator.races(), Not(IsEmpty()));
}

TEST(GraphsInNodes, OfTwoBodiesOneRunsSoTheyDoNotRace) {
  Scene s(one_at_a_time, true);
  GraphHandle graph = s.new_graph();
  for (GraphHandle body : s.conditional(graph, ConditionalType::if_, 2)) s.kernel(body, {}, Increment{}, s.x.data());
  s.kernel(graph, {s.last}, Increment{}, s.x.data());
  s.run(s.instantiate(graph));
  EXPECT_THAT(s.simulator.races(), IsEmpty());
  EXPECT_EQ(s.x.read()[0], 2);
}

TEST(GraphsInNodes, WorkBesideALaunchRacesWithItsBodies) {
  Scene s(one_at_a_time, true);
  GraphHandle graph = s.new_graph();
  s.kernel(s.conditional(graph, ConditionalType::if_).front(), {}, Increment{}, s.x.data());
  const Stream other;
  s.device.synchronize();
  s.runtime().graph_launch(s.instantiate(graph), s.stream.native());
  s.runtime().set_async({s.x.data(), 0, 4, 1}, other.native());
  EXPECT_THAT(s.simulator.races(), Not(IsEmpty()));
}

TEST(GraphsInNodes, AFailureInAChildNamesTheNode) {
  Scene s;
  GraphHandle child = s.new_graph();
  s.add(child, {}, backend::EmptyNodeParams{});
  s.kernel(child, {}, Throws{});
  GraphHandle graph = s.new_graph();
  s.child(graph, {}, child);
  GraphExecHandle exec = s.instantiate(graph);
  try {
    s.run(exec);
    FAIL();
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("Throws (node 0.1 of a graph)"), HasSubstr("no more")));
  }
}

TEST(GraphsInNodes, TheirNodesAreTimed) {
  Scene s;
  GraphHandle child = s.new_graph();
  s.kernel(child, {}, Increment{}, s.x.data());
  GraphHandle graph = s.new_graph();
  const GraphNodeHandle node = s.child(graph, {}, child);
  GraphHandle body = s.conditional(graph, ConditionalType::if_, 2).front();
  const GraphNodeHandle skipped = s.kernel(body, {}, Increment{}, s.x.data() + 1);
  GraphExecHandle exec = s.instantiate(graph);
  std::string why;
  const auto watch = s.backend().monitor().watch_nodes(graph, exec, &why);
  ASSERT_NE(watch, nullptr) << why;
  s.run(exec);
  std::vector<std::string> notes;
  std::vector<GraphNodeHandle> timed;
  for (const backend::NodeTime& time : watch->take(&notes)) {
    EXPECT_LE(time.start_ns, time.end_ns);
    timed.push_back(time.node);
  }
  NodeParams params = backend::EmptyNodeParams{};
  s.runtime().graph_node_params(node, &params);
  Nodes inside;
  s.runtime().graph_nodes(std::get<backend::ChildGraphNodeParams>(params).graph, &inside);
  EXPECT_THAT(timed, ::testing::IsSupersetOf({node, inside.front(), s.last}));
  EXPECT_EQ(std::count(timed.begin(), timed.end(), skipped), 0) << "its body was not chosen";
}

TEST(GraphsInNodes, AConditionOfNoGraphEndsInAnErrorThatSaysSo) {
  Scene s;
  GraphHandle graph = s.new_graph();
  s.setter(graph, {}, 123456789);
  try {
    s.run(s.instantiate(graph));
    FAIL();
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("reprise_set_condition"), HasSubstr("found 123456789")));
  }
}

/// A capture with the capture of a body in it.
struct BodyCapture {
  BodyCapture() {
    s.runtime().stream_begin_capture(s.stream.native(), CaptureMode::relaxed);
    backend::CaptureInfo info;
    s.runtime().stream_capture_info(s.stream.native(), &info);
    ConditionalHandle handle = 0;
    s.runtime().graph_conditional_handle_create(&handle, info.graph, 0);
    s.add(info.graph, {}, ConditionalNodeParams{handle, ConditionalType::if_, 1});
    GraphHandle body = std::get<ConditionalNodeParams>(s.added).bodies.front();
    s.runtime().stream_begin_capture_to_graph(inside.native(), body, {}, CaptureMode::relaxed);
    launch(inside, LaunchConfig{}, Increment{}, s.x.data());
  }
  void breaks(const Stream& stream) { EXPECT_NE(s.backend().stream_synchronize(stream.native()), ErrorCode::success); }
  backend::Result end(const Stream& stream) { return s.backend().stream_end_capture(stream.native(), &ended); }

  Scene s;
  const Stream inside;
  GraphHandle ended = nullptr;
};

// What is seen with CUDA 13.0 (driver 580): docs/capture-rules.md, "After a failure".
TEST(BrokenBodies, CanBeEndedAfterACaptureThatSucceeds) {
  BodyCapture capture;
  capture.breaks(capture.inside);
  EXPECT_EQ(capture.end(capture.s.stream), ErrorCode::success);
  EXPECT_EQ(capture.end(capture.inside), ErrorCode::stream_capture_invalidated);
  launch(capture.inside, LaunchConfig{}, Increment{}, capture.s.x.data());
  capture.inside.synchronize();
  EXPECT_EQ(capture.s.x.read()[0], 1) << "the stream is an ordinary one";
}

TEST(BrokenBodies, EndTheProcessWithTheirNode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        BodyCapture capture;
        capture.breaks(capture.inside);
        (void)capture.end(capture.inside);
        (void)capture.end(capture.s.stream);
        (void)capture.s.backend().graph_destroy(capture.ended);
      },
      "a conditional node is destroyed, and the capture of its body had failed");
}

TEST(GraphsInNodes, AGraphThatBecomesItsOwnChildEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        HostSimulator simulator;
        backend::Backend& backend = simulator.device().backend();
        GraphHandle graph = nullptr;
        (void)backend.graph_create(&graph);
        backend::NodeParams params = backend::ChildGraphNodeParams{graph};
        GraphNodeHandle node = nullptr;
        (void)backend.graph_add_node(&node, graph, {}, params);
      },
      "a graph becomes its own child");
}

TEST(BrokenBodies, EndTheProcessAfterTheirNode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        BodyCapture capture;
        capture.breaks(capture.s.stream);
        (void)capture.end(capture.s.stream);
        (void)capture.end(capture.inside);
      },
      "the capture of a body ends whose conditional node was destroyed");
}

class GraphMemoryTest : public ::testing::Test {
 protected:
  /// A graph that allocates memory and increments its first number.
  GraphHandle allocating(Scene& s, int** memory, std::size_t bytes = 4096) {
    GraphHandle graph = s.new_graph();
    const GraphNodeHandle node = s.add(graph, {}, MemoryAllocateNodeParams{bytes});
    *memory = static_cast<int*>(std::get<MemoryAllocateNodeParams>(s.added).address);
    s.kernel(graph, {node}, Increment{}, *memory);
    return graph;
  }
};

TEST_F(GraphMemoryTest, TakesMemoryFromTheFirstLaunchUntilAllThatRefersToItIsGone) {
  Scene s;
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto free_bytes = [&] { return s.device.memory_info().free; };
  const std::size_t before = free_bytes();
  int* memory = nullptr;
  GraphHandle graph = allocating(s, &memory, bytes);
  GraphExecHandle exec = s.instantiate(graph);
  EXPECT_EQ(free_bytes(), before) << "an address is no memory";
  s.run(exec);
  EXPECT_EQ(free_bytes(), before - bytes);
  s.execs.clear();
  s.graphs.clear();
  s.runtime().graph_exec_destroy(exec);
  s.runtime().graph_destroy(graph);
  EXPECT_EQ(free_bytes(), before - bytes) << "the launch left it allocated";
  s.runtime().memory_free_async(memory, s.stream.native());
  s.stream.synchronize();
  EXPECT_EQ(free_bytes(), before);
  backend::PointerInfo info;
  s.runtime().pointer_info(memory, &info);
  EXPECT_EQ(info.kind, backend::MemoryKind::unregistered);
}

TEST_F(GraphMemoryTest, ThatTheDeviceDoesNotHaveIsRefusedByTheLaunch) {
  Scene s;
  int* memory = nullptr;
  GraphExecHandle exec = s.instantiate(allocating(s, &memory, s.device.memory_info().total));
  EXPECT_EQ(s.backend().graph_launch(exec, s.stream.native()), ErrorCode::out_of_memory);
  EXPECT_EQ(s.backend().memory_free(memory), ErrorCode::invalid_value) << "no launch allocated it";
  launch(s.stream, LaunchConfig{}, Increment{}, s.x.data());
  EXPECT_EQ(s.x.read()[0], 1);
}

TEST_F(GraphMemoryTest, HasNoValueLeftOfAnEarlierLaunchNorAfterItsFree) {
  Scene s;
  int* memory = nullptr;
  GraphExecHandle exec = s.instantiate(allocating(s, &memory), InstantiateFlags::auto_free_on_launch);
  const auto read = [&] {
    launch(LaunchConfig{}, Copy{}, memory, s.x.data());
    return s.x.read()[0];
  };
  s.run(exec);
  const int first = read();
  s.run(exec);
  EXPECT_EQ(read(), static_cast<int>(0xDBDBDBDB) + 1) << "poisoned, then incremented";
  s.runtime().memory_free_async(memory, s.stream.native());
  EXPECT_EQ(read(), static_cast<int>(0xDBDBDBDB));
  EXPECT_NE(first, static_cast<int>(0xDBDBDBDB));
}

TEST_F(GraphMemoryTest, IsRefusedToCopiesAndSetsWhileItIsNotAllocated) {
  Scene s;
  int* memory = nullptr;
  GraphExecHandle exec = s.instantiate(allocating(s, &memory));
  const auto expect = [&](ErrorCode expected) {
    EXPECT_EQ(s.backend().copy_async(s.x.data(), memory + 1, 4, s.stream.native()), expected);
    EXPECT_EQ(s.backend().copy_async(memory + 1, s.x.data(), 4, s.stream.native()), expected);
    EXPECT_EQ(s.backend().set_async({memory + 1, 0, 4, 1}, s.stream.native()), expected);
  };
  expect(ErrorCode::invalid_value);
  EXPECT_THAT(s.backend().set_async({memory + 1, 0, 4, 1}, s.stream.native()).detail(), HasSubstr("not allocated now"));
  s.run(exec);
  expect(ErrorCode::success);
  s.runtime().memory_free_async(memory, s.stream.native());
  expect(ErrorCode::invalid_value);
}

TEST_F(GraphMemoryTest, UsesThatNothingOrdersWithItsFreeAreRaces) {
  Scene s(one_at_a_time, true);
  int* memory = nullptr;
  GraphHandle graph = allocating(s, &memory);
  s.add(graph, {}, MemoryFreeNodeParams{memory});  // beside the kernel
  s.runtime().graph_launch(s.instantiate(graph), s.stream.native());
  std::string all;
  for (const HostRace& race : s.simulator.races()) all += race.str();
  EXPECT_THAT(all, HasSubstr("the free of graph memory"));
}

TEST_F(GraphMemoryTest, ThatIsAllocatedAtTheEndOfTheSimulatorEndsWithIt) {
  int* memory = nullptr;
  {
    Scene s;
    s.run(s.instantiate(allocating(s, &memory)));
  }
  const HostSimulator another;
  SUCCEED();
}

}  // namespace
}  // namespace reprise::graphs_in_nodes_test
