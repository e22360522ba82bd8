// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/monitor/call_monitor.h"
#include "backend/rules/capture_rules.h"
#include "backend/rules/cuda_calls.h"
#include "backend/rules/reported_call.h"
#include "inspect/report/report_findings.h"
#include "tests/fakes/fake_queries.h"

// Each of CUDA's calls in each situation of the table of capture rules: what a monitor says of it.

namespace reprise::backend::cuda::test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = DriverCall::Kind;

// As driver_calls.cpp has them.
Kind kind_of(CallClass call_class) {
  switch (call_class) {
    case CallClass::stream_work:
    case CallClass::stream_launch_only:
    case CallClass::stream_batch:
    case CallClass::stream_allocation:
      return Kind::work;
    case CallClass::capture_query:
      return Kind::query;
    case CallClass::capture_begin:
      return Kind::capture;
    case CallClass::capture_end:
      return Kind::end_capture;
    default:
      return Kind::other;
  }
}

// True if a row is equivalent for a monitor, which has only the call, its result and its stream.
bool can_be_distinguished(const CudaCall& call, const CaptureRule& rule) {
  if (rule.situation == Situation::graph_is_captured_to) return call.driver == "cuStreamBeginCaptureToGraph";
  return true;
}

// A program with one capture, and the monitor that watches it.
class MonitoredProgram {
 public:
  MonitoredProgram() { notify({"cuStreamBeginCapture_v2", Kind::capture, captured_}, ErrorCode::success, active); }

  // The call is made in a situation, with its effect. What it meets is its row of the table.
  CaptureReport report_of(const char* name, const CaptureRule& rule, bool by_the_runtime) {
    const DriverCall call{name, kind_of(rule.call_class), stream_in(rule)};
    const CaptureStatus after = rule.effect == CaptureEffect::none          ? active
                                : rule.effect == CaptureEffect::invalidated ? CaptureStatus::invalidated
                                                                            : CaptureStatus::none;
    if (by_the_runtime) {
      monitor_.runtime_begins(name);
      driver_.streams[captured_] = after;
      monitor_.runtime_ends(name, rule.result);
    } else {
      notify(call, rule.result, after);
    }
    const auto findings = monitor_.describe(captured_);
    EXPECT_TRUE(findings.has_value());
    return inspect::report_of(findings.value_or(CaptureFindings{}));
  }

 private:
  static constexpr auto active = CaptureStatus::active;

  void notify(const DriverCall& call, ErrorCode result, CaptureStatus after) {
    monitor_.begins(call);
    driver_.streams[captured_] = after;
    monitor_.ends(call, result);
  }

  std::optional<StreamHandle> stream_in(const CaptureRule& rule) {
    switch (rule.call_class) {
      case CallClass::potentially_unsafe:
      case CallClass::event_wait:
      case CallClass::device_wait:
        return std::nullopt;
      default:
        break;
    }
    switch (rule.situation) {
      case Situation::stream_is_legacy:
      case Situation::legacy_conflict:
      case Situation::legacy_waits_for_capture:
        return nullptr;
      case Situation::stream_is_not_origin:
        driver_.streams[other_] = active;
        return other_;
      case Situation::stream_does_not_capture:
      case Situation::external_without_capture:
      case Situation::graph_is_captured_to:
      case Situation::thread_forbids:
        return other_;
      default:
        return captured_;
    }
  }

  FakeQueries driver_;
  CallMonitor monitor_{driver_};
  const StreamHandle captured_ = stream(0x100);
  const StreamHandle other_ = stream(0x200);
};

// The report of a call of this row, if one mentions it.
void expect_reported(const CaptureReport& report, const CaptureRule& rule) {
  CaptureReport::Call reported;
  if (rule.effect != CaptureEffect::none) {
    ASSERT_TRUE(report.broken_by);
    reported = *report.broken_by;
    EXPECT_THAT(report.refused, IsEmpty());
  } else {
    EXPECT_FALSE(report.broken_by);
    // An answer is no failure, and an argument that is not valid is no matter of captures.
    if (rule.call_class == CallClass::capture_query || !is_about_captures(rule.result)) return;
    ASSERT_THAT(report.refused, SizeIs(1));
    reported = report.refused[0];
  }
  EXPECT_EQ(reported.result, rule.result);
  EXPECT_EQ(reported.rule, rule.sentence);
  EXPECT_EQ(reported.advice, rule.advice);
}

TEST(CallMonitorTexts, HaveTheRuleAndTheAdviceOfEveryRowForEveryCall) {
  int rows = 0;
  for (const CudaCall& call : cuda_calls())
    for (const CaptureRule& rule : rules_of(call.call_class)) {
      // The effects of a capture that is broken are not reported.
      if (rule.situation == Situation::stream_invalidated || !can_be_distinguished(call, rule)) continue;
      // The runtime's own calls have no stream.
      const bool by_the_runtime = call.driver.empty();
      if (by_the_runtime && rule.situation != Situation::legacy_conflict) continue;
      const std::string name(by_the_runtime ? call.runtime : call.driver);
      SCOPED_TRACE(name + ": " + rule.sentence);
      expect_reported(MonitoredProgram().report_of(name.c_str(), rule, by_the_runtime), rule);
      ++rows;
    }
  EXPECT_GT(rows, 200);
}

}  // namespace
}  // namespace reprise::backend::cuda::test
