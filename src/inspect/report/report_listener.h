// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "graph/capture_listener.h"

namespace reprise::inspect {

/// Has the device watch all calls during a capture that wants a full report, and writes reports of captures on host
/// devices down for `reprise explain`, also of those that are underway when the process ends.
class ReportListener final : public graphs::CaptureListener {
 public:
  ~ReportListener() override { forget(); }
  void begin(const graphs::CaptureContext& context) override;
  void started(const graphs::CaptureContext& context) override;
  void describe(CaptureReport& report) override {
    if (!why_not_.empty()) report.notes.push_back(why_not_);
  }
  void reported(const CaptureReport& report) noexcept override;
  void ended(const graphs::CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { watch_.reset(); }
  void abandoned() noexcept override {
    forget();
    watch_.reset();
  }

  /// Writes a report of the capture that is underway.
  void process_ends() noexcept;

 private:
  /// The process may end without a report of this capture.
  void forget() noexcept;

  bool explained_ = false;              // reports are written down
  std::optional<StreamRef> capturing_;  // while the capture is underway and explained
  std::shared_ptr<void> watch_;         // while the capture is underway
  std::string why_not_;                 // a sentence, where it was wanted and is not possible
};

}  // namespace reprise::inspect
