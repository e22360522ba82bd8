// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/CachingHostAllocator.h>

#include <optional>
#include <set>
#include <vector>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Pools of libtorch's allocator, shared and not, with graphs of this library and of libtorch.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

class CudaTensorPools : public OnCudaDevice {
 protected:
  /// Captures y = (x + 1) * 2 - 1, with 64 MiB for each step but the last one's result.
  Tensor capture_steps(CUDAGraph& graph, MempoolId pool = {}) {
    Tensor y;
    GraphOptions options;
    options.pool = pool;
    capture(graph, options, [&] { y = ((x_ + 1) * 2 - 1).sum(0); });
    return y;
  }
  /// The same by libtorch's own graph.
  Tensor capture_steps(at::cuda::CUDAGraph& graph, version::PoolId pool) {
    Tensor y;
    torch::cuda::synchronize();
    const StreamGuard guard(side_->ref());
    graph.capture_begin(pool);
    y = ((x_ + 1) * 2 - 1).sum(0);
    graph.capture_end();
    return y;
  }
  void expect_result(const Tensor& y, double x) { EXPECT_TRUE(all_are(y, 16 * ((x + 1) * 2 - 1))); }
  /// How much more libtorch's allocator has reserved since `before`.
  std::int64_t grown(std::int64_t before) const { return settled_reserved() - before; }

  void SetUp() override {
    OnCudaDevice::SetUp();
    side_.emplace(device());
    x_ = zeros({16, mib});
  }
  void TearDown() override {
    x_.reset();
    side_.reset();
    OnCudaDevice::TearDown();
  }

  Tensor x_;
  std::optional<Stream> side_;
};

TEST_F(CudaTensorPools, AreOnePerGraphUnlessTheyAreShared) {
  const std::int64_t before = settled_reserved();
  CUDAGraph a, b;
  const Tensor of_a = capture_steps(a);
  const std::int64_t one = grown(before);
  const Tensor of_b = capture_steps(b);
  EXPECT_EQ(pool_of(of_a), a.pool());
  EXPECT_EQ(pool_of(of_b), b.pool());
  EXPECT_NE(a.pool(), b.pool());
  EXPECT_GE(one, 128 * mib);
  EXPECT_EQ(grown(before), 2 * one);
}

TEST_F(CudaTensorPools, AreInTheMemoryOfTheirGraph) {
  const std::uint64_t before = graph_memory(device()).tensor_reserved_bytes;
  CUDAGraph a, b;
  EXPECT_EQ(graph_memory(device()).tensor_reserved_bytes, before);
  const std::int64_t reserved = settled_reserved();
  const Tensor of_a = capture_steps(a);
  const std::int64_t one = grown(reserved);
  const Tensor of_b = capture_steps(b);
  const GraphMemory memory = a.memory();
  EXPECT_EQ(memory.tensor_reserved_bytes, static_cast<std::uint64_t>(one));
  EXPECT_GE(memory.tensor_allocated_bytes, of_a.storage().nbytes());
  EXPECT_LE(memory.tensor_allocated_bytes, of_a.storage().nbytes() + 2 * mib);  // of a block that is not split
  EXPECT_EQ(graph_memory(device()).tensor_reserved_bytes, before + 2 * static_cast<std::uint64_t>(one));
}

TEST_F(CudaTensorPools, OfAnotherGraphAreSharedByItsId) {
  const std::int64_t before = settled_reserved();
  CUDAGraph a, b;
  const Tensor of_a = capture_steps(a);
  const std::int64_t one = grown(before);
  const Tensor of_b = capture_steps(b, a.pool());
  EXPECT_EQ(pool_of(of_b), a.pool());
  EXPECT_LE(grown(before), one + 22 * mib) << "the second one has memory of its own for its result alone";
  for (int i = 0; i < 3; ++i) {
    x_.fill_(i);
    a.replay();
    expect_result(of_a, i);
    b.replay();
    expect_result(of_b, i);
  }
}

