// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "backend/cuda/monitor/call_monitor.h"

// A driver for tests of the monitor, whose answers the tests set.

namespace reprise::backend::cuda::test {

inline StreamHandle stream(std::uintptr_t number) {
  return reinterpret_cast<StreamHandle>(number);
}

/// Answers the questions of a monitor.
class FakeQueries final : public CaptureQueries {
 public:
  std::optional<CaptureStatus> status(StreamHandle of) override {
    EXPECT_NE(of, nullptr) << "the legacy default stream must not be queried";
    EXPECT_TRUE(CallMonitor::querying());
    return streams[of];
  }
  GraphHandle captured_graph(StreamHandle of) override { return reinterpret_cast<GraphHandle>(of); }
  std::optional<std::size_t> node_count(GraphHandle) override {
    ++counts;
    return nodes;
  }
  bool is_relaxed() override { return relaxed; }
  std::string device() override { return "cuda:1"; }

  std::map<StreamHandle, CaptureStatus> streams;
  std::size_t nodes = 0;
  bool relaxed = false;  ///< the calling thread
  int counts = 0;        ///< how often nodes were counted
};

}  // namespace reprise::backend::cuda::test
