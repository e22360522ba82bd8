// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "backend/check.h"
#include "captures/registry.h"
#include "reprise/capture_options.h"
#include "reprise/memory.h"
#include "reprise/stream.h"
#include "tests/fakes/fake_driver.h"

// The calls of the CUDA backend to the driver, seen on a driver that does nothing. Their effect on a device is tested
// by the conformance tests.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CudaBackendTest : public ::testing::Test {
 protected:
  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
  CUcontext primary_ = primary_context_of(3);
  CUcontext other_ = primary_context_of(9);
};

TEST_F(CudaBackendTest, AskingWhetherTheDefaultStreamIsCapturingRetainsNoContext) {
  const StreamGuard current(Device(backend_).default_stream());
  EXPECT_FALSE(is_current_stream_capturing());
  EXPECT_EQ(driver_.retained, 0);
}

TEST_F(CudaBackendTest, QueriesTheStatusOfACaptureWhateverContextIsCurrent) {
  EXPECT_EQ(StreamRef(Device(backend_), handle<StreamHandle>(5)).capture_status(), CaptureStatus::none);
  EXPECT_EQ(driver_.current_queries, 0);
}

TEST_F(CudaBackendTest, AnAllocationInACaptureMakesOneCallOfTheDriver) {
  FakeDriver::contexts() = {other_};
  const StreamRef stream(Device(backend_), handle<StreamHandle>(5));
  CachingAllocator allocator{Device(backend_)};
  const GraphOptions options;
  const captures::Registration underway(stream, options, MempoolId{77, 0});
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  allocator.deallocate(allocator.allocate(512, stream));  // its pool has a segment from now on
  driver_.worked_in.clear();
  driver_.current_queries = driver_.capture_queries = driver_.mode_exchanges = 0;
  void* const block = allocator.allocate(512, stream);
  EXPECT_EQ(driver_.capture_queries, 1);
  EXPECT_EQ(driver_.current_queries, 0);
  EXPECT_EQ(driver_.mode_exchanges, 0);
  EXPECT_THAT(driver_.worked_in, IsEmpty());
  allocator.deallocate(block);
}

TEST_F(CudaBackendTest, GivesAThreadWithoutContextThePrimaryOneForGood) {
  EXPECT_EQ(backend_.device_synchronize(), ErrorCode::success);
  EXPECT_THAT(driver_.worked_in, ElementsAre(primary_));
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(primary_));
}

TEST_F(CudaBackendTest, AsksOnlyOnceACallForTheContextThatIsCurrentAlready) {
  (void)backend_.device_synchronize();
  driver_.current_queries = 0;
  for (int i = 0; i < 3; ++i) (void)backend_.device_synchronize();
  EXPECT_EQ(driver_.current_queries, 3);
  EXPECT_THAT(driver_.worked_in, ElementsAre(primary_, primary_, primary_, primary_));
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(primary_));
}

TEST_F(CudaBackendTest, WorksInThePrimaryContextAndRestoresAnother) {
  FakeDriver::contexts() = {other_};
  EXPECT_EQ(backend_.device_synchronize(), ErrorCode::success);
  EXPECT_THAT(driver_.worked_in, ElementsAre(primary_));
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(other_));
}

TEST_F(CudaBackendTest, KnowsWhatAPointerBelongsToAndTheNumberOfThatAllocation) {
  driver_.pointer_type = CU_MEMORYTYPE_DEVICE;
  PointerInfo info;
  EXPECT_EQ(backend_.pointer_info(&info, &info), ErrorCode::success);
  EXPECT_EQ(info.kind, MemoryKind::device);
  EXPECT_EQ(info.device_index, 3);
  EXPECT_EQ(info.base, handle<void*>(0x7000));
  EXPECT_EQ(info.bytes, 640U);
  EXPECT_EQ(info.id, 77U);
  driver_.pointer_type = 0;
  EXPECT_EQ(backend_.pointer_info(&info, &info), ErrorCode::success);
  EXPECT_EQ(info.kind, MemoryKind::unregistered);
  EXPECT_EQ(info.device_index, -1);
  EXPECT_EQ(info.id, 0U);
}

TEST_F(CudaBackendTest, RestoresTheContextAlsoWhenTheCallFails) {
  FakeDriver::contexts() = {other_};
  driver_.result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(backend_.device_synchronize(), ErrorCode::illegal_address);
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(other_));
}

