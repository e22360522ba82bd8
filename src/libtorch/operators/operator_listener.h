// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/listeners/capture_listener.h"
#include "libtorch/operators/forward_scopes.h"

namespace reprise::libtorch {

class OperatorNames;

/// Observes libtorch's operators in a capture: its report and errors name the operator that broke it, and the backward
/// pass of annotated work is annotated.
class OperatorListener final : public graphs::CaptureListener {
 public:
  OperatorListener() = default;
  ~OperatorListener() override { close(); }

  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void describe(const captures::Capture& capture, const backend::CaptureFindings& findings,
                CaptureReport& report) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& capture) noexcept override;
  void reset() noexcept override { scopes_.reset(); }

 private:
  void close() noexcept;

  std::shared_ptr<OperatorNames> names_;   // while the capture is underway
  std::shared_ptr<ForwardScopes> scopes_;  // as long as the graph: it may be the forward half of another one
};

/// Adds to an error which operator of the capture that was abandoned last on this thread had failed, if one had.
/// Once for each capture.
void add_failed_operators(c10::Error& error);

}  // namespace reprise::libtorch
