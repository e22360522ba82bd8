// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "inspect/nodes/node_values.h"
#include "reprise/detail/export.h"
#include "reprise/graph_diff.h"

namespace reprise::inspect {

using KernelNames = std::unordered_map<FunctionHandle, std::string>;

/// A node of the graph, as differences name it. \param names of kernels, each queried once.
REPRISE_EXPORT_INTERNAL ComparedNode described(graphs::GraphAccess::Impl& graph, const ScannedNode& node,
                                               KernelNames& names);

/// A graph that has a template, as it is compared with another one. Needs its launch mutex; nodes that were read before
/// are not read again.
class REPRISE_EXPORT_INTERNAL ComparedGraph {
 public:
  using Impl = graphs::GraphAccess::Impl;
  using Dependencies = std::map<std::size_t, backend::EdgeData>;  ///< by the index of the node that comes before

  /// Warns of nodes whose parameters are not known. \throws BackendError if the runtime fails.
  explicit ComparedGraph(Impl& graph);

  ComparedNode describe(std::size_t index) const { return described(graph_, values.nodes[index], names_); }
  /// Dependencies of each node. \throws BackendError if the runtime fails.
  std::vector<Dependencies> dependencies() const;
  Impl& graph() const noexcept { return graph_; }

  NodeValues values;

 private:
  Impl& graph_;
  mutable KernelNames names_;
};

}  // namespace reprise::inspect
