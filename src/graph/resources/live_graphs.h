// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "reprise/device.h"

namespace reprise::graphs {

/// Numbers of graphs and of their nodes.
struct GraphCounts {
  std::size_t graphs = 0;
  std::size_t nodes = 0;
  std::size_t templates = 0;
  std::size_t template_nodes = 0;
  std::size_t executables = 0;
  std::size_t executable_nodes = 0;
  std::uint64_t left_bytes = 0;  ///< that replays leave allocated

  GraphCounts& operator+=(const GraphCounts& more) noexcept;
};

/// Counts of the captured graphs of a device.
struct LiveGraphs {
  std::atomic<std::size_t> graphs{0}, nodes{0}, templates{0}, template_nodes{0}, executables{0}, executable_nodes{0};
};

/// The counts of one graph among those of its device. Owned by the graph, and used under its launch mutex, or by
/// the one thread that uses the graph.
///
///     not counted -> captured() -> instantiated(), executable_destroyed(), template_discarded() -> reset()
class CountedGraph {
 public:
  CountedGraph() = default;
  ~CountedGraph() { reset(); }
  CountedGraph(const CountedGraph&) = delete;
  CountedGraph& operator=(const CountedGraph&) = delete;

  /// Notes that there is a template. \param nodes the number of all its nodes. \param left_bytes as GraphCounts.
  void captured(const Device& device, std::size_t nodes, std::uint64_t left_bytes);
  void template_discarded() noexcept;
  void instantiated() noexcept;  ///< also when it replaces another executable
  void executable_destroyed() noexcept;
  /// Notes that the graph is empty. Call it while the device is open.
  void reset() noexcept;
  void swap(CountedGraph& other) noexcept;

  std::size_t nodes() const noexcept { return nodes_; }
  GraphCounts counts() const noexcept;

 private:
  LiveGraphs* live_ = nullptr;  // of the device, null: not counted
  std::size_t nodes_ = 0;
  std::uint64_t left_bytes_ = 0;
  bool has_template_ = false;
  bool has_executable_ = false;
};

/// All graphs of a device. Thread-safe; while graphs come and go, the numbers may be of different moments.
GraphCounts live_graphs(const Device& device);

}  // namespace reprise::graphs
