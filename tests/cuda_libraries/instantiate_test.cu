// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <vector>

#include "tests/cuda_libraries/cuda_test.h"
#include "tests/cuda_libraries/kernels.cuh"

// The default flags of instantiation, and captures on streams of CUDA's runtime.

namespace reprise::test {
namespace {

class Instantiate : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) x_ = Buffer<int>(std::vector<int>(n, 0));
  }
  static unsigned long long flags_of(cudaGraphExec_t exec) {
    unsigned long long flags = 0;
    EXPECT_EQ(cudaGraphExecGetFlags(exec, &flags), cudaSuccess);
    return flags;
  }
  static unsigned long long flags_of(const CUDAGraph& graph) { return flags_of(graph.raw_cuda_graph_exec()); }
  // The driver does not return every flag that it was passed (CUDA 13.0: not UseNodePriority).
  static unsigned long long flags_after_instantiation(const CUDAGraph& graph, unsigned long long flags) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&exec, graph.raw_cuda_graph(), flags), cudaSuccess);
    const unsigned long long returned = flags_of(exec);
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    return returned;
  }

  Buffer<int> x_;
};

TEST_F(Instantiate, HasTheFlagsOfPyTorchByDefault) {
  CUDAGraph graph =
      capture({.keep_graph = KeepGraph::yes}, [&](cudaStream_t s) { add_plainly<<<1, n, 0, s>>>(x_.data(), 1, n); });
  graph.instantiate();
  EXPECT_EQ(flags_of(graph), flags_after_instantiation(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                                                  cudaGraphInstantiateFlagUseNodePriority));
  EXPECT_NE(flags_of(graph) & cudaGraphInstantiateFlagAutoFreeOnLaunch, 0ULL);
}

TEST_F(Instantiate, TakesOtherFlagsFromTheOptions) {
  CUDAGraph graph = capture({.instantiate_flags = InstantiateFlags::none},
                            [&](cudaStream_t s) { add_plainly<<<1, n, 0, s>>>(x_.data(), 1, n); });
  EXPECT_EQ(flags_of(graph), 0ULL);
}

// Priorities of the template, with or without InstantiateFlags::use_node_priority: CUDA has no getter for those of an
// executable.
TEST_F(Instantiate, NodesOfTheTemplateHaveThePriorityOfTheirStream) {
  int least = 0, greatest = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  if (least == greatest) GTEST_SKIP() << "the device has one priority";
  const Stream urgent(device(), {.priority = greatest});
  CUDAGraph graph = capture({.keep_graph = KeepGraph::yes}, [&](StreamRef s) {
    add_plainly<<<1, n, 0, s.native()>>>(x_.data(), 1, n);
    urgent.wait(s);
    add_plainly<<<1, n, 0, urgent.native()>>>(x_.data(), 1, n);
    s.wait(urgent);
  });
  std::size_t count = 2;
  cudaGraphNode_t nodes[2] = {};
  ASSERT_EQ(cudaGraphGetNodes(graph.raw_cuda_graph(), nodes, &count), cudaSuccess);
  ASSERT_EQ(count, 2U);
  std::vector<int> priorities;
  for (const cudaGraphNode_t node : nodes) {
    cudaLaunchAttributeValue value = {};
    ASSERT_EQ(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &value), cudaSuccess);
    priorities.push_back(value.priority);
  }
  EXPECT_EQ(priorities, (std::vector<int>{0, greatest}));
  graph.replay();
  EXPECT_EQ(read(x_), std::vector<int>(n, 2));
}

TEST_F(Instantiate, AGraphThatAllocatesAndDoesNotFreeCanBeReplayedAgain) {
  int* allocated = nullptr;
  CUDAGraph graph = capture([&](cudaStream_t s) {
    ASSERT_EQ(cudaMallocAsync(&allocated, n * sizeof(int), s), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(allocated, 0, n * sizeof(int), s), cudaSuccess);
    add_plainly<<<1, n, 0, s>>>(allocated, 1, n);
    add_plainly<<<1, n, 0, s>>>(x_.data(), 1, n);
  });
  for (int i = 0; i < 10; ++i) graph.replay();
  EXPECT_EQ(read(x_), std::vector<int>(n, 10));
}

TEST_F(Instantiate, AnUnfreedAllocationStopsTheSecondReplayWithoutTheFlag) {
  int* allocated = nullptr;
  CUDAGraph graph = capture({.instantiate_flags = InstantiateFlags::none}, [&](cudaStream_t s) {
    ASSERT_EQ(cudaMallocAsync(&allocated, n * sizeof(int), s), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(allocated, 0, n * sizeof(int), s), cudaSuccess);
  });
  graph.replay();
  EXPECT_THROW(graph.replay(), BackendError);
  current_stream().synchronize();
  EXPECT_EQ(cudaFreeAsync(allocated, current_stream().native()), cudaSuccess);
}

}  // namespace
}  // namespace reprise::test
