// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "graph/capture_listener.h"
#include "memory/capture_pools.h"

namespace reprise::graphs {

/// What is allocated in a capture comes from the graph's memory pool, which is kept as long as anything of the graph
/// can touch its memory.
///
/// The first allocation opens a pool that is the graph's own. One that the user names is filled from the beginning:
/// another capture may be filling it, and then this one does not begin.
class PoolListener final : public CaptureListener {
 public:
  void begin(captures::Capture& capture) override {
    if (capture.options().pool) memory::CapturePools::fill(CachingAllocator::of(capture.device()).impl(), capture);
  }
  void ended(captures::Capture& capture, CapturedGraph& graph) override {
    if (auto pools = memory::CapturePools::end(capture)) graph.resources.push_back(std::move(pools));
  }
  void abandoned(captures::Capture& capture) noexcept override { memory::CapturePools::end(capture); }
};

}  // namespace reprise::graphs
