// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <malloc.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sanitizer.h"
#include "tests/support/scoped_framework.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"
#include "tests/unit/random/random_fixture.h"

// CUDAGraph::memory() and graph_memory().

namespace reprise::graphs::test {
namespace {

using reprise::test::Warnings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::size_t one_mib = std::size_t{1} << 20;

// The heap of a sanitizer does not say what it has given out.
constexpr bool heap_is_known = !reprise::test::with_address_sanitizer && !reprise::test::with_thread_sanitizer;

std::uint64_t heap_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

class MemoryOfGraphs : public ::testing::Test {
 protected:
  CUDAGraph graph_of(int nodes, const GraphOptions& options = {}) {
    return capture(options, [&] {
      for (int i = 0; i < nodes; ++i) add(x_);
    });
  }

  const SideStream side_;
  Buffer<int> x_ = zeros();
};

// First in the process of the suite: the call in the capture measures.
TEST_F(MemoryOfGraphs, IsMeasuredWithinACaptureWithoutBreakingIt) {
  const CUDAGraph other = graph_of(3);
  CUDAGraph graph = capture({.capture_error_mode = CaptureMode::global}, [&] {
    add(x_);
    EXPECT_EQ(other.memory().nodes, 3U);
  });
  EXPECT_EQ(graph.memory().nodes, 1U);
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(MemoryOfGraphs, HasTheBytesOfThePoolExactly) {
  Buffer<char> result;
  const CUDAGraph graph = capture({.name = "encoder"}, [&] {
    result = Buffer<char>(30 * one_mib);
    Buffer<char> scratch(12 * one_mib);
    scratch.fill_bytes_async(0);
  });
  const GraphMemory memory = graph.memory();
  EXPECT_EQ(memory.pool.reserved_bytes, 42 * one_mib);
  EXPECT_EQ(memory.pool.allocated_bytes, 30 * one_mib);
  EXPECT_EQ(memory.pool.peak_allocated_bytes, 42 * one_mib);
  EXPECT_EQ(memory.pool.allocations, 1U);
  EXPECT_THAT(memory.pool.graphs, ElementsAre("encoder"));
  EXPECT_EQ(memory.tensor_reserved_bytes, 0U);
  result.reset();
  EXPECT_EQ(graph.memory().pool.allocated_bytes, 0U);
  EXPECT_EQ(graph.memory().pool.reserved_bytes, 42 * one_mib);
}

TEST_F(MemoryOfGraphs, OfAGraphWithoutAllocationsHasNoPool) {
  const GraphMemory memory = graph_of(1).memory();
  EXPECT_EQ(memory.pool.reserved_bytes, 0U);
  EXPECT_EQ(memory.graphs, 1U);
  EXPECT_EQ(memory.executables, 1U);
  EXPECT_EQ(memory.nodes, 1U);
}

// The nodes of a template, with those within its nodes.
std::size_t count_nodes(backend::Backend& backend, GraphHandle graph) {
  const backend::Checked runtime(backend);
  std::vector<GraphNodeHandle> nodes;
  runtime.graph_nodes(graph, &nodes);
  std::size_t count = nodes.size();
  for (GraphNodeHandle const node : nodes) {
    backend::NodeParams params;
    runtime.graph_node_params(node, &params);
    if (const auto* const child = std::get_if<backend::ChildGraphNodeParams>(&params))
      count += count_nodes(backend, child->graph);
    if (const auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&params))
      for (GraphHandle const body : conditional->bodies) count += count_nodes(backend, body);
  }
  return count;
}

TEST_F(MemoryOfGraphs, CountsAllNodesThatTheTemplateHas) {
  Buffer<unsigned> numbers(8);
  Buffer<std::uint32_t> flag(std::array<std::uint32_t, 1>{0});
  const Generator generator;
  const CUDAGraph child = graph_of(2);
  CUDAGraph graph = capture({.keep_graph = KeepGraph::yes}, [&] {
    random::test::draw(generator, numbers);
    add_child(child);
    while_(flag.data(),
           [&] {
             add(x_);
             if_else(
                 flag.data(), [&] { add(x_); }, [&] { add(x_, 2); });
             random::test::draw(generator, numbers);
           },
           {.max_iterations = 4});
  });
  EXPECT_EQ(graph.memory().nodes, count_nodes(default_device().backend(), graph.raw_cuda_graph()));
}

TEST_F(MemoryOfGraphs, CountsTheNodesOfChildGraphsAndOfBodies) {
  const CUDAGraph child = graph_of(5);
  const CUDAGraph parent = capture([&] {
    add(x_);
    add_child(child);
    add_child(child);
  });
  EXPECT_EQ(parent.node_count(), 3U);
  EXPECT_EQ(parent.memory().nodes, 13U);
  const CUDAGraph grandparent = capture([&] { add_child(parent); });
  EXPECT_EQ(grandparent.memory().nodes, 14U);
}

TEST_F(MemoryOfGraphs, EstimateGrowsWithTheNodes) {
  const GraphMemoryEstimate one = graph_of(1).memory().estimate, many = graph_of(101).memory().estimate,
                            most = graph_of(1001).memory().estimate;
  if (!heap_is_known) GTEST_SKIP() << "the memory of the process is the sanitizer's";
  EXPECT_GT(one.template_host_bytes, 0U);
  EXPECT_GT(one.executable_host_bytes, 0U);
  // 100 nodes more, and 1000.
  const auto expect_in_proportion = [](std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    EXPECT_GT(b, a + 100 * 16);
    EXPECT_NEAR(static_cast<double>(c - a), 10.0 * static_cast<double>(b - a), 16);
  };
  expect_in_proportion(one.template_host_bytes, many.template_host_bytes, most.template_host_bytes);
  expect_in_proportion(one.executable_host_bytes, many.executable_host_bytes, most.executable_host_bytes);
  if (default_device().type() == DeviceType::host) {
    EXPECT_EQ(most.executable_device_bytes, 0U);
  } else {
    expect_in_proportion(one.executable_device_bytes, many.executable_device_bytes, most.executable_device_bytes);
  }
}

TEST_F(MemoryOfGraphs, EstimateIsNearWhatGraphsOfKernelsTake) {
  if (!heap_is_known) GTEST_SKIP() << "the memory of the process is the sanitizer's";
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "the driver does not take all memory from the heap";
  std::vector<CUDAGraph> graphs;
  graphs.push_back(graph_of(200));
  const GraphMemoryEstimate estimate = graphs.front().memory().estimate;
  const std::uint64_t before = heap_in_use();
  for (int i = 0; i < 20; ++i) graphs.push_back(graph_of(200));
  const double found = static_cast<double>(heap_in_use() - before) / 20;
  const double estimated = static_cast<double>(estimate.template_host_bytes + estimate.executable_host_bytes);
  EXPECT_GT(estimated, found / 2) << estimated << " " << found;
  EXPECT_LT(estimated, found * 2);
}

TEST_F(MemoryOfGraphs, HasNoEstimateForATemplateThatWasDiscarded) {
  const GraphMemory memory = graph_of(10, {.discard_template = true}).memory();
  EXPECT_EQ(memory.estimate.template_host_bytes, 0U);
  EXPECT_EQ(memory.estimate.executable_host_bytes, graph_of(10).memory().estimate.executable_host_bytes);
  EXPECT_EQ(memory.nodes, 10U);
}

TEST_F(MemoryOfGraphs, HasNoEstimateForAnExecutableThatIsNotThere) {
  CUDAGraph graph = graph_of(10, {.keep_graph = KeepGraph::yes});
  EXPECT_EQ(graph.memory().executables, 0U);
  EXPECT_EQ(graph.memory().estimate.executable_host_bytes, 0U);
  graph.instantiate();
  graph.instantiate();
  EXPECT_EQ(graph.memory().executables, 1U);
  EXPECT_EQ(graph.memory().estimate.executable_host_bytes, graph_of(10).memory().estimate.executable_host_bytes);
}

TEST_F(MemoryOfGraphs, IsThatOfTheNewCaptureAfterARecapture) {
  CUDAGraph graph = graph_of(3);
  graph.recapture([&] { add(x_); });
  EXPECT_EQ(graph.memory().nodes, 1U);
  EXPECT_EQ(graph.memory().executables, 1U);
  graph.recapture([&] { add(x_, 2); });
  EXPECT_EQ(graph.memory().nodes, 1U);
  graph.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(MemoryOfGraphs, OfADeviceIsThatOfAllItsGraphs) {
  const GraphMemory before = graph_memory();
  Buffer<char> result;
  std::optional<CUDAGraph> one = graph_of(10), two = capture([&] {
                                                 result = Buffer<char>(30 * one_mib);
                                                 result.fill_bytes_async(0);
                                               });
  const CUDAGraph moved = std::move(*one);
  const GraphMemory now = graph_memory();
  EXPECT_EQ(now.graphs, before.graphs + 2);
  EXPECT_EQ(now.executables, before.executables + 2);
  EXPECT_EQ(now.nodes, before.nodes + 11);
  EXPECT_EQ(now.pool.reserved_bytes, before.pool.reserved_bytes + 30 * one_mib);
  EXPECT_EQ(now.pool.allocated_bytes, before.pool.allocated_bytes + 30 * one_mib);
  EXPECT_NEAR(static_cast<double>(now.estimate.template_host_bytes),
              static_cast<double>(before.estimate.template_host_bytes + moved.memory().estimate.template_host_bytes +
                                  two->memory().estimate.template_host_bytes),
              3);
  two.reset();
  EXPECT_EQ(graph_memory().graphs, before.graphs + 1);
  EXPECT_EQ(graph_memory().nodes, before.nodes + 10);
}

TEST_F(MemoryOfGraphs, OfADeviceDoesNotCountCapturesThatFailed) {
  const GraphMemory before = graph_memory();
  EXPECT_THROW(capture([&] {
                 add(x_);
                 throw 1;
               }),
               int);
  EXPECT_THROW(capture([] {}), EmptyCaptureError);
  EXPECT_EQ(graph_memory().graphs, before.graphs);
  EXPECT_EQ(graph_memory().nodes, before.nodes);
}

TEST_F(MemoryOfGraphs, BreaksNoCaptureAlsoWhenItMeasures) {
  std::size_t memory = std::size_t{101} << 20;
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
    HostSimulator simulator({.memory_bytes = memory++});  // options of no other test: nothing was measured there
    const DeviceGuard device(simulator.device());
    Buffer<int> x = zeros();
    CUDAGraph graph = capture({.capture_error_mode = mode}, [&] {
      add(x);
      EXPECT_EQ(graph_memory().graphs, 0U);
    });
    graph.replay();
    EXPECT_EQ(first(x), 1);
    EXPECT_EQ(graph.memory().nodes, 1U);
  }
}

TEST_F(MemoryOfGraphs, WithoutMemoryToMeasureHasNoEstimateAndAWarning) {
  HostSimulator simulator({.memory_bytes = std::size_t{111} << 20});  // options of no other test
  const DeviceGuard device(simulator.device());
  Buffer<int> x = zeros();
  const CUDAGraph graph = capture([&] { add(x); });
  {
    const Warnings warnings;
    const InjectedFailure failure({.call = "cuGraphUpload", .code = ErrorCode::out_of_memory});
    const GraphMemory memory = graph.memory();
    EXPECT_EQ(memory.estimate.template_host_bytes + memory.estimate.executable_host_bytes, 0U);
    EXPECT_EQ(memory.nodes, 1U);
    EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("could not be measured")));
  }
  const Warnings warnings;
  const GraphMemory memory = graph.memory();
  EXPECT_THAT(warnings.texts(), IsEmpty());
  if (heap_is_known) {
    EXPECT_GT(memory.estimate.executable_host_bytes, 0U);
  }
}

