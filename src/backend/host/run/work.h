// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <variant>
#include <vector>

#include "backend/host/memory/allocation_node_memory.h"
#include "backend/types.h"

namespace reprise::backend::host {

class HostDevice;

/// A kernel launch with copied arguments, which copies of this object share.
class KernelWork {
 public:
  explicit KernelWork(const KernelNodeParams& params);

  const KernelRecord& kernel() const noexcept { return *kernel_; }
  const LaunchConfig& config() const noexcept { return config_; }
  /// The parameters of the launch; the arguments stay in this object.
  KernelNodeParams params() const;
  void run() const;

 private:
  struct Arguments {
    std::vector<std::byte> block;
    std::vector<void*> each;  // where each of them lies in the block
  };

  const KernelRecord* kernel_;
  LaunchConfig config_;
  std::shared_ptr<Arguments> arguments_;
};

/// A copy whose source was read by the call: pageable memory may be reused after it.
struct StagedCopy {
  void* destination;
  std::vector<std::byte> bytes;
};

/// The work of one operation or one graph node: a value. Empty work does nothing. Event nodes, child graphs and
/// conditional nodes can only be run by a running graph.
using Work = std::variant<EmptyNodeParams, KernelWork, MemcpyNodeParams, MemsetNodeParams, HostNodeParams, StagedCopy,
                          MemoryFreeNodeParams, EventRecordNodeParams, EventWaitNodeParams, ChildGraphNodeParams,
                          ConditionalNodeParams, GraphAllocation, GraphFree>;

/// The work of node params, with copied arguments. The graph of a child graph node stays the caller's. Not of
/// allocation nodes, and the free of other memory than theirs only.
Work make_work(const NodeParams& params);

/// The params of the work. Arguments point into the work.
NodeParams params_of(const Work& work);

struct OperationPlace;

/// Does the work on the calling thread. Its exception becomes the device's error.
void execute(HostDevice& device, const Work& work, const OperationPlace& place) noexcept;

}  // namespace reprise::backend::host
