// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "tests/libtorch/cuda/cuda_tensors_fixture.h"

// Captures that fail, and what is left behind; graphs that are destroyed while they run; memory that runs out.

namespace reprise::libtorch::test {
namespace {

class CudaTensorFailures : public OnCudaDevice {
 protected:
  /// Everything works as if nothing had been.
  void expect_usable(CUDAGraph& graph) {
    EXPECT_EQ(current_stream(device()), device().default_stream());
    EXPECT_FALSE(is_current_stream_capturing());
    const Tensor eager = random({1000});
    EXPECT_EQ(pool_of(eager), MempoolId{}) << "the allocator thinks that a capture is underway";
    Tensor x = zeros({1000}), y;
    capture(graph, [&] { y = x + 1; });
    EXPECT_EQ(pool_of(y), graph.pool());
    graph.replay();
    EXPECT_TRUE(all_are(y, 1));
    torch::cuda::synchronize();
    graph.reset();
  }
};

TEST_F(CudaTensorFailures, OfAValueThatTheHostReadsLeaveEverythingUsable) {
  const Tensor x = random({1000});
  const std::int64_t before = settled_reserved();
  CUDAGraph graph;
  try {
    capture(graph, [&] {
      const Tensor y = torch::cat({x, x}).repeat({1000}) + 1;
      static_cast<void>(y.sum().item<float>());
    });
    ADD_FAILURE() << "nothing was refused";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("captur")) << "the first error is the one that is seen";
  }
  EXPECT_TRUE(falls_to(before));
  expect_usable(graph);
  EXPECT_TRUE(falls_to(before));
}

TEST_F(CudaTensorFailures, OfTheBodyLeaveEverythingUsable) {
  const Tensor x = random({1000});
  const std::int64_t before = settled_reserved();
  CUDAGraph graph;
  EXPECT_EQ(text_of<std::runtime_error>([&] {
              capture(graph, [&] {
                const Tensor y = x.repeat({10000});
                throw std::runtime_error("the body fails");
              });
            }),
            "the body fails");
  EXPECT_TRUE(falls_to(before));
  expect_usable(graph);
}

TEST_F(CudaTensorFailures, OfACaptureOnAStreamThatCapturesAlreadyLeaveBothUsable) {
  Tensor x = zeros({1000});
  CUDAGraph first, second;
  torch::cuda::synchronize();
  {
    const Stream stream(device());
    const StreamGuard guard(stream);
    first.capture_begin();
    x.add_(1);
    EXPECT_THAT(text_of<UsageError>([&] { second.capture_begin(); }),
                ::testing::HasSubstr("takes part in a capture already"));
    x.add_(1);
    first.capture_end();
  }
  first.replay();
  EXPECT_TRUE(all_are(x, 2));
  expect_usable(second);
}

TEST_F(CudaTensorFailures, WithAPoolThatIsSharedLeaveTheOtherGraphAlone) {
  const Tensor x = zeros({1000});
  const MempoolId pool = graph_pool_handle();
  CUDAGraph good, bad;
  Tensor y;
  GraphOptions options;
  options.pool = pool;
  capture(good, options, [&] { y = x + 1; });
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(capture(bad, options,
                         [&] {
                           const Tensor z = x.repeat({10000});
                           throw std::runtime_error("the body fails");
                         }),
                 std::runtime_error);
  good.replay();
  EXPECT_TRUE(all_are(y, 1));
  capture(bad, options, [&] { y = x + 2; });
  bad.replay();
  EXPECT_TRUE(all_are(y, 2));
}

TEST_F(CudaTensorFailures, OfMemoryInACaptureAreOutOfMemory) {
  const Tensor x = random({1000});
  const std::int64_t before = settled_reserved();
  CUDAGraph graph;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(capture(graph, {},
                         [&] {
                           const Tensor y = x + 1;
                           const Tensor huge = torch::empty({std::int64_t{1} << 42}, device_);
                         }),
                 c10::OutOfMemoryError);
    EXPECT_TRUE(falls_to(before));
  }
  expect_usable(graph);
}

