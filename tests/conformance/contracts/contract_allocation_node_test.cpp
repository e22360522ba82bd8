// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "tests/conformance/contracts/contract.h"

// Memory that nodes of graphs allocate and free.

namespace reprise::backend::test {
namespace {

class AllocationNodeContract : public Contract {
 protected:
  StreamHandle stream_ = nullptr;
  int* result_ = nullptr;
  void SetUp() override {
    stream_ = new_stream();
    result_ = new_memory<int>();
  }

  int* allocate(StreamHandle stream, std::size_t bytes = 4096) {
    void* pointer = nullptr;
    EXPECT_OK(backend().memory_allocate_async(&pointer, bytes, stream));
    EXPECT_NE(pointer, nullptr);
    return static_cast<int*>(pointer);
  }
  /// A graph that leaves memory with `value` in it allocated.
  GraphHandle capture_unfreed(int** memory, int value) {
    begin_capture(stream_);
    *memory = allocate(stream_);
    EXPECT_OK(launch(stream_, Store{}, *memory, value));
    return end_capture(stream_);
  }
  GraphHandle capture_freed(int value) {
    begin_capture(stream_);
    int* const memory = allocate(stream_);
    EXPECT_OK(launch(stream_, Store{}, memory, value));
    EXPECT_OK(backend().copy_async(result_, memory, sizeof(int), stream_));
    EXPECT_OK(backend().memory_free_async(memory, stream_));
    return end_capture(stream_);
  }
  GraphExecHandle instantiate_with(GraphHandle graph, InstantiateFlags flags) {
    GraphExecHandle exec = nullptr;
    EXPECT_OK(backend().graph_instantiate(&exec, graph, flags, nullptr));
    return exec;
  }
  int read_in_order(const int* memory) {
    EXPECT_OK(backend().copy_async(result_, memory, sizeof(int), stream_));
    EXPECT_OK(backend().stream_synchronize(stream_));
    return read(result_);
  }
};
REPRISE_ON_EVERY_DEVICE(AllocationNodeContract);

TEST_P(AllocationNodeContract, AnAllocationAndAFreeInACaptureAreNodes) {
  GraphHandle graph = capture_freed(5);
  std::vector<NodeType> types;
  for (GraphNodeHandle node : nodes_of(graph)) types.push_back(type_of(node));
  EXPECT_EQ(types, (std::vector<NodeType>{NodeType::memory_allocate, NodeType::kernel, NodeType::memcpy,
                                          NodeType::memory_free}));
  EXPECT_EQ(edges_of(graph).size(), 3U);
  GraphExecHandle exec = instantiate(graph);
  run(exec, stream_);
  run(exec, stream_);
  EXPECT_EQ(read(result_), 5);
}

TEST_P(AllocationNodeContract, ReadsBackSizeAndAddress) {
  begin_capture(stream_);
  int* const memory = allocate(stream_, 1000);
  EXPECT_OK(backend().memory_free_async(memory, stream_));
  GraphHandle graph = end_capture(stream_);
  NodeParams params = EmptyNodeParams{};
  EXPECT_OK(backend().graph_node_params(nodes_of(graph)[0], &params));
  EXPECT_EQ(std::get<MemoryAllocateNodeParams>(params).bytes, 1000U);
  EXPECT_EQ(std::get<MemoryAllocateNodeParams>(params).address, memory);
  EXPECT_OK(backend().graph_node_params(nodes_of(graph)[1], &params));
  EXPECT_EQ(std::get<MemoryFreeNodeParams>(params).address, memory);
}

TEST_P(AllocationNodeContract, AddedNodesAllocateAndFreeToo) {
  GraphHandle graph = new_graph();
  NodeParams params = MemoryAllocateNodeParams{64};
  GraphNodeHandle allocation = nullptr;
  ASSERT_OK(backend().graph_add_node(&allocation, graph, {}, params));
  auto* const memory = static_cast<int*>(std::get<MemoryAllocateNodeParams>(params).address);
  ASSERT_NE(memory, nullptr);
  GraphNodeHandle store = add_kernel(graph, {allocation}, Store{}, memory, 3);
  GraphNodeHandle copy = add(graph, MemcpyNodeParams{result_, memory, sizeof(int)}, {store});
  add(graph, MemoryFreeNodeParams{memory}, {copy});
  run(instantiate(graph), stream_);
  EXPECT_EQ(read(result_), 3);
}

TEST_P(AllocationNodeContract, RefusesToAllocateNothing) {
  GraphHandle graph = new_graph();
  NodeParams params = MemoryAllocateNodeParams{0};
  GraphNodeHandle node = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph, {}, params));
}

TEST_P(AllocationNodeContract, TwoAllocationsHaveDifferentMemory) {
  begin_capture(stream_);
  int* const first = allocate(stream_, 4096);
  int* const second = allocate(stream_, 4096);
  EXPECT_TRUE(first + 1024 <= second || second + 1024 <= first);
  EXPECT_OK(backend().memory_free_async(first, stream_));
  EXPECT_OK(backend().memory_free_async(second, stream_));
  run(instantiate(end_capture(stream_)), stream_);
}

TEST_P(AllocationNodeContract, MemoryThatALaunchLeftIsUsedAndFreedOutside) {
  int* memory = nullptr;
  GraphExecHandle exec = instantiate(capture_unfreed(&memory, 7));
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(backend().graph_launch(exec, stream_));
    EXPECT_EQ(read_in_order(memory), 7) << "at the same address each time";
    if (i == 2) {
      EXPECT_OK(backend().memory_free(memory));
    } else {
      EXPECT_OK(backend().memory_free_async(memory, stream_));
    }
  }
}