TEST_F(CudaTensorPools, AreSharedByHandlesOfBothLibraries) {
  for (const MempoolId pool : {graph_pool_handle(), ours(at::cuda::graph_pool_handle())}) {
    const std::int64_t before = settled_reserved();
    CUDAGraph a, b;
    const Tensor of_a = capture_steps(a, pool);
    const std::int64_t one = grown(before);
    const Tensor of_b = capture_steps(b, pool);
    EXPECT_EQ(pool_of(of_a), pool);
    EXPECT_EQ(pool_of(of_b), pool);
    EXPECT_LE(grown(before), one + 22 * mib);
    a.replay();
    b.replay();
    expect_result(of_b, 0);
  }
}

TEST_F(CudaTensorPools, OfLibtorchsGraphsAreShared) {
  at::cuda::CUDAGraph a;
  const std::int64_t before = settled_reserved();
  const Tensor of_a = capture_steps(a, {0, 0});
  const std::int64_t one = grown(before);
  CUDAGraph b;
  {
    const StreamGuard same_stream(side_->ref());
    GraphOptions options;
    options.pool = ours(a.pool());
    options.stream = side_->ref();
    Tensor of_b;
    capture(b, options, [&] { of_b = ((x_ + 1) * 2 - 1).sum(0); });
    EXPECT_EQ(pool_of(of_b), ours(a.pool()));
    EXPECT_LE(grown(before), one + 22 * mib);
    a.replay();
    b.replay();
    torch::cuda::synchronize();
    expect_result(of_a, 0);
    expect_result(of_b, 0);
  }
  a.reset();
  x_.fill_(3);
  torch::cuda::synchronize();
  b.replay();
  torch::cuda::synchronize();
}

TEST_F(CudaTensorPools, AreSharedWithLibtorchsGraphsThatComeLater) {
  CUDAGraph a;
  const Tensor of_a = capture_steps(a);
  at::cuda::CUDAGraph b;
  const Tensor of_b = capture_steps(b, theirs(a.pool()));
  EXPECT_EQ(pool_of(of_b), a.pool());
  a.reset();  // the other one holds the pool
  settle();
  x_.fill_(2);
  torch::cuda::synchronize();
  const StreamGuard guard(side_->ref());
  b.replay();
  torch::cuda::synchronize();
  expect_result(of_b, 2);
}

TEST_F(CudaTensorPools, HaveIdsOfOneSpace) {
  std::set<version::PoolId> ids;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(ids.insert(theirs(graph_pool_handle())).second);
    EXPECT_TRUE(ids.insert(at::cuda::graph_pool_handle()).second);
    CUDAGraph ours_graph;
    capture_steps(ours_graph);
    EXPECT_TRUE(ids.insert(theirs(ours_graph.pool())).second);
    at::cuda::CUDAGraph theirs_graph;
    capture_steps(theirs_graph, {0, 0});
    EXPECT_TRUE(ids.insert(theirs_graph.pool()).second);
  }
}

TEST_F(CudaTensorPools, AreReleasedByResetAndByTheEndOfAGraph) {
  const std::int64_t before = settled_reserved(), used = allocated();
  {
    CUDAGraph a, b;
    capture_steps(a);
    capture_steps(b);
    a.replay();
    b.replay();
    EXPECT_GT(grown(before), 0);
    torch::cuda::synchronize();
    a.reset();
    torch::cuda::synchronize();
  }
  EXPECT_TRUE(falls_to(before));
  EXPECT_EQ(allocated(), used);
}

TEST_F(CudaTensorPools, StayWhileTensorsOfTheirsLive) {
  const std::int64_t before = settled_reserved();
  CUDAGraph graph;
  Tensor y = capture_steps(graph);
  graph.replay();
  torch::cuda::synchronize();
  graph.reset();
  EXPECT_GT(grown(before), 0);
  expect_result(y, 0);
  y.reset();
  EXPECT_TRUE(falls_to(before));
}

