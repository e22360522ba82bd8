// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Streams and devices: what is current is the same for both libraries.

namespace reprise::libtorch::test {
namespace {

class CudaTensorStreams : public OnCudaDevice {};

TEST_F(CudaTensorStreams, AGuardOfOneLibraryIsSeenByTheOther) {
  EXPECT_EQ(current_stream(device()), device().default_stream());
  const Stream mine(device());
  {
    const StreamGuard guard(mine);
    EXPECT_EQ(c10::cuda::getCurrentCUDAStream().stream(), mine.native());
    const c10::cuda::CUDAStream inner = c10::cuda::getStreamFromPool();
    {
      const c10::cuda::CUDAStreamGuard in(inner);
      EXPECT_EQ(current_stream(), stream_ref(inner));
      EXPECT_EQ(current_stream(device()).native(), inner.stream());
    }
    EXPECT_EQ(current_stream(), mine.ref());
  }
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), c10::cuda::getDefaultCUDAStream());
}

TEST_F(CudaTensorStreams, AStreamOfLibtorchsPoolIsPutBackAsItWas) {
  const c10::cuda::CUDAStream pooled = c10::cuda::getStreamFromPool(/*isHighPriority=*/true);
  const Stream mine(device());
  const c10::cuda::CUDAStreamGuard outer(pooled);
  {
    const StreamGuard guard(mine);
    EXPECT_NE(c10::cuda::getCurrentCUDAStream(), pooled);
  }
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), pooled);
  EXPECT_EQ(c10_stream(current_stream()), pooled.unwrap());
  CUDAGraph graph;
  Tensor x = zeros({10});
  torch::cuda::synchronize();
  capture(graph, [&] { x += 1; });
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), pooled);
}

TEST_F(CudaTensorStreams, HaveNamesInBothLibraries) {
  for (const c10::Stream stream : {c10::cuda::getStreamFromPool().unwrap(), c10::cuda::getDefaultCUDAStream().unwrap(),
                                   c10::cuda::getStreamFromPool(true).unwrap()})
    EXPECT_EQ(c10_stream(stream_ref(stream)), stream);
  const Stream mine(device());
  EXPECT_EQ(stream_ref(c10_stream(mine)), mine.ref());
  EXPECT_THAT(text_of<UsageError>([] { stream_ref(c10::Stream(c10::Stream::DEFAULT, torch::kCPU)); }),
              ::testing::HasSubstr("one of cpu"));
}

TEST_F(CudaTensorStreams, AreEachThreadsOwn) {
  const Stream mine(device());
  const StreamGuard guard(mine);
  std::thread([&] {
    EXPECT_EQ(current_stream(device()), device().default_stream());
    const c10::cuda::CUDAStream pooled = c10::cuda::getStreamFromPool();
    c10::cuda::setCurrentCUDAStream(pooled);
    EXPECT_EQ(current_stream(device()), stream_ref(pooled));
  }).join();
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream().stream(), mine.native());
}

TEST_F(CudaTensorStreams, AreOfLibtorchsCurrentDeviceOutsideOfGuards) {
  EXPECT_EQ(current_device(), device());
  EXPECT_EQ(current_stream().device(), device());
}

TEST_F(CudaTensorStreams, AreOfADeviceThatIsCurrentForBothLibraries) {
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "there is one CUDA device here";
  const Device second = Device::parse("cuda:1");
  {
    const DeviceGuard guard(second);
    EXPECT_EQ(c10::cuda::current_device(), 1);
    const c10::cuda::CUDAGuard inner(0);
    EXPECT_EQ(current_device(), device());
  }
  EXPECT_EQ(c10::cuda::current_device(), 0);
  const c10::cuda::CUDAGuard guard(1);
  EXPECT_EQ(current_device(), second);
  Tensor x = torch::zeros({10}, torch::Device(torch::kCUDA, 1)), y;
  CUDAGraph graph;
  capture(graph, [&] { y = x + 1; });
  EXPECT_EQ(graph.device(), second);
  graph.replay();
  EXPECT_TRUE(all_are(y, 1));
}

}  // namespace
}  // namespace reprise::libtorch::test