TEST_P(AllocationNodeContract, ALaunchWithUnfreedMemoryIsRefusedUntilItIsFreed) {
  int* memory = nullptr;
  GraphExecHandle exec = instantiate(capture_unfreed(&memory, 7));
  run(exec, stream_);
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_launch(exec, stream_));
  EXPECT_EQ(read_in_order(memory), 7) << "the memory is still there";
  EXPECT_OK(backend().memory_free_async(memory, stream_));
  run(exec, stream_);
  EXPECT_OK(backend().memory_free_async(memory, stream_));
}

TEST_P(AllocationNodeContract, AutoFreeFreesBeforeTheNextLaunch) {
  int* memory = nullptr;
  GraphExecHandle exec = instantiate_with(capture_unfreed(&memory, 7), InstantiateFlags::auto_free_on_launch);
  for (int i = 0; i < 3; ++i) run(exec, stream_);
  EXPECT_EQ(read_in_order(memory), 7);
  EXPECT_OK(backend().memory_free_async(memory, stream_));
  EXPECT_OK(backend().stream_synchronize(stream_));
  EXPECT_OK(backend().graph_exec_destroy(exec));
}

TEST_P(AllocationNodeContract, MemoryThatALaunchLeftOutlivesTheGraph) {
  int* memory = nullptr;
  GraphHandle graph = capture_unfreed(&memory, 9);
  GraphExecHandle exec = instantiate(graph);
  run(exec, stream_);
  destroy(exec);
  destroy(graph);
  EXPECT_EQ(read_in_order(memory), 9);
  EXPECT_OK(backend().memory_free_async(memory, stream_));
}

TEST_P(AllocationNodeContract, AnotherGraphFreesIt) {
  int* memory = nullptr;
  GraphExecHandle allocates = instantiate(capture_unfreed(&memory, 4));
  begin_capture(stream_);
  EXPECT_OK(backend().copy_async(result_, memory, sizeof(int), stream_));
  EXPECT_OK(backend().memory_free_async(memory, stream_));
  GraphExecHandle frees = instantiate(end_capture(stream_));
  for (int i = 0; i < 2; ++i) {
    run(allocates, stream_);
    run(frees, stream_);
  }
  EXPECT_EQ(read(result_), 4);
}

TEST_P(AllocationNodeContract, RefusesToFreeTwiceInAGraph) {
  begin_capture(stream_);
  int* const memory = allocate(stream_);
  EXPECT_OK(backend().memory_free_async(memory, stream_));
  EXPECT_RESULT(ErrorCode::invalid_value, backend().memory_free_async(memory, stream_));
  (void)end_capture(stream_);
}

TEST_P(AllocationNodeContract, RefusesToFreeInAGraphWhatNoNodeAllocated) {
  GraphHandle graph = new_graph();
  NodeParams params = MemoryFreeNodeParams{result_};
  GraphNodeHandle node = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_add_node(&node, graph, {}, params));
  EXPECT_TRUE(nodes_of(graph).empty());
}

// Measured on an H200, driver 580: one executable at a time.
TEST_P(AllocationNodeContract, AGraphWithAllocationNodesHasOneExecutableAndNoCopies) {
  GraphHandle graph = capture_freed(2);
  GraphExecHandle first = instantiate(graph);
  GraphExecHandle second = nullptr;
  EXPECT_NE(backend().graph_instantiate(&second, graph, InstantiateFlags::none, nullptr), ErrorCode::success);
  GraphHandle clone = nullptr;
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_clone(&clone, graph));
  GraphHandle parent = new_graph();
  NodeParams params = ChildGraphNodeParams{graph};
  GraphNodeHandle node = nullptr;
  EXPECT_RESULT(ErrorCode::not_supported, backend().graph_add_node(&node, parent, {}, params));
  run(first, stream_);
  destroy(first);
  run(instantiate(graph), stream_);
  EXPECT_EQ(read(result_), 2);
}

TEST_P(AllocationNodeContract, NodesAndEdgesOfAGraphWithAllocationNodesStayInIt) {
  GraphHandle graph = capture_freed(2);
  const auto edges = edges_of(graph);
  const Edge edge{edges.front().first, edges.front().second};
  EXPECT_NE(backend().graph_remove_dependencies(graph, {&edge, 1}), ErrorCode::success);
  EXPECT_NE(backend().graph_destroy_node(nodes_of(graph).back()), ErrorCode::success);
  EXPECT_EQ(nodes_of(graph).size(), 4U);
  EXPECT_EQ(edges_of(graph).size(), 3U);
}

// Measured likewise: accepted in the capture of a body, and refused at the instantiation.
TEST_P(AllocationNodeContract, RefusesToInstantiateABodyThatAllocates) {
  GraphHandle graph = new_graph();
  ConditionalHandle handle = 0;
  ASSERT_OK(backend().graph_conditional_handle_create(&handle, graph, 0));
  NodeParams params = ConditionalNodeParams{handle, ConditionalType::if_, 1};
  GraphNodeHandle node = nullptr;
  ASSERT_OK(backend().graph_add_node(&node, graph, {}, params));
  GraphHandle body = std::get<ConditionalNodeParams>(params).bodies[0];
  EXPECT_OK(backend().stream_begin_capture_to_graph(stream_, body, {}, CaptureMode::thread));
  int* const memory = allocate(stream_);
  EXPECT_OK(backend().memory_free_async(memory, stream_));
  GraphHandle ended = nullptr;
  EXPECT_OK(backend().stream_end_capture(stream_, &ended));
  GraphExecHandle exec = nullptr;
  EXPECT_RESULT(ErrorCode::invalid_value, backend().graph_instantiate(&exec, graph, InstantiateFlags::none, nullptr));
}

}  // namespace
}  // namespace reprise::backend::test
