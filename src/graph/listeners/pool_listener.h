// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

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
    pools_ = route_.emplace(context.device, context.pool, context.stream.native()).pools();
  }
  void started(const CaptureContext& context) override { route_->add_capture_id(context.capture_id); }
  void ended(const CaptureContext& /*context*/, GraphHandle /*template_graph*/) override { route_.reset(); }
  void abandoned() noexcept override {
    route_.reset();
    pools_.reset();
  }
  std::shared_ptr<void> take_resource() override { return std::move(pools_); }
  void reset() noexcept override { abandoned(); }

 private:
  std::shared_ptr<memory::OpenPools> pools_;
  std::optional<memory::CaptureRoute> route_;  // while the capture is underway
};

}  // namespace reprise::graphs
