// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "backend/monitor.h"
#include "tests/support/faulty_backend.h"

namespace reprise::backend::test {

/// A device that is its own monitor and observes nothing. Tests override what is to be observed.
class OwnMonitor : public FaultyBackend, public Monitor {
 public:
  using FaultyBackend::FaultyBackend;
  Monitor& monitor() noexcept override { return *this; }
  CaptureFindings describe_capture(StreamHandle) const override { return {}; }
  std::shared_ptr<void> watch_calls(std::string*) override { return nullptr; }
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle, GraphExecHandle, std::string*) override { return nullptr; }
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle, GraphExecHandle, std::string*) override {
    return {};
  }
};

}  // namespace reprise::backend::test
