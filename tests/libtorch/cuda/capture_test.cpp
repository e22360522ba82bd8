// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Captures of CUDA tensors, and their replays.

namespace reprise::libtorch::test {
namespace {

// Without the fixture: nothing of the component was used before, if this test runs first.
class FirstCapture : public ::testing::Test {};

TEST_F(FirstCapture, TakesTensorsOfAProgramThatIncludesAHeaderOfTheComponent) {
  CUDAGraph early;
  const MempoolId early_id = graph_pool_handle();
  const Stream stream(Device::parse("cuda:0"));
  const StreamGuard guard(stream);
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(0).stream(), stream.native()) << "a guard's stream is libtorch's";
  EXPECT_NE(at::cuda::graph_pool_handle(), theirs(early_id));
  Tensor x = torch::zeros({4}, torch::kCUDA), y;
  torch::cuda::synchronize();
  early.capture_begin();
  y = x + 1;
  early.capture_end();
  x.fill_(5);
  early.replay();
  EXPECT_TRUE(all_are(y, 6));
}

class CudaTensorCapture : public OnCudaDevice {};

TEST_F(CudaTensorCapture, TenIncrementsAreReplayed) {
  Tensor x = zeros({1000});
  CUDAGraph graph;
  capture(graph, [&] {
    for (int i = 0; i < 10; ++i) x += 1;
  });
  EXPECT_EQ(graph.node_count(), 10u);
  for (int i = 0; i < 3; ++i) graph.replay();
  EXPECT_TRUE(all_are(x, 30));
}

TEST_F(CudaTensorCapture, ExecutesNothing) {
  Tensor x = zeros({1000});
  CUDAGraph graph;
  capture(graph, [&] { x += 1; });
  EXPECT_TRUE(all_are(x, 0));
}

TEST_F(CudaTensorCapture, PutsNewTensorsIntoTheGraphsPool) {
  Tensor x = zeros({1000}), y;
  CUDAGraph graph;
  {
    class graph scope(graph);
    y = x * 2 + 1;
    EXPECT_EQ(scope.stream(), current_stream());
    EXPECT_EQ(c10::cuda::getCurrentCUDAStream().stream(), scope.stream().native());
  }
  EXPECT_EQ(pool_of(y), graph.pool());
  EXPECT_EQ(pool_of(x), MempoolId{});
  x.fill_(3);
  graph.replay();
  EXPECT_TRUE(all_are(y, 7));
}

TEST_F(CudaTensorCapture, TakesTensorsBetweenBeginAndEnd) {
  Tensor x = zeros({1000}), y;
  CUDAGraph graph;
  {
    const Stream stream(device());
    const StreamGuard guard(stream);
    graph.capture_begin();
    y = x + 1;
    graph.capture_end();
  }
  EXPECT_EQ(graph.node_count(), 1U);
  EXPECT_EQ(pool_of(y), graph.pool());
  graph.replay();
  EXPECT_TRUE(all_are(y, 1));
}

TEST_F(CudaTensorCapture, WorksOnAStreamOfLibtorch) {
  Tensor x = zeros({1000}), y;
  torch::cuda::synchronize();
  CUDAGraph graph;
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    graph.capture_begin();
    y = x + 1;
    graph.capture_end();
    graph.replay();
    c10::cuda::getCurrentCUDAStream().synchronize();
  }
  EXPECT_EQ(pool_of(y), graph.pool());
  EXPECT_TRUE(all_are(y, 1));
}

TEST_F(CudaTensorCapture, ComesAgainAfterReset) {
  CUDAGraph graph;
  for (const double added : {1.0, 2.0, 3.0}) {
    Tensor x = zeros({1000}), y;
    capture(graph, [&] { y = x + added; });
    graph.replay();
    EXPECT_TRUE(all_are(y, added));
    torch::cuda::synchronize();
    graph.reset();
  }
}

TEST_F(CudaTensorCapture, LeavesResultsThatStayValidWhenTheGraphIsGone) {
  Tensor x = zeros({1000}), y;
  {
    CUDAGraph graph;
    capture(graph, [&] { y = x + 4; });
    graph.replay();
  }
  settle();
  const Tensor other = torch::full({1 << 20}, 9.0, device_);
  EXPECT_TRUE(all_are(y, 4));
  EXPECT_TRUE(all_are(other, 9));
}