TEST_F(MemoryOfGraphs, MayBeQueriedWhileAnotherThreadMakesTheExecutable) {
  CUDAGraph graph = graph_of(1, {.keep_graph = KeepGraph::yes});
  std::thread replays([&] {
    for (int i = 0; i < 10; ++i) graph.replay(default_device().default_stream());
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(graph.memory().nodes, 1U);
  replays.join();
  EXPECT_EQ(graph.memory().executables, 1U);
  default_device().synchronize();  // the memory of the replays is given out again for another stream
}

TEST_F(MemoryOfGraphs, HasWhatReplaysLeaveWhichIsFreedWithTheGraph) {
  constexpr std::size_t bytes = 256 * one_mib;
  const std::uint64_t before = default_device().memory_info().free;
  for (int i = 0; i < 20; ++i) {
    CUDAGraph graph = capture([&] { fill_async(allocate_async(bytes), 1, bytes); });
    graph.replay();
    current_stream().synchronize();  // the end of a graph that still runs is later
    EXPECT_EQ(graph.memory().left_bytes, bytes);
    EXPECT_EQ(graph_memory().left_bytes, bytes);
  }
  release_finished_graphs();
  CachingAllocator::of(default_device()).empty_cache();
  EXPECT_EQ(graph_memory().left_bytes, 0U);
  EXPECT_EQ(graph_memory().left_by_ended_bytes, 0U);
  EXPECT_GE(default_device().memory_info().free + 4 * bytes, before);
}

TEST_F(MemoryOfGraphs, IsNotThatOfAnEmptyGraph) {
  CUDAGraph graph;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph.memory(); }), "CUDAGraph::memory"));
}

