// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <thread>

#include "backend/monitor.h"
#include "tests/unit/inspect/capture_report_fixture.h"
#include "tests/unit/memory/memory_fixture.h"

// Reports with ReportDetail::full, which also name work that was not captured; and the text of a report.

namespace reprise::graphs::test {
namespace {

using memory::test::Warnings;

// What only `full` finds. Everything but the host device needs CUPTI for it.
class FullCaptureReports : public CaptureReports {
 protected:
  void SetUp() override {
    std::string why;
    if (runtime_.monitor().watch_calls(&why) == nullptr) GTEST_SKIP() << why;
    options_.report = ReportDetail::full;
  }
  GraphOptions options_;
};

TEST_F(FullCaptureReports, TellOfWorkOnTheLegacyStreamThatWasNotCaptured) {
  const Warnings warnings;
  capture(graph_, options_, [&] {
    add(x_);
    for (int i = 0; i < 3; ++i)  // as other code would: functions of this library are refused
      EXPECT_EQ(runtime_.set_async({x_.data(), 0, 1, sizeof(int)}, nullptr), ErrorCode::success);
  });
  default_device().synchronize();
  ASSERT_TRUE(graph_.capture_report().has_value());
  const CaptureReport& report = *graph_.capture_report();
  EXPECT_EQ(report.code, ErrorCode::success);
  EXPECT_EQ(report.nodes, 1u);
  ASSERT_EQ(report.not_captured.size(), 1u);
  EXPECT_EQ(report.not_captured[0].times, 3u);
  EXPECT_EQ(report.not_captured[0].stream, StreamHandle{});
  EXPECT_TRUE(contains(report.not_captured[0].rule, "is not captured"));
  EXPECT_TRUE(contains(report.str(), "Work was executed at once and is missing in the graph"));
  EXPECT_TRUE(contains(report.str(), "3 times"));
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_TRUE(contains(warnings.texts()[0], report.str()));
}

TEST_F(FullCaptureReports, TellOfWorkOfTheCapturingThreadOnAnotherStream) {
  const Warnings warnings;
  const Stream other;
  capture(graph_, options_, [&] {
    add(x_);
    add(x_, 1, other);
    std::thread([&] { add(x_, 1, other); }).join();  // it may have nothing to do with the capture
  });
  default_device().synchronize();
  ASSERT_TRUE(graph_.capture_report().has_value());
  ASSERT_EQ(graph_.capture_report()->not_captured.size(), 1u);
  EXPECT_EQ(graph_.capture_report()->not_captured[0].stream, other.native());
  EXPECT_EQ(graph_.capture_report()->not_captured[0].times, 1u);
}

TEST_F(FullCaptureReports, SayNothingOfWorkOfAnotherThreadOnAnotherDevice) {
  std::optional<Device> other;
  for (const Device& device : devices())
    if (device.type() == default_device().type() && device != default_device()) other = device;
  if (!other) GTEST_SKIP() << "there is one device";
  const Warnings warnings;
  options_.capture_error_mode = CaptureMode::thread;
  capture(graph_, options_, [&] {
    add(x_);
    std::thread([&] {
      const DeviceGuard guard(*other);
      Buffer<int> far(1);
      far.fill_bytes_async(0, other->default_stream());
      other->default_stream().synchronize();
    }).join();
  });
  EXPECT_FALSE(graph_.capture_report().has_value()) << graph_.capture_report()->str();
}

TEST_F(FullCaptureReports, TellOfCallsThatFailedAndBrokeNothing) {
  const Warnings warnings;
  capture(graph_, options_, [&] {
    add(x_);
    EXPECT_EQ(runtime_.stream_begin_capture(current_stream().native(), CaptureMode::relaxed), ErrorCode::illegal_state);
  });
  ASSERT_TRUE(graph_.capture_report().has_value());
  ASSERT_EQ(graph_.capture_report()->refused.size(), 1u);
  const CaptureReport::Call& call = graph_.capture_report()->refused[0];
  EXPECT_TRUE(contains(call.name, "cuStreamBeginCapture"));  // CUPTI's names have versions
  EXPECT_EQ(call.result, ErrorCode::illegal_state);
  EXPECT_TRUE(contains(call.rule, "takes part in a capture already"));
  EXPECT_TRUE(contains(graph_.capture_report()->str(), "without breaking the capture"));
}

TEST_F(FullCaptureReports, SayNothingWhenEverythingWasCaptured) {
  const Warnings warnings;
  capture(graph_, options_, [&] { add(x_); });
  EXPECT_FALSE(graph_.capture_report().has_value());
  EXPECT_TRUE(warnings.texts().empty());
}

TEST(CaptureReportText, HasEverythingInItsPlace) {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  report.device = "cuda:0";
  report.mode = "global";
  report.stream = reinterpret_cast<StreamHandle>(0x1000);
  report.thread = 10;
  report.nodes = 3;
  CaptureReport::Call call;
  call.name = "cudaMalloc";
  call.driver_name = "cuMemAlloc_v2";
  call.result = ErrorCode::stream_capture_unsupported;
  call.rule = "the rule";
  call.advice = "the advice";
  call.thread = 11;
  call.capturing_thread = false;
  call.stack = {"inner at program+0x10", "outer at program+0x20"};
  report.broken_by = call;
  CaptureReport::Call work;
  work.name = "cudaLaunchKernel";
  work.driver_name = "cudaLaunchKernel";
  work.thread = 10;
  work.stream = StreamHandle{};
  work.times = 2;
  report.not_captured = {work};
  report.notes = {"A note."};
  EXPECT_EQ(report.str(),
            "The capture of stream 0x1000 of cuda:0 (mode global) was broken after 3 nodes and ended with "
            "cudaErrorStreamCaptureInvalidated (901).\n"
            "  call     cudaMalloc (cuMemAlloc_v2) returned cudaErrorStreamCaptureUnsupported (900)\n"
            "  rule     the rule\n"
            "  instead  the advice\n"
            "  thread   11, not the one that captures (10)\n"
            "  stack    inner at program+0x10\n"
            "           outer at program+0x20\n"
            "Work was executed at once and is missing in the graph:\n"
            "  call     cudaLaunchKernel, 2 times\n"
            "  thread   10\n"
            "  stream   the legacy default stream\n"
            "  note     A note.\n");
}

TEST(CaptureReportText, SaysThatTheCallIsNotKnown) {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  EXPECT_EQ(report.str(),
            "The capture of the legacy default stream failed and ended with cudaErrorStreamCaptureInvalidated (901); "
            "the call that broke it is not known.\n");
}

}  // namespace
}  // namespace reprise::graphs::test
