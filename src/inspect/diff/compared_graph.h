// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "inspect/nodes/node_values.h"
#include "reprise/graph_diff.h"

namespace reprise::inspect {

/// A graph that has a template, as it is compared with another one. Needs its launch mutex; nodes that were read before
/// are not read again.
class ComparedGraph {
 public:
  using Impl = graphs::GraphAccess::Impl;
  using Dependencies = std::map<std::size_t, backend::EdgeData>;  ///< by the index of the node that comes before

  /// Warns of nodes whose parameters are not known. \throws BackendError if the runtime fails.
  explicit ComparedGraph(Impl& graph);

  /// As differences name it.
  ComparedNode describe(std::size_t index) const;
  /// Of each node. \throws BackendError if the runtime fails.
  std::vector<Dependencies> dependencies() const;
  Impl& graph() const noexcept { return graph_; }

  NodeValues values;

 private:
  // Each name is queried once.
  const std::string& name_of(FunctionHandle function) const;

  Impl& graph_;
  mutable std::unordered_map<FunctionHandle, std::string> names_;
};

}  // namespace reprise::inspect
