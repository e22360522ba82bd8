// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/monitor.h"
#include "backend/types.h"
#include "reprise/handles.h"

// The times of a launch's nodes, from CUPTI's activity records, and the numbers that name the nodes there.

namespace reprise::backend::cuda {

/// A node of the template.
struct WatchedNode {
  GraphNodeHandle node = nullptr;
  NodeType type = NodeType::empty;
};

/// Numbers of nodes in CUPTI and profilers: in the upper half the number of the graph, in the lower one that of the
/// node in it, which is the same in the template and in its executables (measured with CUDA 13.0 on an H200).
struct NodeIds {
  std::vector<std::uint64_t> nodes;  ///< of the template's own nodes, in their order
  std::uint32_t exec = 0;            ///< the number of the executable
};

/// The nodes of a template that can be found in the records of its executable.
struct WatchedNodes {
  std::vector<WatchedNode> top;  ///< of the template itself, in order of creation
  /// Nodes of child graphs and bodies, in the order of their numbers in the executable: each graph with all its nodes,
  /// then the graphs in its nodes, the same way. Ends before the first conditional node whose bodies are not known.
  std::vector<WatchedNode> inner;
};

/// The nodes by their numbers in the executable: those of the template keep theirs, those within them follow in the
/// order of WatchedNodes::inner (measured with CUDA 13.0 on an H200). Without the inner ones if nodes of the template
/// were removed, so that the numbers have gaps.
/// \param ids of the top nodes.
std::unordered_map<std::uint32_t, WatchedNode> nodes_by_number(const WatchedNodes& nodes,
                                                               const std::vector<std::uint64_t>& ids);

/// From CUPTI, if that is loaded in the process; it need not be free. nullopt if it is not possible; `why` is the
/// reason then, without a full stop.
/// \param nodes of the template itself.
std::optional<NodeIds> node_ids_from_cupti(const std::vector<WatchedNode>& nodes, GraphExecHandle exec,
                                           std::string* why);

/// See Monitor::watch_nodes. Measures the most recent launch: the executable must not be launched by other threads.
std::shared_ptr<NodeWatch> watch_nodes_through_cupti(const WatchedNodes& nodes, GraphExecHandle exec, std::string* why);

}  // namespace reprise::backend::cuda
