// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/capture_watch.h"

#include <gmock/gmock.h>

#include <pthread.h>

#include <string>
#include <thread>

#include "backend/cuda/cuda_backend.h"
#include "backend/rules/call_stack.h"
#include "inspect/report/report_findings.h"
#include "tests/fakes/fake_driver.h"

namespace reprise::backend::cuda::test {
namespace {

using testing::HasSubstr;

class CaptureWatchTest : public testing::Test {
 protected:
  CaptureWatchTest() {
    EXPECT_EQ(backend_.stream_begin_capture(stream_, CaptureMode::global), ErrorCode::success);
    driver_.captured_nodes = 4;
  }
  ~CaptureWatchTest() override {
    GraphHandle graph = nullptr;
    (void)backend_.stream_end_capture(stream_, &graph);
  }

  CaptureReport report() { return inspect::report_of(backend_.monitor().describe_capture(stream_)); }
  void fail_a_call(CUresult result, bool breaks) {
    driver_.result = result;
    driver_.breaks_captures = breaks;
    (void)backend_.stream_query(stream_);
  }

  FakeDriver driver_;
  CudaBackend backend_{driver_.api(), 3, 3};
  StreamHandle stream_ = handle<CUstream>(0x57);
};

TEST_F(CaptureWatchTest, KnowsTheCallOfOursThatBrokeTheCapture) {
  fail_a_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
  driver_.captured_nodes = 5;
  const CaptureReport found = report();
  ASSERT_TRUE(found.broken_by.has_value());
  EXPECT_EQ(found.broken_by->name, "cuStreamQuery");
  EXPECT_EQ(found.broken_by->result, ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(found.broken_by->rule, HasSubstr("does not execute"));
  EXPECT_EQ(found.broken_by->stream, stream_);
  EXPECT_TRUE(found.broken_by->capturing_thread);
  EXPECT_EQ(found.thread, thread_number());
  EXPECT_EQ(found.nodes, 4U) << "then, not now";
}

TEST_F(CaptureWatchTest, KnowsThatItWasAnotherThread) {
  std::thread([&] { fail_a_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true); }).join();
  const CaptureReport found = report();
  ASSERT_TRUE(found.broken_by.has_value());
  EXPECT_FALSE(found.broken_by->capturing_thread);
  EXPECT_NE(found.broken_by->thread, found.thread);
}

TEST_F(CaptureWatchTest, KeepsTheFirstCall) {
  fail_a_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
  (void)backend_.device_synchronize();
  EXPECT_EQ(report().broken_by->name, "cuStreamQuery");
}

TEST_F(CaptureWatchTest, DoesNotBlameACallThatBrokeNothing) {
  fail_a_call(CUDA_ERROR_INVALID_VALUE, false);
  EXPECT_FALSE(report().broken_by.has_value());
  EXPECT_EQ(report().nodes, 4U);
}

TEST_F(CaptureWatchTest, FindsACallOfOthersInTheDriversLog) {
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  driver_.log =
      "[10:00:00.000][123][CUDA][E] Returning 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) from cuMemAlloc_v2\n";
  const CaptureReport found = report();
  ASSERT_TRUE(found.broken_by.has_value());
  EXPECT_EQ(found.broken_by->name, "cuMemAlloc_v2");
  EXPECT_EQ(found.broken_by->result, ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(found.broken_by->rule, HasSubstr("potentially unsafe"));
  EXPECT_FALSE(found.broken_by->capturing_thread);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_THAT(found.notes[0], HasSubstr("driver's error log"));
}

TEST_F(CaptureWatchTest, KnowsTheCapturingThreadInTheDriversLog) {
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  driver_.log = "[10:00:00.000][" + std::to_string(pthread_self()) + "][CUDA][E] Returning 906 (X) from cuMemcpy\n";
  EXPECT_TRUE(report().broken_by->capturing_thread);
}

TEST_F(CaptureWatchTest, SaysNothingWhereNothingIsKnown) {
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  EXPECT_FALSE(report().broken_by.has_value());
  EXPECT_TRUE(report().notes.empty());
}

TEST_F(CaptureWatchTest, KnowsItsOwnCallsWhereTheDriverHasNoLog) {
  driver_.api().cuLogsCurrent = nullptr;
  driver_.api().cuLogsDumpToMemory = nullptr;
  fail_a_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
  EXPECT_TRUE(report().broken_by.has_value());
}

TEST_F(CaptureWatchTest, KnowsNoCallOfOthersWhereTheDriverHasNoLog) {
  driver_.api().cuLogsCurrent = nullptr;
  driver_.api().cuLogsDumpToMemory = nullptr;
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  EXPECT_FALSE(report().broken_by.has_value());
}

TEST_F(CaptureWatchTest, ForgetsACaptureThatIsOver) {
  fail_a_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
  GraphHandle graph = nullptr;
  EXPECT_EQ(backend_.stream_end_capture(stream_, &graph), ErrorCode::stream_capture_invalidated);
  EXPECT_EQ(backend_.stream_begin_capture(stream_, CaptureMode::global), ErrorCode::success);
  EXPECT_FALSE(report().broken_by.has_value());
}

TEST_F(CaptureWatchTest, KnowsNothingOfACaptureThatEnded) {
  driver_.capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CaptureReport found = report();
  EXPECT_FALSE(found.nodes.has_value()) << "its graph may be gone";
}

TEST_F(CaptureWatchTest, NamesTheFirstCallWhereAConsequenceIsReported) {
  fail_a_call(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true);
  driver_.result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  EXPECT_THAT(backend_.launch_kernel({handle<CUfunction>(1), {}, nullptr}, stream_).detail(),
              HasSubstr("the call that broke the capture: cuStreamQuery returned 900"));
}

}  // namespace
}  // namespace reprise::backend::cuda::test
