// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/backend.h"
#include "reprise/capture.h"
#include "reprise/memory.h"
#include "tests/cuda_abi/shared_kernels.h"

// One kernel type, launched from two files that two compilers made. Templates with one mangled name and two bodies
// would be merged by the linker, whichever comes first, and one of the launches would do something else, or nothing. So
// this program is linked in both orders, and in both each side must do its own work. All but the tests of `__global__`
// functions run on the host device; they need no GPU and no driver.

namespace reprise::test {
namespace {

class CudaAbi : public testing::Test {
 protected:
  Device device_ = Device::parse("host");
  Stream stream_{device_};

  int* allocate(std::size_t count) {
    void* pointer = nullptr;
    EXPECT_EQ(device_.backend().memory_allocate(&pointer, count * sizeof(int)), ErrorCode::success);
    return static_cast<int*>(pointer);
  }
  std::vector<int> take(int* pointer, std::size_t count) {
    std::vector<int> values(count);
    EXPECT_EQ(device_.backend().copy(values.data(), pointer, count * sizeof(int)), ErrorCode::success);
    EXPECT_EQ(device_.backend().memory_free(pointer), ErrorCode::success);
    return values;
  }

  void expect_work(const Side& side, int tag) {
    int* x = allocate(threads);
    int* sums = allocate(blocks);
    side.launch(stream_, tag, x, sums);
    stream_.synchronize();
    std::vector<int> expected(threads), expected_sums(blocks, tag);
    for (std::size_t i = 0; i < threads; ++i) {
      expected[i] = static_cast<int>(10 * i) + tag;
      expected_sums[i / block_threads] += expected[i];
    }
    EXPECT_EQ(take(x, threads), expected) << side.compiler;
    EXPECT_EQ(take(sums, blocks), expected_sums) << side.compiler;
  }
};

TEST_F(CudaAbi, AKernelLaunchedFromAFileOfNvccRuns) {
  expect_work(side_of_nvcc(), 1);
}

TEST_F(CudaAbi, AKernelLaunchedFromAFileOfTheHostCompilerRuns) {
  expect_work(side_of_host_compiler(), 2);
}

TEST_F(CudaAbi, BothRunInTurn) {
  for (int i = 0; i < 3; ++i) {
    expect_work(side_of_nvcc(), 100 + i);
    expect_work(side_of_host_compiler(), 200 + i);
  }
}

TEST_F(CudaAbi, BothCanBeCapturedIntoOneGraph) {
  backend::Backend& backend = device_.backend();
  int* x = allocate(2 * threads);
  int* sums = allocate(2 * blocks);
  ASSERT_EQ(backend.stream_begin_capture(stream_.native(), CaptureMode::thread), ErrorCode::success);
  side_of_nvcc().launch(stream_, 1, x, sums);
  side_of_host_compiler().launch(stream_, 2, x + threads, sums + blocks);
  GraphHandle graph = nullptr;
  ASSERT_EQ(backend.stream_end_capture(stream_.native(), &graph), ErrorCode::success);
  std::vector<GraphNodeHandle> nodes;
  EXPECT_EQ(backend.graph_nodes(graph, &nodes), ErrorCode::success);
  EXPECT_EQ(nodes.size(), 4U);
  GraphExecHandle exec = nullptr;
  ASSERT_EQ(backend.graph_instantiate(&exec, graph, InstantiateFlags::none, nullptr), ErrorCode::success);
  EXPECT_EQ(backend.graph_launch(exec, stream_.native()), ErrorCode::success);
  stream_.synchronize();
  EXPECT_EQ(backend.graph_exec_destroy(exec), ErrorCode::success);
  EXPECT_EQ(backend.graph_destroy(graph), ErrorCode::success);
  const std::vector<int> values = take(x, 2 * threads);
  EXPECT_EQ(values[threads - 1], static_cast<int>(10 * (threads - 1)) + 1);
  EXPECT_EQ(values[2 * threads - 1], static_cast<int>(10 * (threads - 1)) + 2);
  take(sums, 2 * blocks);
}

TEST_F(CudaAbi, EachSideHasARecordOfItsOwnThatSaysWhatItsCompilerMade) {
  const Side nvcc = side_of_nvcc();
  const Side host = side_of_host_compiler();
  EXPECT_NE(nvcc.tag, host.tag);
  EXPECT_TRUE(nvcc.has_cuda_function) << "nvcc compiled it for CUDA";
  EXPECT_FALSE(host.has_cuda_function) << "the host compiler did not";
  EXPECT_NE(nvcc.tag->host_entry, host.tag->host_entry);
}

TEST_F(CudaAbi, BothSidesKnowTheSameNameAndLayout) {
  const KernelRecord& nvcc = *side_of_nvcc().tag;
  const KernelRecord& host = *side_of_host_compiler().tag;
  EXPECT_EQ(nvcc.name, host.name);
  EXPECT_EQ(nvcc.params_bytes, host.params_bytes);
  ASSERT_EQ(nvcc.params.size(), host.params.size());
  for (std::size_t i = 0; i < nvcc.params.size(); ++i) {
    EXPECT_EQ(nvcc.params[i].offset, host.params[i].offset) << i;
    EXPECT_EQ(nvcc.params[i].size, host.params[i].size) << i;
  }
}

TEST(GlobalFunction, IsRefusedOnAHostDevice) {
  const Stream stream(Device::parse("host"));
  int x = 5;
  try {
    launch_global_function(stream, 1, &x, 1);
    FAIL() << "it was launched";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "expected a kernel that was compiled for the device of the stream, host:0; found kernel __global__ "
                 "void (int, int*, unsigned long), whose launch was compiled for another; launch it on a CUDA device");
  }
  EXPECT_EQ(x, 5);
}

class GlobalFunctionOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (backend::cuda_backends().empty()) GTEST_SKIP() << "no CUDA device: " << backend::cuda_unavailable_reason();
  }
};

TEST_F(GlobalFunctionOnCuda, RunsEagerlyAndInAGraph) {
  const Stream stream(Device::parse("cuda"));
  const StreamGuard guard(stream);
  std::vector<int> values(threads, 7);
  Buffer<int> x{std::span<const int>(values)};
  launch_global_function(stream, 1, x.data(), x.size());
  launch_global_template(10, x.data(), x.size());
  CUDAGraph graph;
  capture(graph, [&] {
    launch_global_function(current_stream(), 100, x.data(), x.size());
    launch_global_template(1000, x.data(), x.size());
  });
  EXPECT_EQ(graph.node_count(), 2U);
  for (int i = 0; i < 3; ++i) graph.replay();
  x.read_async(values);
  stream.synchronize();
  EXPECT_EQ(values, std::vector<int>(threads, 7 + 1 + 10 + 3 * (100 + 1000)));
}

}  // namespace
}  // namespace reprise::test