TEST_F(CudaBackendTest, ALaunchOnAStreamLeavesItsContextToTheStream) {
  FakeDriver::contexts() = {other_};
  const auto exec = handle<CUgraphExec>(0x100);
  EXPECT_EQ(backend_.graph_launch(exec, handle<CUstream>(0x200)), ErrorCode::success);
  EXPECT_EQ(driver_.current_queries, 0) << "a replay costs what the launch costs";
  EXPECT_THAT(driver_.worked_in, ElementsAre(other_));
  driver_.result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(backend_.graph_launch(exec, handle<CUstream>(0x200)), ErrorCode::illegal_address);
}

TEST_F(CudaBackendTest, ALaunchOnADefaultStreamIsMadeInThePrimaryContext) {
  FakeDriver::contexts() = {other_};
  for (const std::uintptr_t stream : {0U, 1U, 2U})
    EXPECT_EQ(backend_.graph_launch(handle<CUgraphExec>(0x100), handle<CUstream>(stream)), ErrorCode::success);
  EXPECT_THAT(driver_.worked_in, ElementsAre(primary_, primary_, primary_));
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(other_));
}

TEST_F(CudaBackendTest, TwoDevicesShareAThread) {
  CudaBackend second(driver_.api(), 4, 4);
  (void)backend_.device_synchronize();
  (void)second.device_synchronize();
  (void)backend_.device_synchronize();
  EXPECT_THAT(driver_.worked_in, ElementsAre(primary_, primary_context_of(4), primary_));
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(primary_));
}

