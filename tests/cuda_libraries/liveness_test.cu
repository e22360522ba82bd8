// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>

#include "backend/backend.h"
#include "backend/check.h"
#include "tests/cuda_libraries/cuda_test.h"
#include "tests/cuda_libraries/kernels.cuh"
#include "tests/cuda_libraries/launch_packed.h"

// Input liveness of graphs whose kernels this library knows nothing of, and of memory that it did not allocate.

namespace reprise::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <class T>
__global__ void scale(T* x, T factor, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] *= factor;
}

struct SumArguments {
  char flag;
  float* x;
  float* y;
};

__global__ void add(const SumArguments arguments) {
  arguments.y[threadIdx.x] += arguments.x[threadIdx.x];
}

class LivenessOnCuda : public CudaTest {
 protected:
  static GraphOptions checked(Liveness liveness = Liveness::allocator) {
    GraphOptions options;
    options.check_input_liveness = true;
    options.inputs.scope = liveness;
    return options;
  }
  static Buffer<float> zeros() {
    Buffer<float> x(n);
    x.fill_bytes_async(0);
    current_stream().synchronize();
    return x;
  }
  static void launch_scale(float* x) {
    scale<float><<<1, n, 0, current_stream().native()>>>(x, 2.0f, n);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  DeadInputError refusal() {
    try {
      graph_.replay();
    } catch (const DeadInputError& error) {
      return error;
    }
    ADD_FAILURE() << "the replay was not refused";
    return DeadInputError("", {});
  }
  std::set<const void*> inputs() const {
    std::set<const void*> found;
    for (const GraphInput& input : graph_.inputs()) found.insert(input.address);
    return found;
  }

  CUDAGraph graph_;
};

TEST_F(LivenessOnCuda, RefusesToReplayAPlainLaunchWhoseMemoryWasFreed) {
  record_allocation_stacks(true);
  Buffer<float> x = zeros(), y = zeros();
  capture(graph_, checked(), [&] {
    launch_scale(y.data());
    launch_scale(x.data());
    copy_async(y.data(), x.data(), sizeof(float));
  });
  graph_.replay();
  current_stream().synchronize();
  const void* const address = x.data();
  x.reset();
  record_allocation_stacks(false);
  const DeadInputError error = refusal();
  std::printf("%s", error.what());
  ASSERT_THAT(error.inputs(), SizeIs(1));
  EXPECT_EQ(error.inputs()[0].address, address);
  EXPECT_THAT(error.inputs()[0].nodes,
              ElementsAre(AllOf(HasSubstr("kernel "), HasSubstr("scale<float> (node 1)")), "memcpy source (node 2)"));
  EXPECT_THAT(error.what(), HasSubstr("1 of the 2 inputs of the graph is dead"));
}

TEST_F(LivenessOnCuda, FindsPointersInAStructThatIsPassedByValue) {
  const Buffer<float> x = zeros(), y = zeros();
  capture(graph_, checked(), [&] {
    add<<<1, n, 0, current_stream().native()>>>({1, x.data() + 8, y.data()});
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
  EXPECT_EQ(inputs(), (std::set<const void*>{x.data(), y.data()}));
}

void launch_packed_scale(float* x, float factor, unsigned count) {
  struct {
    float* x;
    float factor;
    unsigned count;
  } block{x, factor, count};
  launch_packed(reinterpret_cast<const void*>(&scale<float>), n, &block, sizeof block);
}

TEST_F(LivenessOnCuda, RefusesToReplayALaunchWithPackedArgumentsWhoseMemoryWasFreed) {
  Buffer<float> x = zeros(), y = zeros();
  capture(graph_, checked(), [&] {
    launch_packed_scale(y.data(), 2, n);
    launch_packed_scale(x.data() + 8, 2, n - 8);
  });
  EXPECT_EQ(inputs(), (std::set<const void*>{x.data(), y.data()}));
  EXPECT_FALSE(graph_.capture_report().has_value()) << graph_.capture_report()->str();
  graph_.replay();
  current_stream().synchronize();
  const void* const address = x.data();
  x.reset();
  const DeadInputError error = refusal();
  ASSERT_THAT(error.inputs(), SizeIs(1));
  EXPECT_EQ(error.inputs()[0].address, address);
  EXPECT_THAT(error.inputs()[0].nodes, ElementsAre(AllOf(HasSubstr("scale<float>"), HasSubstr("(node 1)"))));
}

TEST_F(LivenessOnCuda, ABatchUsesItsAddressesAndNotItsPatterns) {
  Buffer<std::uintptr_t> x(n), look_alike(n);
  capture(graph_, checked(), [&] {
    fill_batch_async(std::array{make_fill(x.data(), reinterpret_cast<std::uintptr_t>(look_alike.data()), n)});
  });
  EXPECT_EQ(inputs(), std::set<const void*>{x.data()});
}

TEST_F(LivenessOnCuda, MemoryOfCudaMallocCountsWithAll) {
  float* x = nullptr;
  ASSERT_EQ(cudaMalloc(&x, n * sizeof(float)), cudaSuccess);
  capture(graph_, checked(Liveness::all), [&] { launch_scale(x); });
  EXPECT_EQ(inputs(), std::set<const void*>{x});
  graph_.replay();
  current_stream().synchronize();
  ASSERT_EQ(cudaFree(x), cudaSuccess);
  EXPECT_THAT(refusal().inputs(), SizeIs(1));
  float* other = nullptr;
  ASSERT_EQ(cudaMalloc(&other, n * sizeof(float)), cudaSuccess);
  const std::vector<DeadInput> dead = refusal().inputs();
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].given_out_again, other == x);
  EXPECT_EQ(cudaFree(other), cudaSuccess);
}

TEST_F(LivenessOnCuda, ManagedAndPinnedMemoryCountWithAll) {
  float *managed = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMallocManaged(&managed, n * sizeof(float)), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, n * sizeof(float)), cudaSuccess);
  const Buffer<float> y = zeros();
  capture(graph_, checked(Liveness::all), [&] {
    launch_scale(managed);
    copy_async(y.data(), pinned, 4);
  });
  EXPECT_EQ(inputs(), (std::set<const void*>{managed, pinned, y.data()}));
  graph_.replay();
  current_stream().synchronize();
  ASSERT_EQ(cudaFree(managed), cudaSuccess);
  EXPECT_THAT(refusal().inputs(), SizeIs(1));
  ASSERT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_THAT(refusal().inputs(), SizeIs(2));
}

