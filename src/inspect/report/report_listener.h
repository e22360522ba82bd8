// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "graph/listeners/capture_listener.h"

namespace reprise::inspect {

/// Fills the report of a capture with what the device found. Makes the device watch all calls during a capture with
/// ReportDetail::full, and writes reports of captures on host devices for `reprise explain`, also of those underway at
/// the end of the process.
class ReportListener final : public graphs::CaptureListener {
 public:
  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void describe(const captures::Capture& capture, const backend::CaptureFindings& findings,
                CaptureReport& report) override;
  void describe_failure(const graphs::CaptureFailure& failure, CaptureReport& report) override;
  void reported(const CaptureReport& report) noexcept override;
  void refused(const CaptureReport& report, const char* why) noexcept override;
  void ended(captures::Capture& /*capture*/, graphs::CapturedGraph& /*graph*/) override { watch_.reset(); }
  void abandoned(captures::Capture& /*capture*/) noexcept override {
    pending_.reset();
    watch_.reset();
  }

 private:
  struct Pending;
  /// Writes reports of the captures underway.
  static void process_ends();
  static void explain_unended(const captures::Capture& capture) noexcept;

  bool explained_ = false;            // reports are written
  std::shared_ptr<Pending> pending_;  // attached to the capture underway, if it is explained
  std::shared_ptr<void> watch_;       // while the capture is underway
  std::string why_not_;               // a sentence; empty if calls are watched or need not be
};

}  // namespace reprise::inspect
