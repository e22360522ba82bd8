// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_listener.h"

#include <atomic>
#include <cstdlib>
#include <utility>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "captures/registry.h"
#include "inspect/report/explain.h"
#include "inspect/report/report_findings.h"

namespace reprise::inspect {

// A capture whose report is to be written down, once.
struct ReportListener::Owed {
  std::atomic<bool> written{false};

  static constinit captures::Slot<Owed> slot;
};

constinit captures::Slot<ReportListener::Owed> ReportListener::Owed::slot;

void ReportListener::begin(const graphs::CaptureContext& context) {
  why_not_.clear();
  device_ = context.device;
  // `reprise explain` requests full reports; it makes those of CUDA's captures itself.
  explained_ = context.device.type() == DeviceType::host && explain_request();
  if (context.options.report == ReportDetail::full || explained_)
    watch_ = context.device.backend().monitor().watch_calls(&why_not_);
}

void ReportListener::started(const graphs::CaptureContext& context) {
  if (!explained_) return;
  [[maybe_unused]] static const int registered = std::atexit(&ReportListener::process_ends);
  owed_ = std::make_shared<Owed>();
  context.capture->attach(Owed::slot, owed_);
}

void ReportListener::describe(CaptureReport& report) {
  add_findings(report, device_->backend().monitor().describe_capture(report.stream));
  if (!why_not_.empty()) report.notes.push_back(why_not_);
}

void ReportListener::reported(const CaptureReport& report) noexcept {
  const std::shared_ptr<Owed> owed = std::exchange(owed_, nullptr);
  if (!std::exchange(explained_, false) || (owed != nullptr && owed->written.exchange(true))) return;
  explain_if_asked(report);
}

void ReportListener::process_ends() {
  captures::for_each([](const captures::Capture& capture) {
    const std::shared_ptr<Owed> owed = capture.get(Owed::slot);
    if (owed != nullptr && !owed->written.exchange(true)) explain_unended(capture);
  });
}

void ReportListener::explain_unended(const captures::Capture& capture) noexcept try {
  CaptureReport report;
  report.device = capture.device().str();
  report.stream = capture.stream().native();
  add_findings(report, capture.device().backend().monitor().describe_capture(report.stream));
  report.code = Result::stream_capture_invalidated;  // as for a capture that is never ended
  report.notes.emplace_back("The program ended before the capture did.");
  explain_if_asked(report);
} catch (...) {  // no memory: the report is lost
}

}  // namespace reprise::inspect
