// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/host/host_runtime.h"
#include "backend/monitor.h"

namespace reprise::backend::host {

/// Watches what a stream captures behind one node, for the first call that adds to it: see Monitor::watch_work.
class HostWorkWatch final : public WorkWatch {
 public:
  HostWorkWatch(HostRuntime& runtime, HostDevice& device, StreamHandle stream, GraphNodeHandle last);
  ~HostWorkWatch() override;
  HostWorkWatch(const HostWorkWatch&) = delete;
  HostWorkWatch& operator=(const HostWorkWatch&) = delete;

  std::optional<CaptureFindings::ObservedCall> first() const override;

  /// Notes a call that the calling thread just made in every watch that it concerns. With the runtime's mutex held,
  /// without which it has not been since the call acted. Without memory, the call stays unknown.
  static void note(const HostRuntime& runtime, Call call) noexcept;
  /// True if the calling thread's call was noted and has no stack. With the mutex held.
  bool lacks_stack() const;
  /// Adds the stack and the annotation to it. With the mutex held.
  void complete(const std::vector<std::string>& stack, const std::string& annotation);

 private:
  bool has_work() const;

  HostRuntime& runtime_;
  const HostStream* stream_ = nullptr;  // null, or destroyed: nothing is noted
  const GraphNodeHandle last_;
  bool over_ = false;                                  // the first call has been made
  std::optional<CaptureFindings::ObservedCall> call_;  // as over_, guarded by the runtime's mutex
};

}  // namespace reprise::backend::host
