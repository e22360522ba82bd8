// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/failed_capture.h"

#include <utility>

#include "backend/rules/call_stack.h"
#include "backend/rules/capture_rules.h"
#include "backend/rules/cuda_calls.h"

namespace reprise::inspect {

void add_failed_end(CaptureReport& report, ErrorCode code, std::string_view detail, bool capturing_thread) {
  report.code = code;
  if (report.broken_by) return;
  if (code == ErrorCode::stream_capture_invalidated) {
    report.notes.emplace_back(
        "The call that broke the capture was not made by this library, and the driver did not report it. "
        "GraphOptions::report = ReportDetail::full finds it, and so does `reprise explain -- PROGRAM`.");
    return;
  }
  constexpr backend::Call end = backend::Call::stream_end_capture;
  const backend::CaptureRule* const rule = backend::rule_met(backend::class_of(end), code, true);
  report.broken_by = CaptureReport::Call{.name = backend::cuda_name(end),
                                         .result = code,
                                         .rule = rule != nullptr  ? rule->sentence
                                                 : detail.empty() ? std::string(result_description(code))
                                                                  : std::string(detail),
                                         .advice = rule != nullptr ? rule->advice : "",
                                         .thread = backend::thread_number(),
                                         .capturing_thread = capturing_thread,
                                         .stream = report.stream,
                                         .stack = backend::call_stack()};
}

void add_failure(std::optional<CaptureReport>& report, const Error& error, Device device, const std::string& graph) {
  if (report && (report->code != ErrorCode::success || report->broken_by)) return;
  const auto* const failed = dynamic_cast<const BackendError*>(&error);
  if (failed == nullptr && dynamic_cast<const OutOfMemoryError*>(&error) == nullptr) return;
  CaptureReport made = report.value_or(CaptureReport{});
  made.graph = graph;
  made.device = device.str();
  made.code = failed != nullptr ? failed->code() : ErrorCode::out_of_memory;
  if (failed != nullptr)
    made.broken_by = CaptureReport::Call{.name = failed->call(),
                                         .result = failed->code(),
                                         .rule = result_description(failed->code()),
                                         .thread = backend::thread_number()};
  made.notes.emplace_back(error.what());
  report = std::move(made);
}

}  // namespace reprise::inspect
