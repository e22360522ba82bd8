// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_listener.h"

#include <atomic>
#include <cstdlib>
#include <thread>
#include <utility>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/reported_call.h"
#include "captures/registry.h"
#include "inspect/report/explain.h"
#include "inspect/report/failed_capture.h"
#include "inspect/report/report_findings.h"

namespace reprise::inspect {

// A capture whose report must be written, once.
struct ReportListener::Pending {
  std::atomic<bool> written{false};

  static constinit captures::Slot<Pending> slot;
};

constinit captures::Slot<ReportListener::Pending> ReportListener::Pending::slot;

void ReportListener::begin(captures::Capture& capture) {
  why_not_.clear();
  // `reprise explain` requests full reports, for the whole process; it makes those of CUDA's captures itself.
  static const bool requested = explain_request().has_value();
  explained_ = requested && capture.device().type() == DeviceType::host;
  if (capture.options().report == ReportDetail::full || explained_)
    watch_ = capture.device().backend().monitor().watch_calls(&why_not_);
}

void ReportListener::started(captures::Capture& capture) {
  if (!explained_) return;
  [[maybe_unused]] static const int registered = std::atexit(&ReportListener::process_ends);
  pending_ = std::make_shared<Pending>();
  capture.attach(Pending::slot, pending_);
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

void ReportListener::reported(const CaptureReport& report) noexcept {
  const std::shared_ptr<Pending> pending = std::exchange(pending_, nullptr);
  if (!std::exchange(explained_, false) || (pending != nullptr && pending->written.exchange(true))) return;
  explain_if_requested(report);
}

// Writes the refusal also on CUDA: for the monitor of CUDA's calls the capture went well.
void ReportListener::refused(const CaptureReport& report, const char* why) noexcept {
  if (const auto request = explain_request()) explain_refused(*request, report, why);
}

void ReportListener::process_ends() {
  captures::for_each([](const captures::Capture& capture) {
    const std::shared_ptr<Pending> pending = capture.get(Pending::slot);
    if (pending != nullptr && !pending->written.exchange(true)) explain_unended(capture);
  });
}

void ReportListener::explain_unended(const captures::Capture& capture) noexcept try {
  CaptureReport report;
  report.device = capture.device().str();
  report.stream = capture.stream().native();
  add_findings(report, capture.device().backend().monitor().describe_capture(report.stream));
  report.code = ErrorCode::stream_capture_invalidated;  // as for a capture that is never ended
  report.notes.emplace_back("The program ended before the capture did.");
  explain_if_requested(report);
} catch (...) {  // no memory: the report is lost
}

}  // namespace reprise::inspect