TEST_F(MemoryOfGraphs, AsTextNamesEachKindOfMemory) {
  const GraphMemory memory{
      .graphs = 2,
      .executables = 1,
      .nodes = 30,
      .pool = {.reserved_bytes = 2 * one_mib, .allocated_bytes = 512, .peak_allocated_bytes = 1024},
      .tensor_reserved_bytes = 20 * one_mib,
      .tensor_allocated_bytes = one_mib,
      .estimate = {2048, 0, 4096, 8192}};
  EXPECT_EQ(memory.str(),
            "2 graphs, 1 of them instantiated, with 30 nodes\n"
            "pools: 2.0 MiB reserved, 512 bytes of it allocated, at most 1.0 KiB\n"
            "pools of tensors: 20.0 MiB reserved, 1.0 MiB of it allocated\n"
            "templates, estimated: 2.0 KiB of the host, 0 bytes of the device\n"
            "executables, estimated: 4.0 KiB of the host, 8.0 KiB of the device\n");
}

class WithPools final : public backend::Framework {
 public:
  std::string_view name() const noexcept override { return "pools"; }
  PoolBytes pool_bytes(const Device& /*device*/, MempoolId pool) const noexcept override {
    return pool ? PoolBytes{3 * one_mib, one_mib} : PoolBytes{7 * one_mib, 5 * one_mib};
  }
};

TEST_F(MemoryOfGraphs, HasThePoolOfAFramework) {
  const WithPools framework;
  const reprise::test::ScopedFramework scope(framework);
  const CUDAGraph graph = graph_of(1);
  EXPECT_EQ(graph.memory().tensor_reserved_bytes, 3 * one_mib);
  EXPECT_EQ(graph.memory().tensor_allocated_bytes, one_mib);
  EXPECT_EQ(graph_memory().tensor_reserved_bytes, 7 * one_mib);
  EXPECT_EQ(graph_memory().tensor_allocated_bytes, 5 * one_mib);
}

}  // namespace
}  // namespace reprise::graphs::test
