// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/resources/graph_counts.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/graph/graph_fixture.h"
#include "tests/unit/random/random_fixture.h"

// CUDAGraph::memory() and graph_memory().

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t one_mib = std::size_t{1} << 20;

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

TEST_F(MemoryOfGraphs, MayBeQueriedWithinACapture) {
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

TEST(EstimateOfGraphs, IsNearWhatGraphsOfKernelsTookOnAnH100) {
  struct Measured {
    std::size_t kernels;
    std::uint64_t host, host_without_template, device;
  };
  // docs/performance.md, "Memory of graphs".
  for (const Measured& each :
       {Measured{1, 29'740, 27'119, 116'916}, {20, 181'236, 141'945, 162'005}, {100, 804'264, 610'638, 356'516}}) {
    GraphCounts counts{.graphs = 1,
                       .nodes = each.kernels,
                       .template_nodes = each.kernels,
                       .executables = 1,
                       .executable_nodes = each.kernels};
    const auto near = [](std::uint64_t found) { return static_cast<double>(found) * 0.04; };
    const auto number = [](std::uint64_t bytes) { return static_cast<double>(bytes); };
    EXPECT_NEAR(number(estimate_of(counts).host_bytes), number(each.host), near(each.host));
    EXPECT_NEAR(number(estimate_of(counts).device_bytes), number(each.device), near(each.device));
    counts.template_nodes = 0;
    EXPECT_NEAR(number(estimate_of(counts).host_bytes), number(each.host_without_template),
                near(each.host_without_template));
  }
}

TEST_F(MemoryOfGraphs, HasAnEstimateOfWhatTheDriverNeeds) {
  const GraphMemoryEstimate one = graph_of(1).memory().estimate, many = graph_of(101).memory().estimate;
  if (default_device().type() == DeviceType::host) {
    EXPECT_EQ(many.host_bytes + many.device_bytes, 0U);
  } else {
    EXPECT_GT(one.device_bytes, 0U);
    EXPECT_GT(many.host_bytes, one.host_bytes);
    EXPECT_GT(many.device_bytes, one.device_bytes);
  }
}

TEST_F(MemoryOfGraphs, DoesNotCountATemplateThatWasDiscarded) {
  const CUDAGraph graph = graph_of(10, {.discard_template = true});
  EXPECT_EQ(counts_of(graph).template_nodes, 0U);
  EXPECT_EQ(counts_of(graph).executable_nodes, 10U);
  EXPECT_EQ(graph.memory().nodes, 10U);
}

TEST_F(MemoryOfGraphs, DoesNotCountAnExecutableThatIsNotThere) {
  CUDAGraph graph = graph_of(10, {.keep_graph = KeepGraph::yes});
  EXPECT_EQ(graph.memory().executables, 0U);
  EXPECT_EQ(counts_of(graph).executable_nodes, 0U);
  graph.instantiate();
  graph.instantiate();
  EXPECT_EQ(graph.memory().executables, 1U);
  EXPECT_EQ(counts_of(graph).executable_nodes, 10U);
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

TEST_F(MemoryOfGraphs, BreaksNoCapture) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed}) {
    HostSimulator simulator;
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
      .estimate = {4096, 8192}};
  EXPECT_EQ(memory.str(),
            "2 graphs, 1 of them instantiated, with 30 nodes\n"
            "pools: 2.0 MiB reserved, 512 bytes of it allocated, at most 1.0 KiB\n"
            "pools of tensors: 20.0 MiB reserved, 1.0 MiB of it allocated\n"
            "the driver, estimated: 4.0 KiB of the host, 8.0 KiB of the device\n");
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
