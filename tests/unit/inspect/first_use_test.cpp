// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "inspect/report/first_use.h"
#include "tests/unit/graph/graph_fixture.h"

// Calls in a capture that look like the first use of a library.

namespace reprise::inspect::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

CaptureReport::Call call_with(std::string name, std::string driver_name, std::vector<std::string> stack) {
  CaptureReport::Call call;
  call.name = std::move(name);
  call.driver_name = std::move(driver_name);
  call.stack = std::move(stack);
  return call;
}

TEST(FirstUse, IsOfTheOutermostLibraryOnTheStack) {
  EXPECT_EQ(first_use_of(call_with("cudaMalloc", "cuMemAlloc_v2",
                                   {"/opt/cuda/lib/libcublasLt.so.13+0x12", "/opt/cuda/lib/libcublas.so.13+0x34",
                                    "main at /home/me/program+0x56"})),
            "cuBLAS");
  EXPECT_EQ(first_use_of(call_with("cuMemAlloc_v2", "",
                                   {"cublasLtCreate at /opt/cuda/lib/libcublasLt.so.13+0x1",
                                    "cudnnCreate at /usr/lib/libcudnn_graph.so.9+0x2", "main at /program+0x3"})),
            "cuDNN");
  EXPECT_EQ(first_use_of(call_with("cuStreamCreate", "", {"/usr/lib/libnccl.so.2+0x12"})), "NCCL");
  EXPECT_EQ(first_use_of(call_with("cuMemHostAlloc", "", {"cusolverDnCreate at /home/me/program+0x56"})), "cuSOLVER");
}

TEST(FirstUse, IsOfAnUnknownOneWhereCodeIsLoadedWithoutALibraryOnTheStack) {
  EXPECT_EQ(first_use_of(call_with("cuModuleLoadData", "", {})), "a library or a kernel");
  EXPECT_EQ(first_use_of(call_with("cuLibraryLoadFromFile", "", {"main at /program+0x3"})), "a library or a kernel");
  EXPECT_EQ(first_use_of(call_with("cuModuleLoadDataEx", "", {"/usr/lib/libcufft.so.12+0x12"})), "cuFFT");
}

TEST(FirstUse, IsNotWhatAProgramDoesItself) {
  EXPECT_EQ(first_use_of(call_with("cudaMalloc", "cuMemAlloc_v2", {"main at /home/cublas/program+0x3"})), "");
  EXPECT_EQ(first_use_of(call_with("cudaStreamSynchronize", "", {"main at /program+0x3"})), "");
  EXPECT_EQ(first_use_of(call_with("cuMemAlloc_v2", "", {})), "") << "nothing names the caller";
}

TEST(FirstUse, IsNotTheWorkOfALibrary) {
  EXPECT_EQ(first_use_of(call_with("cudaMemcpyAsync", "cuMemcpyAsync", {"/usr/lib/libcublas.so.13+0x12"})), "");
  EXPECT_EQ(first_use_of(call_with("cuLaunchKernel", "", {"/usr/lib/libcublas.so.13+0x12"})), "");
}

TEST(FirstUse, IsNotTheDestructionOfAHandle) {
  EXPECT_EQ(
      first_use_of(call_with("cudaFree", "cuMemFree_v2",
                             {"/opt/cuda/lib/libcublas.so.13+0x12",
                              "cublasDestroy_v2 at /opt/cuda/lib/libcublas.so.13+0x34", "main at /program+0x56"})),
      "");
  EXPECT_EQ(first_use_of(call_with("cudaDeviceSynchronize", "", {"cudnnDestroy at /usr/lib/libcudnn.so.9+0x2"})), "");
  EXPECT_EQ(first_use_of(call_with("cudaFree", "", {"cublasCreate_v2 at /home/Destroyer/libcublas.so.13+0x1"})),
            "cuBLAS");
}

TEST(FirstUse, IsNamedInTheTextOfAReportWithTheAdvice) {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  report.broken_by = call_with("cudaMalloc", "", {"/usr/lib/libcublas.so.13+0x12"});
  EXPECT_EQ(report.str().find("likely"), std::string::npos);
  report.broken_by->first_use = first_use_of(*report.broken_by);
  EXPECT_THAT(report.str(),
              AllOf(HasSubstr("  likely   the first use of cuBLAS, "), HasSubstr("GraphOptions::warmup = 1")));
  report.broken_by->capturing_thread = false;  // its warm-up would not make that call
  EXPECT_THAT(report.str(), AllOf(HasSubstr("  likely   the first use of cuBLAS, "),
                                  HasSubstr("may wait for the device; let that thread make it before the capture"),
                                  Not(HasSubstr("warmup"))));
}

TEST(FirstUse, IsNotedOnceForEachLibraryWhereItsCallsSucceeded) {
  const auto made = [](const char* name, std::vector<std::string> stack) {
    backend::CaptureFindings::ObservedCall call;
    call.name = name;
    call.stack = std::move(stack);
    return call;
  };
  const std::vector<backend::CaptureFindings::ObservedCall> calls = {
      made("cudaMalloc", {"main at /program+0x3"}),
      made("cuLibraryLoadData",
           {"/opt/cuda/lib/libcublasLt.so.13+0x12", "cublasCreate_v2 at /lib/libcublas.so.13+0x3"}),
      made("cuMemAlloc_v2", {"cublasCreate_v2 at /lib/libcublas.so.13+0x3"}),
      made("cuMemAlloc_v2", {"cudnnCreate at /lib/libcudnn.so.9+0x3"}),
      made("cuStreamCreate", {"cudnnDestroy at /lib/libcudnn.so.9+0x3"}),
  };
  EXPECT_THAT(first_use_notes(calls),
              ::testing::ElementsAre(AllOf(HasSubstr("first use of cuBLAS: cuLibraryLoadData was called"),
                                           HasSubstr("GraphOptions::warmup = 1")),
                                     HasSubstr("first use of cuDNN: cuMemAlloc_v2 was called")));
}

TEST(FirstUse, IsInTheReportOfTheCaptureThatTheCallBroke) {
  void* const library = dlopen(FAKE_NCCL_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto init = reinterpret_cast<int (*)(int (*)())>(dlsym(library, "fakeNcclInit"));
  ASSERT_NE(init, nullptr);
  const Stream stream;
  const StreamGuard guard(stream);
  Buffer<int> x = graphs::test::zeros(8);
  CUDAGraph graph;
  int result = 0;
  const auto body = [&] {
    graphs::test::add(x);
    result = init([] { return static_cast<int>(graphs::test::make_unsafe_call()); });
  };
  EXPECT_THROW(capture(graph, body), CaptureError);
  EXPECT_EQ(static_cast<ErrorCode>(result - 1), ErrorCode::stream_capture_unsupported);
  ASSERT_TRUE(graph.capture_report() && graph.capture_report()->broken_by);
  EXPECT_EQ(graph.capture_report()->broken_by->first_use, "NCCL");
  EXPECT_THAT(graph.capture_report()->str(), HasSubstr("  likely   the first use of NCCL, "));
}

}  // namespace
}  // namespace reprise::inspect::test
