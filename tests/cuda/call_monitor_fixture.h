// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <initializer_list>
#include <vector>

#include "backend/cuda/monitor/call_monitor.h"
#include "inspect/report/report_findings.h"
#include "tests/fakes/fake_queries.h"

// What the tests of the monitor of calls share.

namespace reprise::backend::cuda::test {

/// A program, and the monitor that watches it.
class CallMonitorTest : public ::testing::Test {
 protected:
  using Kind = DriverCall::Kind;

  CallMonitorTest() {
    monitor_.on_finished(
        [this](const CaptureFindings& findings) { finished_.push_back(inspect::report_of(findings)); });
  }

  void call(const DriverCall& what, ErrorCode result = ErrorCode::success) {
    monitor_.begins(what);
    monitor_.ends(what, result);
  }
  void begin_capture(StreamHandle on, const void* context = nullptr) {
    const DriverCall begin{"cuStreamBeginCapture_v2", Kind::capture, on, context, CaptureMode::thread};
    monitor_.begins(begin);
    driver_.streams[on] = CaptureStatus::active;
    monitor_.ends(begin, ErrorCode::success);
  }
  void end_capture(StreamHandle on, ErrorCode result = ErrorCode::success) {
    const DriverCall end{"cuStreamEndCapture", Kind::end_capture, on};
    monitor_.begins(end);
    driver_.streams[on] = CaptureStatus::none;
    monitor_.ends(end, result);
  }
  void breaking_call(const DriverCall& what, ErrorCode result, std::initializer_list<StreamHandle> broken) {
    monitor_.begins(what);
    for (const StreamHandle one : broken) driver_.streams[one] = CaptureStatus::invalidated;
    monitor_.ends(what, result);
  }
  CaptureReport described(StreamHandle of) {
    const auto findings = monitor_.describe(of);
    EXPECT_TRUE(findings.has_value());
    return inspect::report_of(findings.value_or(CaptureFindings{}));
  }

  FakeQueries driver_;
  CallMonitor monitor_{driver_};
  std::vector<CaptureReport> finished_;
  const StreamHandle captured_ = stream(0x100);
  const StreamHandle other_ = stream(0x200);
  const DriverCall allocation_{"cuMemAlloc_v2"};
  const DriverCall launch_{"cuLaunchKernel", Kind::work, stream(0x200)};
};

}  // namespace reprise::backend::cuda::test