TEST_F(LivenessOnCuda, ACopyOfALocalOfTheBodyIsRefused) {
  const Buffer<float> x = zeros();
  float alive = 3;
  const auto copy = [&](const float* from) {
    EXPECT_EQ(cudaMemcpyAsync(x.data(), from, sizeof *from, cudaMemcpyHostToDevice, current_stream().native()),
              cudaSuccess);
  };
  const std::string text = text_of<UsageError>([&] {
    capture(graph_, [&] {
      const float local = 2;
      copy(&alive);
      copy(&local);
    });
  });
  EXPECT_THAT(text, HasSubstr("memcpy source (node 1) reads 4 bytes"));
  GraphOptions options;
  options.report = ReportDetail::full;
  capture(graph_, options, [&] { copy(&alive); });
  graph_.replay();
  EXPECT_EQ(read(x).front(), 3);
  ASSERT_TRUE(graph_.capture_report().has_value());
  ASSERT_THAT(graph_.capture_report()->host_accesses, SizeIs(1));
  EXPECT_EQ(graph_.capture_report()->host_accesses[0].address, &alive);
  EXPECT_FALSE(graph_.capture_report()->host_accesses[0].writes);
}

TEST_F(LivenessOnCuda, ACopyOfRowsOfALocalOfTheBodyIsRefused) {
  const Buffer<float> x = zeros();
  const std::string rows = text_of<UsageError>([&] {
    capture(graph_, [&] {
      const float local[8] = {};
      EXPECT_EQ(cudaMemcpy2DAsync(x.data(), 16, local, 16, 8, 2, cudaMemcpyHostToDevice, current_stream().native()),
                cudaSuccess);
    });
  });
  EXPECT_THAT(rows, HasSubstr("memcpy source (node 0) reads 24 bytes"));
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  ASSERT_EQ(cudaMallocArray(&array, &format, 8, 2), cudaSuccess);
  const std::string of_array = text_of<UsageError>([&] {
    capture(graph_, [&] {
      const float local[8] = {};
      EXPECT_EQ(
          cudaMemcpy2DToArrayAsync(array, 0, 0, local, 16, 16, 2, cudaMemcpyHostToDevice, current_stream().native()),
          cudaSuccess);
    });
  });
  EXPECT_THAT(of_array, HasSubstr("memcpy source (node 0) reads 32 bytes"));
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
}

