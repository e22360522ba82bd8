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

/// A graph that has a template, as it is compared with another one. Needs its launch mutex; nodes that were read before
/// are not read again.
class REPRISE_EXPORT_INTERNAL ComparedGraph {
 public:
  using Impl = graphs::GraphAccess::Impl;
  using Dependencies = std::map<std::size_t, backend::EdgeData>;  ///< by the index of the node that comes before

  /// Warns of nodes whose parameters are not known. \throws BackendError if the runtime fails.
  explicit ComparedGraph(Impl& graph);
  /// These nodes alone, whose parameters are known. Refers to no graph: describe() names them as they were.
  ComparedGraph(Impl& graph, std::size_t count, const ChooseNode& choose);

  /// As differences name it.
  ComparedNode describe(std::size_t index) const;
  /// Dependencies of each node of the whole graph. \throws BackendError if the runtime fails.
  std::vector<Dependencies> dependencies() const;
  /// The graph, of a whole one.
  Impl& graph() const noexcept { return *graph_; }

  NodeValues values;

 private:
  // Each name is queried once.
  static const std::string& name_of(Impl& graph, std::unordered_map<FunctionHandle, std::string>& names,
                                    FunctionHandle function);

  Impl* graph_;  // null: of some nodes alone
  mutable std::unordered_map<FunctionHandle, std::string> names_;
  std::unordered_map<std::size_t, Annotation> annotations_;  // of nodes alone, by index
};

}  // namespace reprise::inspect