TEST_F(CudaTensorFailures, AreNoneWhenAGraphIsDestroyedWhileItRuns) {
  const std::int64_t before = settled_reserved();
  for (int i = 0; i < 5; ++i) {
    const Tensor x = zeros({16 * mib});
    Tensor y;
    {
      CUDAGraph graph;
      capture(graph, [&] {
        y = x;
        for (int k = 0; k < 200; ++k) y = y + 1;
      });
      graph.replay();
    }
    const Tensor other = torch::full({16 * mib}, 9.0, device_);
    EXPECT_TRUE(all_are(y, 200));
    EXPECT_TRUE(all_are(other, 9));
  }
  EXPECT_TRUE(falls_to(before));
}

TEST_F(CudaTensorFailures, AreNoneWithTensorsThatWereRecordedOnAnotherStream) {
  const Tensor x = zeros({16 * mib});
  const std::int64_t before = settled_reserved(), used = allocated();
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  {
    CUDAGraph graph;
    Tensor sum;
    capture(graph, [&] {
      const StreamRef main = current_stream();
      Tensor made = x + 1;
      stream_ref(side).wait(main);
      {
        const c10::cuda::CUDAStreamGuard guard(side);
        sum = made.sum();
      }
      made.record_stream(side);
      main.wait(stream_ref(side));
      made.reset();  // libtorch holds it back until the end of the capture
      sum = sum + x.sum();
    });
    graph.replay();
    EXPECT_EQ(sum.item<float>(), static_cast<float>(16 * mib));
    torch::cuda::synchronize();
  }
  EXPECT_TRUE(falls_to(before));
  EXPECT_EQ(allocated(), used);
}

class CudaTensorsWithoutMemory : public OnCudaDevice {
 protected:
  std::size_t free_bytes() const { return device().memory_info().free; }
};

TEST_F(CudaTensorsWithoutMemory, TakeWhatThisLibraryHasCached) {
  const std::size_t three_quarters = free_bytes() / 4 * 3;
  CachingAllocator& allocator = CachingAllocator::of(device());
  allocator.deallocate(allocator.allocate(three_quarters, device().default_stream()));
  EXPECT_GE(allocator.statistics().reserved_bytes, three_quarters);
  const Tensor large =
      torch::empty({static_cast<std::int64_t>(three_quarters)}, torch::dtype(torch::kInt8).device(device_));
  EXPECT_LT(allocator.statistics().reserved_bytes, three_quarters);
}

TEST_F(CudaTensorsWithoutMemory, GiveWhatLibtorchHasCached) {
  const std::size_t three_quarters = free_bytes() / 4 * 3;
  {
    const Tensor large =
        torch::empty({static_cast<std::int64_t>(three_quarters)}, torch::dtype(torch::kInt8).device(device_));
  }
  EXPECT_GE(static_cast<std::size_t>(reserved()), three_quarters);
  CachingAllocator& allocator = CachingAllocator::of(device());
  void* const block = allocator.allocate(three_quarters, device().default_stream());
  EXPECT_NE(block, nullptr);
  EXPECT_LT(static_cast<std::size_t>(reserved()), three_quarters);
  allocator.deallocate(block);
}

TEST_F(CudaTensorsWithoutMemory, BeginACaptureWithNothingCached) {
  const auto half = static_cast<std::int64_t>(free_bytes() / 2);
  const auto bytes = torch::dtype(torch::kInt8).device(device_);
  { const Tensor large = torch::empty({half / 2 * 3}, bytes); }
  Tensor x = zeros({10}), in_graph;
  CUDAGraph graph;
  capture(graph, [&] {
    x += 1;
    in_graph = torch::zeros({half}, bytes);  // more than is left beside what was cached
  });
  EXPECT_EQ(pool_of(in_graph), graph.pool());
}

}  // namespace
}  // namespace reprise::libtorch::test