TEST_F(LivenessOnCuda, BothEndsOfACopyOfRowsWithGapsAreInputs) {
  Buffer<float> x = zeros(), y = zeros();
  capture(graph_, checked(), [&] {
    EXPECT_EQ(cudaMemcpy2DAsync(y.data(), 32, x.data(), 16, 8, 4, cudaMemcpyDeviceToDevice, current_stream().native()),
              cudaSuccess);
  });
  EXPECT_EQ(inputs(), (std::set<const void*>{x.data(), y.data()}));
  graph_.replay();
  x.reset();
  EXPECT_THAT(refusal().inputs(), SizeIs(1));
}

TEST_F(LivenessOnCuda, MemoryThatTheGraphAllocatesIsItsOwn) {
  capture(graph_, checked(Liveness::all), [&] {
    void* x = nullptr;
    EXPECT_EQ(cudaMallocAsync(&x, n * sizeof(float), current_stream().native()), cudaSuccess);
    launch_scale(static_cast<float*>(x));
    EXPECT_EQ(cudaFreeAsync(x, current_stream().native()), cudaSuccess);
  });
  EXPECT_THAT(graph_.inputs(), IsEmpty());
  graph_.replay();
  current_stream().synchronize();
}

TEST_F(LivenessOnCuda, FindsWhatAChildGraphUses) {
  Buffer<float> x = zeros();
  CUDAGraph child(KeepGraph::yes);
  capture(child, [&] { launch_scale(x.data()); });
  capture(graph_, checked(), [&] {
    using backend::Checked;
    const Checked runtime(device().backend());
    const StreamHandle here = current_stream().native();
    backend::CaptureInfo info;
    runtime.stream_capture_info(here, &info);
    backend::NodeParams params = backend::ChildGraphNodeParams{child.raw_cuda_graph()};
    GraphNodeHandle node = nullptr;
    runtime.graph_add_node(&node, info.graph, info.dependencies, params);
    runtime.stream_update_capture_dependencies(here, {&node, 1}, backend::UpdateDependencies::set);
  });
  graph_.replay();
  current_stream().synchronize();
  x.reset();
  const std::vector<DeadInput> dead = refusal().inputs();
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_THAT(dead[0].nodes, ElementsAre(HasSubstr("scale<float> (node 0.0)")));
}

TEST_F(LivenessOnCuda, KeepsWhatAPlainLaunchUses) {
  Buffer<float> x = zeros();
  GraphOptions options;
  options.inputs.retain = true;
  capture(graph_, options, [&] { launch_scale(x.data()); });
  float* const address = x.data();
  x.reset();
  EXPECT_NE(zeros().data(), address);
  graph_.replay();
  current_stream().synchronize();
}

}  // namespace
}  // namespace reprise::test
