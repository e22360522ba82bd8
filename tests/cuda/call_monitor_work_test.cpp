// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "tests/cuda/call_monitor_fixture.h"

// Work that a capture lacks: the monitor reports what was refused while the capture went on, and what was not captured.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CallMonitorTest, ReportsWorkThatWasRefusedWhileTheCaptureGoesOn) {
  begin_capture(captured_);
  monitor_.runtime_begins("cudaMemcpyBatchAsync");
  call({"cuMemcpyBatchAsync_v2", Kind::work, captured_}, ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(described(captured_).refused, IsEmpty()) << "the runtime may yet succeed";
  monitor_.runtime_ends("cudaMemcpyBatchAsync", ErrorCode::stream_capture_unsupported);
  end_capture(captured_);
  const CaptureReport& report = finished_.at(0);
  EXPECT_EQ(report.code, ErrorCode::success);
  ASSERT_THAT(report.refused, SizeIs(1));
  EXPECT_EQ(report.refused[0].name, "cudaMemcpyBatchAsync");
  EXPECT_EQ(report.refused[0].driver_name, "cuMemcpyBatchAsync_v2");
  EXPECT_THAT(report.refused[0].rule, HasSubstr("a batch of copies cannot be captured"));
  EXPECT_EQ(report.refused[0].stream, captured_);
  EXPECT_EQ(report.refused[0].times, 1U);
}

TEST_F(CallMonitorTest, CountsCallsThatAreRefusedAgain) {
  begin_capture(captured_);
  for (int i = 0; i < 3; ++i) call({"cuMemcpyBatchAsync_v2", Kind::work, captured_}, ErrorCode::not_supported);
  const CaptureReport report = described(captured_);
  ASSERT_THAT(report.refused, SizeIs(1));
  EXPECT_EQ(report.refused[0].times, 3U);
}

TEST_F(CallMonitorTest, AFailureThatTheRuntimeRecoversFromIsNone) {
  begin_capture(captured_);
  monitor_.runtime_begins("cudaMemcpyAsync");
  call({"cuMemcpyAsync", Kind::work, captured_}, ErrorCode::invalid_value);
  monitor_.runtime_ends("cudaMemcpyAsync", ErrorCode::success);
  EXPECT_THAT(described(captured_).refused, IsEmpty());
}

TEST_F(CallMonitorTest, AnswersAndEarlierErrorsAreNoFailures) {
  begin_capture(captured_);
  call({"cuEventQuery"}, ErrorCode::not_ready);
  call({"cuStreamIsCapturing", Kind::query, nullptr}, ErrorCode::stream_capture_implicit);
  call({"cuPointerGetAttributes"}, ErrorCode::invalid_value);
  monitor_.runtime_begins("cudaGetLastError");
  monitor_.runtime_ends("cudaGetLastError", ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(described(captured_).refused, IsEmpty());
}

TEST_F(CallMonitorTest, WhatAnotherThreadIsRefusedIsNotMissingInACapture) {
  begin_capture(captured_);
  std::thread([&] { call(launch_, ErrorCode::invalid_value); }).join();
  EXPECT_THAT(described(captured_).refused, IsEmpty());
}

TEST_F(CallMonitorTest, ReportsWorkOnTheLegacyStreamOfTheContext) {
  const int mine = 0;
  const int another = 0;
  begin_capture(captured_, &mine);
  monitor_.runtime_begins("cudaLaunchKernel");
  call({"cuLaunchKernel", Kind::work, nullptr, &mine});
  monitor_.runtime_ends("cudaLaunchKernel", ErrorCode::success);
  call({"cuMemsetD8_v2", Kind::work, nullptr, &another});
  const CaptureReport report = described(captured_);
  ASSERT_THAT(report.not_captured, SizeIs(1));
  const CaptureReport::Call& missing = report.not_captured[0];
  EXPECT_EQ(missing.name, "cudaLaunchKernel");
  EXPECT_EQ(missing.driver_name, "cuLaunchKernel");
  EXPECT_EQ(missing.stream, StreamHandle{nullptr});
  EXPECT_THAT(missing.rule, HasSubstr("legacy default stream"));
  EXPECT_FALSE(missing.stack.empty());
}

TEST_F(CallMonitorTest, ReportsWorkOfAnotherThreadOnTheLegacyStream) {
  begin_capture(captured_);
  std::thread([&] { call({"cuMemsetD8_v2", Kind::work, nullptr}); }).join();
  ASSERT_THAT(described(captured_).not_captured, SizeIs(1));
  EXPECT_FALSE(described(captured_).not_captured[0].capturing_thread);
}

TEST_F(CallMonitorTest, ReportsTheCapturingThreadsWorkOnAStreamThatDoesNotTakePart) {
  begin_capture(captured_);
  call(launch_);
  const CaptureReport report = described(captured_);
  ASSERT_THAT(report.not_captured, SizeIs(1));
  EXPECT_EQ(report.not_captured[0].stream, other_);
  EXPECT_THAT(report.not_captured[0].rule, HasSubstr("does not take part in the capture"));
}

TEST_F(CallMonitorTest, WorkOfAThreadThatIsInRelaxedModeIsNotMissing) {
  begin_capture(captured_);
  driver_.relaxed = true;
  call(launch_);
  EXPECT_THAT(described(captured_).not_captured, IsEmpty());
}

TEST_F(CallMonitorTest, WorkOnAStreamThatJoinedOrOfAnotherThreadIsNotMissing) {
  begin_capture(captured_);
  driver_.streams[other_] = CaptureStatus::active;
  call(launch_);
  driver_.streams[other_] = CaptureStatus::none;
  std::thread([&] { call(launch_); }).join();
  EXPECT_THAT(described(captured_).not_captured, IsEmpty());
}

TEST_F(CallMonitorTest, WhatIsNoWorkIsNotMissing) {
  begin_capture(captured_);
  call({"cuEventRecord", Kind::other, other_});
  call({"cuStreamSynchronize", Kind::other, other_});
  EXPECT_THAT(described(captured_).not_captured, IsEmpty());
}

}  // namespace
}  // namespace reprise::backend::cuda::test
