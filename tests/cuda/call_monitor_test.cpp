// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "tests/cuda/call_monitor_fixture.h"

// Capture reports on the calls reported to a monitor, with a fake driver.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CallMonitorTest, ReportsACaptureThatWentWell) {
  begin_capture(captured_);
  call({"cuLaunchKernel", Kind::work, captured_});
  driver_.nodes = 1;
  end_capture(captured_);
  ASSERT_THAT(finished_, SizeIs(1));
  const CaptureReport& report = finished_[0];
  EXPECT_EQ(report.code, ErrorCode::success);
  EXPECT_EQ(report.stream, captured_);
  EXPECT_EQ(report.device, "cuda:1");
  EXPECT_EQ(report.mode, "thread");
  EXPECT_EQ(report.nodes, 1U);
  EXPECT_FALSE(report.broken_by);
  EXPECT_THAT(report.refused, IsEmpty());
  EXPECT_THAT(report.not_captured, IsEmpty());
}

TEST_F(CallMonitorTest, NamesTheCallOfTheRuntimeAndTheDriversThatBrokeACapture) {
  begin_capture(captured_);
  driver_.nodes = 3;
  monitor_.runtime_begins("cudaMalloc");
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  monitor_.runtime_ends("cudaMalloc", ErrorCode::stream_capture_unsupported);
  driver_.nodes = 0;
  end_capture(captured_, ErrorCode::stream_capture_invalidated);
  ASSERT_THAT(finished_, SizeIs(1));
  const CaptureReport& report = finished_[0];
  EXPECT_EQ(report.code, ErrorCode::stream_capture_invalidated);
  EXPECT_EQ(report.nodes, 3U);
  ASSERT_TRUE(report.broken_by);
  EXPECT_EQ(report.broken_by->name, "cudaMalloc");
  EXPECT_EQ(report.broken_by->driver_name, "cuMemAlloc_v2");
  EXPECT_EQ(report.broken_by->result, ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(report.broken_by->rule, HasSubstr("potentially unsafe"));
  EXPECT_THAT(report.broken_by->advice, HasSubstr("before the capture"));
  EXPECT_FALSE(report.broken_by->stack.empty());
  EXPECT_TRUE(report.broken_by->capturing_thread);
  EXPECT_THAT(report.refused, IsEmpty());
}

TEST_F(CallMonitorTest, NamesACallOfTheDriversOwnInterfaceOnce) {
  begin_capture(captured_);
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  const CaptureReport report = described(captured_);
  ASSERT_TRUE(report.broken_by);
  EXPECT_EQ(report.broken_by->name, "cuMemAlloc_v2");
  EXPECT_EQ(report.broken_by->driver_name, "");
}

TEST_F(CallMonitorTest, SaysThatAnotherThreadBrokeACapture) {
  begin_capture(captured_);
  std::thread([&] { breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_}); }).join();
  const CaptureReport report = described(captured_);
  ASSERT_TRUE(report.broken_by);
  EXPECT_FALSE(report.broken_by->capturing_thread);
  EXPECT_NE(report.broken_by->thread, report.thread);
}

TEST_F(CallMonitorTest, TheRuleDependsOnWhetherTheStreamWasBeingCaptured) {
  const DriverCall on_captured{"cuStreamSynchronize", Kind::other, captured_};
  begin_capture(captured_);
  breaking_call(on_captured, ErrorCode::stream_capture_unsupported, {captured_});
  EXPECT_THAT(described(captured_).broken_by->rule, HasSubstr("it cannot be synchronized"));
  end_capture(captured_, ErrorCode::stream_capture_invalidated);

  begin_capture(captured_);
  breaking_call({"cuStreamSynchronize", Kind::other, other_}, ErrorCode::stream_capture_unsupported, {captured_});
  EXPECT_THAT(described(captured_).broken_by->rule, HasSubstr("potentially unsafe"));
}

TEST_F(CallMonitorTest, ACallOfAnUnknownNameHasTheMostGeneralRule) {
  begin_capture(captured_);
  breaking_call({"cuOfALaterDriver"}, ErrorCode::stream_capture_unsupported, {captured_});
  EXPECT_THAT(described(captured_).broken_by->rule, HasSubstr("potentially unsafe"));
}

TEST_F(CallMonitorTest, AnInvalidArgumentIsNoRuleOfCaptures) {
  begin_capture(captured_);
  call({"cuMemcpyAsync", Kind::work, captured_}, ErrorCode::invalid_value);
  ASSERT_THAT(described(captured_).refused, SizeIs(1));
  EXPECT_EQ(described(captured_).refused[0].rule, result_description(ErrorCode::invalid_value));
  EXPECT_EQ(described(captured_).refused[0].advice, "");
}

