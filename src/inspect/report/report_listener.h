// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "graph/listeners/capture_listener.h"

namespace reprise::inspect {

/// Fills the report of a capture with what the device found. Makes the device watch all calls during a capture with
/// ReportDetail::full.
class ReportListener final : public graphs::CaptureListener {
 public:
  void begin(captures::Capture& capture) override;
  void describe(const captures::Capture& capture, const backend::CaptureFindings& findings,
                CaptureReport& report) override;
  void describe_failure(const graphs::CaptureFailure& failure, CaptureReport& report) override;
  void ended(captures::Capture& /*capture*/, graphs::CapturedGraph& /*graph*/) override { watch_.reset(); }
  void abandoned(captures::Capture& /*capture*/) noexcept override { watch_.reset(); }

 private:
  std::shared_ptr<void> watch_;  // while the capture is underway
  std::string why_not_;          // a sentence; empty if calls are watched or need not be
};

}  // namespace reprise::inspect