TEST_F(CudaTensorCapture, GivesEagerWorkBetweenReplaysItsOwnMemory) {
  Tensor x = zeros({1000}), y;
  CUDAGraph graph;
  capture(graph, [&] {
    const Tensor a = x + 1, b = a * 2;
    y = b - a;
  });
  for (int i = 0; i < 5; ++i) {
    x.fill_(i);
    graph.replay();
    const Tensor eager = (x + 1) * 2 - (x + 1);
    EXPECT_EQ(pool_of(eager), MempoolId{});
    EXPECT_TRUE(same(y, eager));
  }
}

TEST_F(CudaTensorCapture, TakesWorkOfStreamsThatJoin) {
  Tensor x = zeros({1000}), on_side, y;
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  CUDAGraph graph;
  capture(graph, [&] {
    const StreamRef main = current_stream();
    stream_ref(side).wait(main);
    {
      const c10::cuda::CUDAStreamGuard guard(side);
      on_side = x + 1;
    }
    main.wait(stream_ref(side));
    y = on_side * 2;
  });
  EXPECT_EQ(pool_of(on_side), graph.pool()) << "found by the capture's id";
  x.fill_(2);
  torch::cuda::synchronize();
  graph.replay();
  EXPECT_TRUE(all_are(y, 6));
}

TEST_F(CudaTensorCapture, TakesTensorsThatAutogradMakesOnItsThread) {
  const Tensor w = random({64, 64}).requires_grad_(), x = random({8, 64});
  const auto step = [&] { return torch::autograd::grad({torch::mm(x, w).tanh().sum()}, {w})[0]; };
  const Tensor eager = step();
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    step();
  }
  Tensor gradient;
  CUDAGraph graph;
  capture(graph, [&] { gradient = step(); });
  EXPECT_EQ(pool_of(gradient), graph.pool());
  graph.replay();
  EXPECT_TRUE(same(gradient, eager));
}

TEST_F(CudaTensorCapture, ReadsPinnedMemoryAtEachReplay) {
  const Tensor source = torch::ones({1000}).pin_memory();
  Tensor x = zeros({1000});
  CUDAGraph graph;
  capture(graph, [&] { x.copy_(source, /*non_blocking=*/true); });
  graph.replay();
  EXPECT_TRUE(all_are(x, 1));
  source.fill_(5);
  graph.replay();
  EXPECT_TRUE(all_are(x, 5));
}

TEST_F(CudaTensorCapture, KeepsPinnedMemoryThatWasMadeInIt) {
  Tensor x = zeros({1000});
  CUDAGraph graph;
  capture(graph, [&] {
    const Tensor source = torch::empty({1000}, torch::TensorOptions().pinned_memory(true));
    source.fill_(3);
    x.copy_(source, /*non_blocking=*/true);
  });
  const Tensor other = torch::full({1000}, 8.0, torch::TensorOptions().pinned_memory(true));
  graph.replay();
  EXPECT_TRUE(all_are(x, 3));
  EXPECT_TRUE(all_are(other, 8));
}

// Other threads' tensors: allocating requests memory of the driver, which the mode `global` forbids to raw callers.
class OtherThreads : public OnCudaDevice, public ::testing::WithParamInterface<CaptureMode> {};

TEST_P(OtherThreads, MakeTensorsOfTheirOwnDuringACapture) {
  Tensor x = zeros({1000}), y, other;
  GraphOptions options;
  options.capture_error_mode = GetParam();
  CUDAGraph graph;
  capture(graph, options, [&] {
    std::thread([&] {
      const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
      other = torch::full({8 << 20}, 2.0, device_) * 2;
      c10::cuda::getCurrentCUDAStream().synchronize();
    }).join();
    y = x + 1;
  });
  EXPECT_EQ(pool_of(other), MempoolId{});
  EXPECT_EQ(pool_of(y), graph.pool());
  EXPECT_TRUE(all_are(other, 4));
  graph.replay();
  EXPECT_TRUE(all_are(y, 1));
}
INSTANTIATE_TEST_SUITE_P(InModes, OtherThreads, ::testing::Values(CaptureMode::thread, CaptureMode::relaxed));

}  // namespace
}  // namespace reprise::libtorch::test
