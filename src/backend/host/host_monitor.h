// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "backend/host/host_runtime.h"
#include "backend/monitor.h"

namespace reprise::backend::host {

/// Observes captures and launches of a simulated device. All calls are seen in any case; watching them notes more.
class HostMonitor final : public Monitor {
 public:
  HostMonitor(HostRuntime& runtime, HostDevice& device) : runtime_(runtime), device_(device) {}

  CaptureFindings describe_capture(StreamHandle stream) const override;
  std::shared_ptr<void> watch_calls(std::string* why) override;
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec, std::string* why) override;
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle template_graph, GraphExecHandle exec,
                                                                  std::string* why) override;

 private:
  HostRuntime& runtime_;
  HostDevice& device_;
};

}  // namespace reprise::backend::host
