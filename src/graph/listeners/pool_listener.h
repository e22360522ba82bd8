// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "graph/listeners/capture_listener.h"
#include "memory/capture_pools.h"
#include "memory/node_memory.h"
#include "memory/watches/allocation_log.h"

namespace reprise::graphs {

/// Memory for the allocations of a capture: the graph's pool, and what its allocation nodes leave, which are kept as
/// long as anything of the graph can touch the memory.
///
/// The first allocation opens a pool that is the graph's own. One that the user names is filled from the beginning:
/// another capture may be filling it, and then this one does not begin.
class PoolListener final : public ListenerOf<PoolListener> {
 public:
  using Allocations = std::vector<memory::AllocationLog::Allocation>;

  /// The allocations that the capture made, for comparison with another one.
  const Allocations& allocations() const noexcept { return allocations_; }
  /// What its replays leave allocated; null: nothing.
  memory::NodeMemory* node_memory() const noexcept { return node_memory_.get(); }

  void begin(captures::Capture& capture) override {
    if (capture.options().pool) memory::CapturePools::fill(CachingAllocator::of(capture.device()).impl(), capture);
  }
  void ended(captures::Capture& capture, CapturedGraph& graph) override {
    allocations_ = memory::AllocationLog::allocations_of(capture);
    if (auto pools = memory::CapturePools::end(capture)) graph.resources.push_back(std::move(pools));
    node_memory_ = memory::NodeMemory::end(capture);
    if (node_memory_ != nullptr) graph.resources.push_back(node_memory_);
  }
  void abandoned(captures::Capture& capture) noexcept override {
    memory::CapturePools::end(capture);
    memory::NodeMemory::end(capture);
    reset();
  }
  std::function<void()> adopt_from(const PoolListener& other, Adoption& /*adoption*/) override {
    return [this, theirs = other.allocations_]() mutable { allocations_ = std::move(theirs); };
  }
  void reset() noexcept override {
    allocations_ = {};
    node_memory_ = nullptr;
  }

 private:
  Allocations allocations_;
  std::shared_ptr<memory::NodeMemory> node_memory_;
};

}  // namespace reprise::graphs
