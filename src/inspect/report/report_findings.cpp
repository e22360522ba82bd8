// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_findings.h"

#include "backend/rules/capture_rules.h"
#include "backend/rules/reported_call.h"

namespace reprise::inspect {
namespace {

using Finding = backend::CaptureFindings::ObservedCall;

CaptureReport::Call call_of(const Finding& finding) {
  return {.name = finding.name,
          .driver_name = finding.driver_name,
          .result = finding.result,
          .rule = backend::rule_text(finding),
          .advice = finding.rule != nullptr ? finding.rule->advice : "",
          .thread = finding.thread,
          .capturing_thread = finding.capturing_thread,
          .stream = finding.stream,
          .stack = finding.stack,
          .times = finding.times};
}

// No call failed, so there is no rule of the table: the reason is where the work went.
CaptureReport::Call missing_work(const Finding& finding) {
  CaptureReport::Call call = call_of(finding);
  const bool legacy_stream = finding.stream == StreamHandle{nullptr};
  call.rule =
      legacy_stream
          ? "while a non-blocking stream captures, work on the legacy default stream is executed at once and is "
            "not captured"
          : "the stream does not take part in the capture, so the work is executed at once and is not captured";
  call.advice = legacy_stream
                    ? "submit it to the captured stream; capture on a blocking stream to have it refused"
                    : "submit it to the captured stream, or let this stream wait for an event that was recorded "
                      "in the capture";
  return call;
}

}  // namespace

void add_findings(CaptureReport& report, const backend::CaptureFindings& findings) {
  if (findings.thread != 0) report.thread = findings.thread;
  if (findings.nodes) report.nodes = findings.nodes;
  if (findings.broken_by) report.broken_by = call_of(*findings.broken_by);
  for (const Finding& call : findings.refused) report.refused.push_back(call_of(call));
  for (const Finding& call : findings.not_captured) report.not_captured.push_back(missing_work(call));
  report.notes.insert(report.notes.end(), findings.notes.begin(), findings.notes.end());
}

CaptureReport report_of(const backend::CaptureFindings& findings) {
  CaptureReport report;
  report.code = findings.code;
  report.device = findings.device;
  report.mode = findings.mode;
  report.stream = findings.stream;
  add_findings(report, findings);
  return report;
}

}  // namespace reprise::inspect
