// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "backend/cuda/driver_api.h"
#include "backend/monitor.h"

namespace reprise::backend::cuda {

/// Observes CUDA devices: this library's calls by CaptureWatch, all others and the times of nodes
/// through CUPTI.
class CudaMonitor final : public Monitor {
 public:
  /// \param driver outlives this object.
  explicit CudaMonitor(const DriverApi& driver) : driver_(driver) {}

  CaptureFindings describe_capture(StreamHandle stream) const override;
  std::shared_ptr<void> watch_calls(std::string* why) override;
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec, std::string* why) override;
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle template_graph, GraphExecHandle exec,
                                                                  std::string* why) override;

 private:
  const DriverApi& driver_;
};

}  // namespace reprise::backend::cuda
