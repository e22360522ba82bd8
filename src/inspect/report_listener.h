// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "graph/capture_listener.h"
#include "inspect/explain.h"

namespace reprise::inspect {

/// Has the device watch all calls during a capture that wants a full report, and writes reports down for `reprise
/// explain`.
class ReportListener final : public graphs::CaptureListener {
 public:
  void begin(const graphs::CaptureContext& context) override {
    on_host_device_ = context.device.type() == DeviceType::host;
    why_not_.clear();
    // `reprise explain` asks for full reports; those of CUDA's captures it makes itself.
    const bool explained = on_host_device_ && explain_request();
    if (context.options.report == ReportDetail::full || explained)
      watch_ = context.device.backend().watch_calls(&why_not_);
  }
  void started(const graphs::CaptureContext& /*context*/) override {}
  void describe(CaptureReport& report) override {
    if (!why_not_.empty()) report.notes.push_back(why_not_);
  }
  void reported(const CaptureReport& report) noexcept override {
    if (on_host_device_) explain_if_asked(report);  // captures of CUDA are seen by the command itself
  }
  void ended(const graphs::CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { watch_.reset(); }
  void abandoned() noexcept override { watch_.reset(); }
  void reset() noexcept override {}

 private:
  bool on_host_device_ = false;
  std::shared_ptr<void> watch_;  // while the capture is underway
  std::string why_not_;          // a sentence, where it was wanted and is not possible
};

}  // namespace reprise::inspect
