// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cupti/driver_calls.h"

#include <cupti.h>
#include <gtest/gtest.h>

// Conversion of CUPTI's data on a call for the monitor.

namespace reprise::backend::cuda::test {
namespace {

using Kind = DriverCall::Kind;

const CUstream some_stream = reinterpret_cast<CUstream>(0x1234);

template <class Params>
DriverCall call_of(CUpti_driver_api_trace_cbid id, const Params& params) {
  CUpti_CallbackData data{};
  data.functionName = "cuSomething";
  data.functionParams = &params;
  data.context = reinterpret_cast<CUcontext>(0x99);
  return driver_call(static_cast<CUpti_CallbackId>(id), data);
}

TEST(DriverCalls, KnowTheStreamThatWorkIsGiven) {
  cuLaunchKernel_params launch{};
  launch.hStream = some_stream;
  const DriverCall call = call_of(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, launch);
  EXPECT_EQ(call.kind, Kind::work);
  EXPECT_EQ(call.stream, some_stream);
  EXPECT_STREQ(call.name, "cuSomething");
  EXPECT_EQ(call.context, reinterpret_cast<CUcontext>(0x99));

#if CUDA_VERSION >= 13000
  cuMemcpyBatchAsync_v2_params batch{};
  batch.hStream = some_stream;
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2, batch).stream, some_stream);
#endif
}

TEST(DriverCalls, KnowTheStreamInTheConfigurationOfALaunch) {
  CUlaunchConfig config{};
  config.hStream = some_stream;
  cuLaunchKernelEx_params launch{};
  launch.config = &config;
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, launch).stream, some_stream);
  launch.config = nullptr;
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, launch).stream, CUstream{nullptr});
}

TEST(DriverCalls, BothHandlesOfTheLegacyStreamAreNull) {
  cuMemsetD8Async_params set{};
  set.hStream = CU_STREAM_LEGACY;
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, set).stream, CUstream{nullptr});
  set.hStream = nullptr;
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, set).stream, CUstream{nullptr});
}

TEST(DriverCalls, ANullStreamIsTheThreadsOwnForCallsThatTakeItSo) {
  cuMemsetD8Async_ptsz_params set{};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz, set).stream, CU_STREAM_PER_THREAD);
  cuMemcpyHtoD_v2_ptds_params copy{};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds, copy).stream, CU_STREAM_PER_THREAD);
}

TEST(DriverCalls, WorkWithoutAStreamIsOnTheLegacyOne) {
  cuMemcpyHtoD_v2_params copy{};
  const DriverCall call = call_of(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2, copy);
  EXPECT_EQ(call.kind, Kind::work);
  EXPECT_EQ(call.stream, CUstream{nullptr});
}

TEST(DriverCalls, KnowTheModeOfACapture) {
  cuStreamBeginCapture_v2_params begin{some_stream, CU_STREAM_CAPTURE_MODE_RELAXED};
  const DriverCall call = call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2, begin);
  EXPECT_EQ(call.kind, Kind::capture);
  EXPECT_EQ(call.stream, some_stream);
  EXPECT_EQ(call.mode, CaptureMode::relaxed);
  cuStreamBeginCaptureToGraph_params into{};
  into.mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph, into).mode, CaptureMode::thread);
}

TEST(DriverCalls, TellTheirKinds) {
  const cuStreamEndCapture_params end{some_stream, nullptr};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture, end).kind, Kind::end_capture);
  const cuStreamDestroy_v2_params destroy{some_stream};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2, destroy).kind, Kind::end_stream);
  const cuStreamIsCapturing_params question{some_stream, nullptr};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamIsCapturing, question).kind, Kind::query);
  const cuStreamSynchronize_params wait{some_stream};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, wait).kind, Kind::other);
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, wait).stream, some_stream);
  const cuMemAlloc_v2_params allocation{};
  EXPECT_EQ(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, allocation).kind, Kind::other);
  EXPECT_FALSE(call_of(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, allocation).stream);
}

TEST(DriverCalls, ACallOfALaterDriverIsAnyCall) {
  const CUpti_CallbackData data{};
  EXPECT_EQ(driver_call(CUPTI_DRIVER_TRACE_CBID_SIZE + CUPTI_DRIVER_TRACE_CBID_cuMemcpy, data).kind, Kind::other);
}

}  // namespace
}  // namespace reprise::backend::cuda::test
