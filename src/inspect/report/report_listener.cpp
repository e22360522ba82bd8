// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/report_listener.h"

#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "inspect/report/explain.h"
#include "support/immortal.h"

namespace reprise::inspect {
namespace {

struct Underway {
  std::mutex mutex;
  std::vector<ReportListener*> listeners;
};

// Never destroyed: graphs in static objects may end late.
Underway& underway() {
  static support::Immortal<Underway> all;
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
  // `reprise explain` asks for full reports; those of CUDA's captures it makes itself.
  explained_ = context.device.type() == DeviceType::host && explain_request();
  if (context.options.report == ReportDetail::full || explained_)
    watch_ = context.device.backend().watch_calls(&why_not_);
}

void ReportListener::started(const graphs::CaptureContext& context) {
  if (!explained_) return;
  [[maybe_unused]] static const int asked = std::atexit(&inspect::process_ends);
  const std::lock_guard lock(underway().mutex);
  underway().listeners.push_back(this);
  capturing_ = context.stream;
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
  capturing_->device().backend().describe_capture(report.stream, &report);
  report.code = Result::stream_capture_invalidated;  // what comes of a capture that nobody ends
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
