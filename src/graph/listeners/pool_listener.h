// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "graph/capture_listener.h"
#include "memory/capture_route.h"

namespace reprise::graphs {

/// Routes what is allocated in a capture to the graph's memory pool, and keeps that pool as long as anything of the
/// graph can touch its memory.
///
/// The routing starts before the runtime captures: the runtime's capture itself may make the driver's own queries
/// unsafe, and nothing that the user allocates may slip past the pool.
class PoolListener final : public CaptureListener {
 public:
  void begin(const CaptureContext& context) override {
    route_ = memory::CaptureRoute::attach_to(*context.capture);
    pools_ = route_->pools();
  }
  void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { end_route(); }
  void abandoned() noexcept override {
    end_route();
    pools_.reset();
  }
  std::shared_ptr<void> take_resource() override { return std::move(pools_); }
  void reset() noexcept override { abandoned(); }

 private:
  void end_route() noexcept {
    if (route_ != nullptr) route_->end();
    route_.reset();
  }

  std::shared_ptr<memory::OpenPools> pools_;
  std::shared_ptr<memory::CaptureRoute> route_;  // while the capture is underway
};

}  // namespace reprise::graphs
