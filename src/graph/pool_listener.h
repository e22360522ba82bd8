// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "graph/capture_listener.h"

namespace reprise::graphs {

/// Routes what is allocated in a capture to the graph's memory pool, and keeps that pool as long as anything of the
/// graph can touch its memory.
///
/// The routing starts before the runtime captures: the runtime's capture itself may make the driver's own queries
/// unsafe, and nothing that the user allocates may slip past the pool.
class PoolListener final : public CaptureListener {
 public:
  PoolListener();
  ~PoolListener() override;

  void begin(const CaptureContext& context) override;
  void started(const CaptureContext& context) override;
  void ended(const CaptureContext& context, GraphHandle template_graph) override;
  void abandoned() noexcept override;
  std::shared_ptr<void> take_resource() override { return std::move(pool_); }
  void reset() noexcept override { abandoned(); }

 private:
  class OpenPool;
  class Routing;

  std::shared_ptr<OpenPool> pool_;    // one reference to the pool
  std::unique_ptr<Routing> routing_;  // while the capture is underway
};

}  // namespace reprise::graphs
