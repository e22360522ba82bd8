// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_listener.h"

#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "inspect/report/explain.h"
#include "inspect/report/report_findings.h"

namespace reprise::inspect {
namespace {

struct Underway {
  std::mutex mutex;
  std::vector<ReportListener*> listeners;
};

// Never destroyed: graphs in static objects may end late.
Underway& underway() {
  static auto* const all = new Underway;
  return *all;
}

void process_ends() {
  std::vector<ReportListener*> left;
  {
    const std::lock_guard lock(underway().mutex);
    left.swap(underway().listeners);
  }
  for (ReportListener* listener : left) listener->process_ends();
}

}  // namespace

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
  [[maybe_unused]] static const int asked = std::atexit(&inspect::process_ends);
  const std::lock_guard lock(underway().mutex);
  underway().listeners.push_back(this);
  capturing_ = context.stream;
}

void ReportListener::describe(CaptureReport& report) {
  add_findings(report, device_->backend().monitor().describe_capture(report.stream));
  if (!why_not_.empty()) report.notes.push_back(why_not_);
}

void ReportListener::reported(const CaptureReport& report) noexcept {
  forget();
  if (std::exchange(explained_, false)) explain_if_asked(report);
}

void ReportListener::process_ends() noexcept try {
  if (!std::exchange(explained_, false) || !capturing_) return;
  CaptureReport report;
  report.device = capturing_->device().str();
  report.stream = capturing_->native();
  add_findings(report, capturing_->device().backend().monitor().describe_capture(report.stream));
  report.code = Result::stream_capture_invalidated;  // as for a capture that is never ended
  report.notes.emplace_back("The program ended before the capture did.");
  explain_if_asked(report);
} catch (...) {  // no memory: the report is lost
}

void ReportListener::forget() noexcept {
  if (!std::exchange(capturing_, std::nullopt)) return;
  const std::lock_guard lock(underway().mutex);
  std::erase(underway().listeners, this);
}

}  // namespace reprise::inspect
