// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_listener.h"

#include <thread>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/reported_call.h"
#include "inspect/report/failed_capture.h"
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

void ReportListener::describe_failure(const graphs::CaptureFailure& failure, CaptureReport& report) {
  add_failed_end(report, failure.code, failure.detail, failure.capturing_thread);
}

}  // namespace reprise::inspect
