// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "graph/listeners/capture_listener.h"

namespace reprise::libtorch {

class OperatorWatch;

/// Refuses captures of optimizers that count their steps on the host: include/reprise/libtorch/host_counters.h.
///
/// Operators that these optimizers use look for their `step` on the stack of the call. Such an operator has a kernel
/// for a dispatch key that is included on a thread while that captures: there is no cost elsewhere. On other threads
/// that take part in a capture the first operator includes it, which then finds the operators after it; the first of
/// these kernels that runs after the captures excludes it again.
class HostCounterListener final : public graphs::CaptureListener {
 public:
  ~HostCounterListener() override { leave(); }

  void started(captures::Capture& capture) override;
  void describe(const captures::Capture& capture, const backend::CaptureFindings& findings,
                CaptureReport& report) override;
  /// \throws UsageError if the body has caught the error of a refused `step`.
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& /*capture*/) noexcept override { leave(); }

 private:
  void leave() noexcept;

  captures::Capture* capture_ = nullptr;   // while it is underway
  std::optional<std::thread::id> thread_;  // likewise
  std::shared_ptr<OperatorWatch> watch_;   // likewise
};

/// Registers the kernels of those operators. Called once, before main(): other threads must not run operators
/// meanwhile.
void register_host_counters();

}  // namespace reprise::libtorch