TEST_F(CallMonitorTest, ACallBreaksSeveralCapturesButNotThoseThatGoOn) {
  begin_capture(captured_);
  begin_capture(other_);
  begin_capture(stream(0x300));
  breaking_call({"cuCtxSynchronize_v2"}, ErrorCode::stream_capture_unsupported, {captured_, other_});
  EXPECT_TRUE(described(captured_).broken_by);
  EXPECT_TRUE(described(other_).broken_by);
  EXPECT_FALSE(described(stream(0x300)).broken_by);
}

TEST_F(CallMonitorTest, ACallThatBrokeOneCaptureIsNotMissingInAnother) {
  begin_capture(captured_);
  begin_capture(other_);
  monitor_.runtime_begins("cudaStreamSynchronize");
  breaking_call({"cuStreamSynchronize", Kind::other, captured_}, ErrorCode::stream_capture_unsupported, {captured_});
  monitor_.runtime_ends("cudaStreamSynchronize", ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(described(other_).refused, IsEmpty());
}

TEST_F(CallMonitorTest, AnEndThatIsRefusedEndsNothing) {
  begin_capture(captured_);
  call({"cuStreamEndCapture", Kind::end_capture, captured_}, ErrorCode::invalid_value);
  EXPECT_THAT(finished_, IsEmpty());
  end_capture(captured_);
  EXPECT_THAT(finished_, SizeIs(1));
}

TEST_F(CallMonitorTest, TheGraphOfACaptureThatIsBeingEndedIsNotQueried) {
  begin_capture(captured_);
  const DriverCall end{"cuStreamEndCapture", Kind::end_capture, captured_};
  monitor_.begins(end);
  const int counts = driver_.counts;
  driver_.streams[captured_] = CaptureStatus::invalidated;  // as the end may find it, and report before it is done
  std::thread([&] { call(allocation_, ErrorCode::stream_capture_unsupported); }).join();
  described(captured_);
  EXPECT_EQ(driver_.counts, counts);
  driver_.streams[captured_] = CaptureStatus::none;
  monitor_.ends(end, ErrorCode::stream_capture_invalidated);
  ASSERT_THAT(finished_, SizeIs(1));
  EXPECT_FALSE(finished_[0].broken_by);
}

TEST_F(CallMonitorTest, ACaptureWhoseEndWasRefusedIsQueriedAgain) {
  begin_capture(captured_);
  call({"cuStreamEndCapture", Kind::end_capture, captured_}, ErrorCode::stream_capture_wrong_thread);
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  EXPECT_TRUE(described(captured_).broken_by);
}

TEST_F(CallMonitorTest, TheFirstCallThatBrokeACaptureIsNamed) {
  begin_capture(captured_);
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  call({"cuStreamSynchronize", Kind::other, captured_}, ErrorCode::stream_capture_unsupported);
  call({"cuLaunchKernel", Kind::work, captured_}, ErrorCode::stream_capture_invalidated);
  const CaptureReport report = described(captured_);
  EXPECT_EQ(report.broken_by->name, "cuMemAlloc_v2");
  EXPECT_THAT(report.refused, IsEmpty());
}

TEST_F(CallMonitorTest, ACallOfTheRuntimeBreaksACaptureWithoutOneOfTheDriver) {
  begin_capture(captured_);
  monitor_.runtime_begins("cudaMallocManaged");
  driver_.streams[captured_] = CaptureStatus::invalidated;
  monitor_.runtime_ends("cudaMallocManaged", ErrorCode::stream_capture_unsupported);
  ASSERT_TRUE(described(captured_).broken_by);
  EXPECT_EQ(described(captured_).broken_by->name, "cudaMallocManaged");
}

TEST_F(CallMonitorTest, TheEndThatFailsIsTheCallThatBrokeTheCapture) {
  begin_capture(captured_);
  driver_.nodes = 2;
  monitor_.runtime_begins("cudaStreamEndCapture");
  end_capture(captured_, ErrorCode::stream_capture_unjoined);
  monitor_.runtime_ends("cudaStreamEndCapture", ErrorCode::stream_capture_unjoined);
  ASSERT_THAT(finished_, SizeIs(1));
  const CaptureReport& report = finished_[0];
  EXPECT_EQ(report.code, ErrorCode::stream_capture_unjoined);
  EXPECT_EQ(report.nodes, 2U);
  ASSERT_TRUE(report.broken_by);
  EXPECT_EQ(report.broken_by->name, "cudaStreamEndCapture");
  EXPECT_THAT(report.broken_by->rule, HasSubstr("does not lead back"));
}

TEST_F(CallMonitorTest, AnEndOnAStreamThatJoinedBreaksTheCaptureWhichGoesOn) {
  begin_capture(captured_);
  driver_.streams[other_] = CaptureStatus::active;
  breaking_call({"cuStreamEndCapture", Kind::end_capture, other_}, ErrorCode::stream_capture_unmatched,
                {captured_, other_});
  EXPECT_THAT(finished_, IsEmpty());
  EXPECT_EQ(described(captured_).broken_by->result, ErrorCode::stream_capture_unmatched);
  end_capture(captured_, ErrorCode::stream_capture_invalidated);
  EXPECT_THAT(finished_, SizeIs(1));
}

TEST_F(CallMonitorTest, ACaptureThatNoCallWasSeenToBreakHasNoneToName) {
  begin_capture(captured_);
  driver_.streams[captured_] = CaptureStatus::invalidated;
  end_capture(captured_, ErrorCode::stream_capture_invalidated);
  EXPECT_FALSE(finished_.at(0).broken_by);
  EXPECT_EQ(finished_[0].code, ErrorCode::stream_capture_invalidated);
}

TEST_F(CallMonitorTest, ACaptureWhoseStreamIsDestroyedIsOver) {
  begin_capture(captured_);
  begin_capture(other_);
  call({"cuStreamDestroy_v2", Kind::end_stream, captured_});
  ASSERT_THAT(finished_, SizeIs(1));
  EXPECT_THAT(finished_[0].notes, ElementsAre("The stream was destroyed before the capture was ended."));
  EXPECT_EQ(finished_[0].code, ErrorCode::stream_capture_invalidated);
  call({"cuDevicePrimaryCtxReset_v2", Kind::end_context});
  EXPECT_THAT(finished_, SizeIs(2));
  driver_.streams.clear();
  call(launch_, ErrorCode::invalid_value);
  EXPECT_THAT(driver_.streams, IsEmpty()) << "a stream that is gone was queried";
}

TEST_F(CallMonitorTest, CapturesThatAreUnderwayWhenTheProcessEndsAreReported) {
  begin_capture(captured_);
  driver_.nodes = 2;
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  driver_.streams.clear();
  monitor_.process_ends();
  ASSERT_THAT(finished_, SizeIs(1));
  EXPECT_EQ(finished_[0].broken_by->name, "cuMemAlloc_v2");
  EXPECT_EQ(finished_[0].nodes, 2U);
  EXPECT_THAT(finished_[0].notes, ElementsAre("The program ended before the capture did."));
  EXPECT_THAT(driver_.streams, IsEmpty()) << "the driver was queried";
  monitor_.process_ends();
  EXPECT_THAT(finished_, SizeIs(1));
}

TEST_F(CallMonitorTest, ThePerThreadStreamsOfTwoThreadsAreTwoStreams) {
  const StreamHandle per_thread = stream(2);
  begin_capture(per_thread);
  std::thread([&] {
    begin_capture(per_thread);
    breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {per_thread});
    end_capture(per_thread, ErrorCode::stream_capture_invalidated);
  }).join();
  driver_.streams[per_thread] = CaptureStatus::active;
  end_capture(per_thread);
  ASSERT_THAT(finished_, SizeIs(2));
  EXPECT_TRUE(finished_[0].broken_by);
  EXPECT_FALSE(finished_[1].broken_by);
  EXPECT_NE(finished_[0].thread, finished_[1].thread);
}

