// SPDX-License-Identifier: Apache-2.0
#include <cuda/stream_ref>
#include <vector>

#include "tests/cuda_libraries/cuda_test.h"
#include "tests/cuda_libraries/kernels.cuh"

// Kernels of CUDA C++, launched with <<<>>> on a stream of this library.

namespace reprise::test {
namespace {

constexpr unsigned thousand = 1000;

struct Double {
  REPRISE_KERNEL void operator()(Thread t, int* x, unsigned count) const {
    if (t.global_x() < count) x[t.global_x()] *= 2;
  }
};

void add(Buffer<int>& x, int amount, const StreamRef& stream = current_stream()) {
  add_plainly<<<4, 256, 0, stream.native()>>>(x.data(), amount, thousand);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

class PlainLaunch : public CudaTest {
 protected:
  Buffer<int> zeros() const {
    Buffer<int> x(thousand);
    x.fill_bytes_async(0);
    return x;
  }
};

TEST_F(PlainLaunch, RunsOnTheNativeStream) {
  Buffer<int> x = zeros();
  add(x, 3);
  EXPECT_EQ(read(x), std::vector<int>(thousand, 3));
}

TEST_F(PlainLaunch, BecomesANodeInACaptureAndRunsInEachReplay) {
  Buffer<int> x = zeros();
  CUDAGraph graph;
  capture(graph, [&] {
    add(x, 1);
    add(x, 10);
  });
  EXPECT_EQ(graph.node_count(), 2u);
  EXPECT_EQ(read(x), std::vector<int>(thousand, 0));
  for (int i = 1; i <= 5; ++i) {
    graph.replay();
    EXPECT_EQ(read(x), std::vector<int>(thousand, 11 * i));
  }
}

TEST_F(PlainLaunch, OnAStreamOfTheRuntimeIsCapturedAndReplayedThere) {
  Buffer<int> x = zeros();
  stream().synchronize();
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
  CUDAGraph graph = capture(own, [&](cudaStream_t s) { add_plainly<<<4, 256, 0, s>>>(x.data(), 1, thousand); });
  graph.replay(own);
  graph.replay(own);
  EXPECT_EQ(x.read(own), std::vector<int>(thousand, 2));
  graph.reset();
  EXPECT_EQ(cudaStreamDestroy(own), cudaSuccess);
}

TEST_F(PlainLaunch, TakesAndGivesStreamsOfCccl) {
  Buffer<int> x = zeros();
  const cuda::stream_ref view = stream().ref();
  const StreamRef back = view;
  EXPECT_EQ(back, stream().ref());
  CUDAGraph graph = capture(view, [&](StreamRef s) { add(x, 1, s); });
  graph.replay(view);
  EXPECT_EQ(read(x), std::vector<int>(thousand, 1));
}

TEST_F(PlainLaunch, KeepsItsPlaceAmongKernelsThatAreWrittenOnce) {
  Buffer<int> x = zeros();
  CUDAGraph graph;
  capture(graph, [&] {
    add(x, 1);
    launch(thousand, Double{}, x.data(), thousand);
    add(x, 1);
    launch(thousand, Double{}, x.data(), thousand);
  });
  EXPECT_EQ(graph.node_count(), 4u);
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(thousand, 6));
}

TEST_F(PlainLaunch, OnAForkedStreamIsCapturedToo) {
  Buffer<int> x = zeros(), y = zeros();
  const Stream side(device());
  CUDAGraph graph;
  capture(graph, [&] {
    side.wait(current_stream());
    add(x, 1);
    add(y, 2, side);
    current_stream().wait(side);
    add(y, 5);
  });
  EXPECT_EQ(graph.node_count(), 3u);
  graph.replay();
  graph.replay();
  EXPECT_EQ(read(x), std::vector<int>(thousand, 2));
  EXPECT_EQ(read(y), std::vector<int>(thousand, 14));
}

TEST_F(PlainLaunch, OnMemoryOfTheGraphIsReplayedOnIt) {
  Buffer<int> y = zeros();
  CUDAGraph graph;
  capture(graph, [&] {
    Buffer<int> scratch(thousand);
    scratch.fill_bytes_async(0);
    add(scratch, 7);
    copy_async(y.data(), scratch.data(), y.size_bytes());
  });
  Buffer<int> others(thousand);
  others.fill_bytes_async(0xff);
  graph.replay();
  EXPECT_EQ(read(y), std::vector<int>(thousand, 7));
}

}  // namespace
}  // namespace reprise::test
