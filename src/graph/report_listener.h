// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "graph/capture_listener.h"
#include "inspect/explain.h"

namespace reprise::graphs {

/// Has the device watch all calls during a capture of which a full report is wanted.
class ReportListener final : public CaptureListener {
 public:
  void begin(const CaptureContext& context) override {
    why_not_.clear();
    // `reprise explain` asks for full reports; those of CUDA's captures it makes itself.
    const bool explained = context.device.type() == DeviceType::host && inspect::explain_request();
    if (context.options.report == ReportDetail::full || explained)
      watch_ = context.device.backend().watch_calls(&why_not_);
  }
  void started(const CaptureContext& /*context*/) override {}
  void describe(CaptureReport& report) override {
    if (!why_not_.empty()) report.notes.push_back(why_not_);
  }
  void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { watch_.reset(); }
  void abandoned() noexcept override { watch_.reset(); }
  void reset() noexcept override {}

 private:
  std::shared_ptr<void> watch_;  // while the capture is underway
  std::string why_not_;          // a sentence, where it was wanted and is not possible
};

}  // namespace reprise::graphs