TEST_F(CallMonitorTest, DescribesTheLastCaptureOfAStream) {
  begin_capture(captured_);
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  end_capture(captured_, ErrorCode::stream_capture_invalidated);
  EXPECT_TRUE(described(captured_).broken_by);
  begin_capture(captured_);
  EXPECT_FALSE(described(captured_).broken_by);
  call({"cuStreamDestroy_v2", Kind::end_stream, captured_});
  EXPECT_FALSE(monitor_.describe(captured_)) << "of the first capture";
  begin_capture(captured_);
  end_capture(captured_);
  EXPECT_FALSE(monitor_.describe(other_));
  monitor_.forget();
  EXPECT_FALSE(monitor_.describe(captured_));
}

TEST_F(CallMonitorTest, ForgetsTheCallThatAThreadWasInWhenTheLastOneStoppedWatching) {
  monitor_.runtime_begins("cudaGraphLaunch");
  monitor_.forget();
  begin_capture(captured_);
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  EXPECT_EQ(described(captured_).broken_by->name, "cuMemAlloc_v2");
}

TEST_F(CallMonitorTest, TheOutermostCallOfTheRuntimeIsNamed) {
  monitor_.runtime_ends("cudaFree", ErrorCode::success);  // it had begun before the watch
  begin_capture(captured_);
  monitor_.runtime_begins("cudaMallocPitch");
  monitor_.runtime_begins("cudaMalloc");
  breaking_call(allocation_, ErrorCode::stream_capture_unsupported, {captured_});
  monitor_.runtime_ends("cudaMalloc", ErrorCode::stream_capture_unsupported);
  monitor_.runtime_ends("cudaMallocPitch", ErrorCode::stream_capture_unsupported);
  EXPECT_EQ(described(captured_).broken_by->name, "cudaMallocPitch");
}

}  // namespace
}  // namespace reprise::backend::cuda::test
