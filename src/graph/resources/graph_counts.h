// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "reprise/device.h"
#include "reprise/graph_memory.h"

namespace reprise {
class CUDAGraph;
}

namespace reprise::graphs {

/// Numbers of graphs and of their nodes.
struct GraphCounts {
  std::size_t graphs = 0;
  std::size_t nodes = 0;
  std::size_t template_nodes = 0;
  std::size_t executables = 0;
  std::size_t executable_nodes = 0;
  std::size_t left_bytes = 0;  ///< that replays leave allocated

  template <class Operation>
  GraphCounts& change(const GraphCounts& by, Operation operation) noexcept;  // of each count
  GraphCounts& operator+=(const GraphCounts& more) noexcept;
};

/// The counts of one graph, which are part of those of its device. Owned by the graph, and used under its launch mutex,
/// or by the one thread that uses the graph.
///
///     not counted -> captured() -> instantiated(), executable_destroyed(), template_discarded() -> reset()
class CountedGraph {
 public:
  /// Notes that there is a template. \param nodes the number of all its nodes. \param left_bytes as GraphCounts.
  void captured(const Device& device, std::size_t nodes, std::uint64_t left_bytes);
  void template_discarded() noexcept;
  void instantiated() noexcept;  ///< also when it replaces another executable
  void executable_destroyed() noexcept;
  /// Notes that the graph is empty. Call it while the device is open.
  void reset() noexcept { become({}); }

  const GraphCounts& counts() const noexcept { return counts_; }

 private:
  void become(const GraphCounts& now);

  std::optional<Device> device_;  // nullopt: not counted
  GraphCounts counts_;
};

/// Returns the counts of one graph, which are zeros if it is empty. Waits for a call of replay() by another thread.
GraphCounts counts_of(const CUDAGraph& graph);

/// What the CUDA driver needs for these graphs, by the formula of GraphMemoryEstimate.
GraphMemoryEstimate estimate_of(const GraphCounts& counts) noexcept;

/// The memory of a pool, and the estimate, of these graphs.
/// \param pool the id that names none: all private pools of the device.
GraphMemory memory_of(const Device& device, const GraphCounts& counts, MempoolId pool);

}  // namespace reprise::graphs