TEST_F(CudaTensorPools, AreRefusedWhileAnotherCaptureFillsThem) {
  const MempoolId pool = graph_pool_handle();
  at::cuda::CUDAGraph other;
  Tensor y;
  torch::cuda::synchronize();
  {
    const StreamGuard guard(side_->ref());
    other.capture_begin(theirs(pool), cudaStreamCaptureModeRelaxed);
    y = x_ + 1;
    const Stream second(device());
    const StreamGuard in_second(second);
    CUDAGraph graph;
    EXPECT_THAT(text_of<UsageError>([&] { graph.capture_begin(pool, CaptureMode::relaxed); }),
                HasSubstr("which another capture is filling with tensors now"));
    // Another pool is no matter.
    graph.capture_begin({}, CaptureMode::relaxed);
    const Tensor z = x_ + 2;
    graph.capture_end();
    EXPECT_EQ(pool_of(z), graph.pool());
  }
  {
    const StreamGuard guard(side_->ref());
    other.capture_end();
    other.replay();
    torch::cuda::synchronize();
  }
  EXPECT_TRUE(all_are(y, 1));
  CUDAGraph graph;
  const Tensor again = capture_steps(graph, pool);
  EXPECT_EQ(pool_of(again), pool);
}

TEST_F(CudaTensorPools, AreUsedAgainOnceTheirGraphsAreGone) {
  const MempoolId pool = graph_pool_handle();
  CUDAGraph graph;
  for (int i = 0; i < 3; ++i) {
    const Tensor y = capture_steps(graph, pool);
    graph.replay();
    expect_result(y, 0);
    torch::cuda::synchronize();
    graph.reset();
  }
}

TEST_F(CudaTensorPools, AreFilledAgainWhileTensorsLiveInThemWithoutAGraph) {
  const std::int64_t before = settled_reserved();
  const MempoolId pool = graph_pool_handle();
  CUDAGraph graph;
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    results.push_back(capture_steps(graph, pool));
    EXPECT_EQ(graph.pool(), pool);
    x_.fill_(i);
    graph.replay();
    torch::cuda::synchronize();
    // A second graph shares the memory, also under a pool of libtorch's that has the place of the first.
    CUDAGraph other;
    const Tensor y = capture_steps(other, pool);
    EXPECT_EQ(pool_of(y), pool_of(results.back()));
    torch::cuda::synchronize();
    other.reset();
    graph.reset();
  }
  for (int i = 0; i < 3; ++i) expect_result(results[static_cast<std::size_t>(i)], i);
  results.clear();
  EXPECT_TRUE(falls_to(before));
}

TEST_F(CudaTensorPools, ThatHaveThePlaceOfOthersAreInTheMemoryOfTheirGraphAndNoInputs) {
  const MempoolId pool = graph_pool_handle();
  CUDAGraph graph;
  const Tensor first = capture_steps(graph, pool);
  torch::cuda::synchronize();
  graph.reset();
  GraphOptions options;
  options.pool = pool;
  options.check_input_liveness = true;
  Tensor y;
  capture(graph, options, [&] { y = x_ + 1; });
  ASSERT_EQ(graph.inputs().size(), 1U);
  EXPECT_EQ(graph.inputs()[0].address, x_.data_ptr());
  EXPECT_GE(graph.memory().tensor_allocated_bytes, y.nbytes());
  EXPECT_GE(graph.memory().tensor_reserved_bytes, graph.memory().tensor_allocated_bytes);
}

TEST_F(CudaTensorPools, DoNotGrowWithAHundredCapturesOfAMatrixProduct) {
  const Tensor a = random({256, 256});
  const Tensor eager = torch::mm(a, a);
  CUDAGraph graph;
  std::int64_t first = 0;
  for (int i = 0; i < 100; ++i) {
    Tensor y;
    capture(graph, [&] { y = torch::mm(a, a); });
    graph.replay();
    EXPECT_TRUE(i % 10 != 0 || same(y, eager));
    torch::cuda::synchronize();
    graph.reset();
    y.reset();
    if (i == 1) first = settled_reserved();
  }
  EXPECT_TRUE(falls_to(first));
}

TEST_F(CudaTensorPools, PinnedMemoryThatLibtorchCachesIsReleasedBeforeACapture) {
  at::HostAllocator* const pinned = at::getHostAllocator(at::kCUDA);
  pinned->empty_cache();
  const auto before = pinned->get_stats().allocated_bytes.current;
  torch::empty({1 << 20}, torch::TensorOptions().pinned_memory(true));
  EXPECT_GT(pinned->get_stats().allocated_bytes.current, before) << "it is cached";
  CUDAGraph graph = capture([&] { x_.add_(1); });
  EXPECT_EQ(pinned->get_stats().allocated_bytes.current, before);
}

}  // namespace
}  // namespace reprise::libtorch::test