TEST_F(CudaBackendTest, RetainsThePrimaryContextOnceWhateverTheThreads) {
  driver_.api().cuStreamQuery = [](CUstream) { return CUDA_SUCCESS; };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { (void)backend_.stream_query(nullptr); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(driver_.retained, 1);
}

TEST_F(CudaBackendTest, RetainsInRelaxedModeAndRestoresTheThreadsOwn) {
  FakeDriver::capture_mode() = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  (void)backend_.device_synchronize();
  EXPECT_EQ(driver_.mode_at_retain, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(FakeDriver::capture_mode(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  FakeDriver::capture_mode() = CU_STREAM_CAPTURE_MODE_GLOBAL;
}

TEST_F(CudaBackendTest, FailsAsTheRetainingFailsAndTriesAgain) {
  driver_.retain_result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(backend_.device_synchronize(), ErrorCode::out_of_memory);
  EXPECT_THAT(driver_.worked_in, IsEmpty());
  driver_.retain_result = CUDA_SUCCESS;
  EXPECT_EQ(backend_.device_synchronize(), ErrorCode::success);
}

TEST_F(CudaBackendTest, PassesCodesWithoutANameOn) {
  driver_.result = static_cast<CUresult>(12345);
  EXPECT_EQ(static_cast<int>(backend_.device_synchronize().code()), 12345);
}

TEST_F(CudaBackendTest, WritesResultsOnlyOnSuccess) {
  void* pointer = nullptr;
  driver_.result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(backend_.memory_allocate(&pointer, 64), ErrorCode::out_of_memory);
  EXPECT_EQ(pointer, nullptr);
}

TEST_F(CudaBackendTest, TellsWhatTheDriversLogSays) {
  driver_.result = CUDA_ERROR_INVALID_VALUE;
  const Result failed = backend_.device_synchronize();
  driver_.log = "[10:00:00.000][" + std::to_string(pthread_self()) + "][CUDA][E] no device today\n";
  EXPECT_EQ(detail_of(backend_, failed), "no device today");
  EXPECT_EQ(detail_of(backend_, failed), "");
}

TEST_F(CudaBackendTest, LooksIntoTheDriversLogForFailuresOfTheDriverAlone) {
  driver_.log = "[10:00:00.000][" + std::to_string(pthread_self()) + "][CUDA][E] no device today\n";
  driver_.result = CUDA_ERROR_NOT_READY;
  EXPECT_EQ(detail_of(backend_, backend_.stream_query(handle<CUstream>(5))), "");
  FunctionHandle function = nullptr;
  EXPECT_EQ(detail_of(backend_, backend_.kernel_function(KernelRecord(), &function)),
            "nvcc did not compile the kernel");
  driver_.result = CUDA_ERROR_INVALID_VALUE;
  GraphExecHandle exec = nullptr;
  EXPECT_THAT(detail_of(backend_, backend_.graph_instantiate(&exec, nullptr, InstantiateFlags::none, nullptr)),
              AllOf(HasSubstr("cycle"), EndsWith("; no device today")));
}

TEST_F(CudaBackendTest, AddsNothingToAFailureWhereTheDriverHasNoLog) {
  driver_.api().cuLogsCurrent = nullptr;
  driver_.api().cuLogsDumpToMemory = nullptr;
  driver_.result = CUDA_ERROR_INVALID_VALUE;
  const Result failed = backend_.device_synchronize();
  EXPECT_EQ(failed, ErrorCode::invalid_value);
  EXPECT_EQ(detail_of(backend_, failed), "");
}

TEST_F(CudaBackendTest, MakesExecutablesByDefaultAsPyTorchDoes) {
  GraphExecHandle exec = nullptr;
  EXPECT_EQ(backend_.graph_instantiate(&exec, nullptr, GraphOptions().instantiate_flags, nullptr), ErrorCode::success);
  EXPECT_EQ(driver_.instantiate_flags, static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                                                       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
}

TEST_F(CudaBackendTest, TellsWhyAGraphCannotBeInstantiated) {
  driver_.result = CUDA_ERROR_INVALID_VALUE;
  GraphExecHandle exec = nullptr;
  const Result failed = backend_.graph_instantiate(&exec, nullptr, InstantiateFlags::none, nullptr);
  EXPECT_EQ(failed, ErrorCode::invalid_value);
  EXPECT_THAT(failed.detail(), HasSubstr("cycle"));
}

TEST_F(CudaBackendTest, AnOrdinaryLaunchHasNoAttributes) {
  LaunchConfig config;
  config.grid = {1, 2, 3};
  config.block = {4, 5, 6};
  config.shared_bytes = 7;
  EXPECT_EQ(backend_.launch_kernel({handle<CUfunction>(1), config, nullptr}, handle<CUstream>(2)), ErrorCode::success);
  const CUlaunchConfig& got = driver_.launched;
  EXPECT_THAT((std::vector<unsigned>{got.gridDimX, got.gridDimY, got.gridDimZ, got.blockDimX, got.blockDimY,
                                     got.blockDimZ, got.sharedMemBytes}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(got.hStream, handle<CUstream>(2));
  EXPECT_THAT(driver_.launch_attributes, IsEmpty());
}

TEST_F(CudaBackendTest, ALaunchHasTheAttributesThatAreAskedFor) {
  LaunchConfig config;
  config.cluster = {2, 1, 1};
  config.cooperative = true;
  config.programmatic = true;
  (void)backend_.launch_kernel({handle<CUfunction>(1), config, nullptr}, nullptr);
  ASSERT_EQ(driver_.launch_attributes.size(), 3U);
  EXPECT_EQ(driver_.launch_attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(driver_.launch_attributes[0].value.clusterDim.x, 2U);
  EXPECT_EQ(driver_.launch_attributes[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(driver_.launch_attributes[1].value.cooperative, 1);
  EXPECT_EQ(driver_.launch_attributes[2].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(driver_.launch_attributes[2].value.programmaticStreamSerializationAllowed, 1);
}

// The finder of a kernel has no argument for the test.
std::atomic<int> times_found = 0;
CUstreamCaptureMode mode_when_found = CU_STREAM_CAPTURE_MODE_GLOBAL;

int find_function(const KernelRecord&, FunctionHandle* function) {
  ++times_found;
  mode_when_found = FakeDriver::capture_mode();
  *function = handle<CUfunction>(0xf);
  return 0;
}

TEST_F(CudaBackendTest, LooksForTheFunctionOfAKernelOnceADevice) {
  KernelRecord kernel;
  kernel.cuda_function = &find_function;
  FunctionHandle function = nullptr;
  times_found = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(backend_.kernel_function(kernel, &function), ErrorCode::success);
  EXPECT_EQ(function, handle<CUfunction>(0xf));
  EXPECT_EQ(times_found, 1);
  EXPECT_EQ(mode_when_found, CU_STREAM_CAPTURE_MODE_RELAXED) << "it may load a module";
  EXPECT_EQ(FakeDriver::capture_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
  CudaBackend second(driver_.api(), 4, 4);
  EXPECT_EQ(second.kernel_function(kernel, &function), ErrorCode::success);
  EXPECT_EQ(times_found, 2);
}

TEST_F(CudaBackendTest, KnowsWhichParametersOfItsKernelsHaveNoPadding) {
  static const KernelParam params[] = {
      {0, 16, true, &typeid(double)}, {16, 24, false, &typeid(double)}, {40, 4, true, &typeid(float)}};
  KernelRecord kernel;
  kernel.params = params;
  kernel.cuda_function = [](const KernelRecord&, FunctionHandle* found) {
    *found = handle<CUfunction>(0xabc);
    return 0;
  };
  driver_.api().cuFuncGetParamInfo = [](CUfunction, std::size_t index, std::size_t* offset, std::size_t* bytes) {
    *offset = params[index].offset;
    *bytes = index == 2 ? 8 : params[index].size;
    return CUDA_SUCCESS;
  };
  const auto whole = [&](std::size_t index, bool typed = true) {
    KernelParam param;
    EXPECT_EQ(backend_.function_param_info(handle<CUfunction>(0xabc), index, &param), ErrorCode::success);
    EXPECT_EQ(param.type != nullptr, typed) << index;
    return param.whole;
  };
  EXPECT_FALSE(whole(0, false)) << "the kernel was not used yet: a foreign one";
  FunctionHandle function = nullptr;
  EXPECT_EQ(backend_.kernel_function(kernel, &function), ErrorCode::success);
  EXPECT_TRUE(whole(0));
  EXPECT_FALSE(whole(1));
  EXPECT_FALSE(whole(2, false)) << "it has another size there";
}

TEST_F(CudaBackendTest, RestoresTheContextAndTriesAgainWhenThereIsNoMemoryForTheParametersOfAKernel) {
  static constexpr KernelParam param = {0, 16, true, &typeid(std::pair<double, double>)};
  KernelRecord kernel;
  kernel.params = {&param, SIZE_MAX / 4 / sizeof param};  // their copy fails before it reads them
  kernel.cuda_function = [](const KernelRecord&, FunctionHandle* found) {
    *found = handle<CUfunction>(0xdef);
    return 0;
  };
  driver_.api().cuFuncGetParamInfo = [](CUfunction, std::size_t, std::size_t* offset, std::size_t* bytes) {
    *offset = param.offset;
    *bytes = param.size;
    return CUDA_SUCCESS;
  };
  FakeDriver::contexts() = {other_};
  FunctionHandle function = nullptr;
  EXPECT_THROW(static_cast<void>(backend_.kernel_function(kernel, &function)), std::bad_alloc);
  EXPECT_THAT(FakeDriver::contexts(), ElementsAre(other_));
  kernel.params = {&param, 1};
  EXPECT_EQ(backend_.kernel_function(kernel, &function), ErrorCode::success);
  KernelParam found;
  EXPECT_EQ(backend_.function_param_info(function, 0, &found), ErrorCode::success);
  EXPECT_TRUE(found.whole) << "the function is kept without its parameters";
  EXPECT_EQ(found.type, param.type);
}

TEST_F(CudaBackendTest, LooksEachTimeForTheFunctionOnADeviceBeyondThoseThatAKernelHasAPlaceFor) {
  constexpr int beyond = static_cast<int>(KernelFunctions::most_devices);
  KernelRecord kernel;
  kernel.cuda_function = &find_function;
  CudaBackend last(driver_.api(), 3, beyond - 1), one_more(driver_.api(), 4, beyond);
  times_found = 0;
  for (int times : {1, 2, 3}) {
    for (CudaBackend* backend : {&last, &one_more}) {
      FunctionHandle function = nullptr;
      EXPECT_EQ(backend->kernel_function(kernel, &function), ErrorCode::success);
      EXPECT_EQ(function, handle<CUfunction>(0xf));
    }
    EXPECT_EQ(times_found, 1 + times);
  }
}

TEST_F(CudaBackendTest, RefusesAKernelThatNvccDidNotCompile) {
  const KernelRecord kernel;
  FunctionHandle function = nullptr;
  EXPECT_EQ(backend_.kernel_function(kernel, &function), ErrorCode::invalid_device_function);
  EXPECT_EQ(function, nullptr);
}

TEST_F(CudaBackendTest, LooksAgainForAFunctionThatWasNotFound) {
  KernelRecord kernel;
  kernel.cuda_function = [](const KernelRecord&, FunctionHandle*) { return 209; };
  FunctionHandle function = nullptr;
  EXPECT_EQ(static_cast<int>(backend_.kernel_function(kernel, &function).code()), 209);
  kernel.cuda_function = &find_function;
  EXPECT_EQ(backend_.kernel_function(kernel, &function), ErrorCode::success);
}

}  // namespace
}  // namespace reprise::backend::cuda::test
