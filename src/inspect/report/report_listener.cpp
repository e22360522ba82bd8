// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_listener.h"

#include <thread>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/capture_rules.h"
#include "backend/rules/cuda_calls.h"
#include "backend/rules/reported_call.h"
#include "inspect/report/report_findings.h"

namespace reprise::inspect {

void ReportListener::begin(captures::Capture& capture) {
  why_not_.clear();
  if (capture.options().report == ReportDetail::full)
    watch_ = capture.device().backend().monitor().watch_calls(&why_not_);
}

void ReportListener::describe(const captures::Capture& capture, const backend::CaptureFindings& findings,
                              CaptureReport& report) {
  report.graph = capture.options().name;
  report.device = capture.device().str();
  report.mode = backend::capture_mode_name(capture.mode());
  report.stream = capture.stream().native();
  if (capture.owner() == std::this_thread::get_id()) report.thread = backend::thread_number();
  add_findings(report, findings);
  if (!why_not_.empty()) report.notes.push_back(why_not_);
}

// The end of the capture broke it, unless another call is known to have, or must have.
void ReportListener::describe_failure(const graphs::CaptureFailure& failure, CaptureReport& report) {
  report.code = failure.code;
  if (report.broken_by) return;
  if (failure.code == ErrorCode::stream_capture_invalidated) {
    report.notes.emplace_back(
        "The call that broke the capture was not made by this library, and the driver did not report it. "
        "GraphOptions::report = ReportDetail::full finds it, and so does `reprise explain -- PROGRAM`.");
    return;
  }
  constexpr backend::Call end = backend::Call::stream_end_capture;
  const backend::CaptureRule* const rule = backend::rule_met(backend::class_of(end), failure.code, true);
  report.broken_by =
      CaptureReport::Call{.name = backend::cuda_name(end),
                          .result = failure.code,
                          .rule = rule != nullptr          ? rule->sentence
                                  : failure.detail.empty() ? std::string(result_description(failure.code))
                                                           : std::string(failure.detail),
                          .advice = rule != nullptr ? rule->advice : "",
                          .thread = backend::thread_number(),
                          .capturing_thread = failure.capturing_thread,
                          .stream = report.stream,
                          .stack = backend::call_stack()};
}

}  // namespace reprise::inspect
