// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"

namespace reprise::inspect {

/// Copies a conditional node into another graph, with the kernels of this library that set its condition. The driver
/// clones no graph with such nodes; each copy has conditions of its own.
class ConditionCopy {
 public:
  explicit ConditionCopy(backend::Backend& backend) : backend_(backend) {}
  ~ConditionCopy();
  ConditionCopy(const ConditionCopy&) = delete;
  ConditionCopy& operator=(const ConditionCopy&) = delete;

  /// \param node a conditional node of `from` that this library made.
  /// \param to an empty graph.
  /// \throws BackendError if the runtime fails.
  void run(GraphHandle from, GraphNodeHandle node, GraphHandle to);

 private:
  void copy(GraphHandle from, std::span<const GraphNodeHandle> nodes, GraphHandle to);
  GraphNodeHandle add(GraphNodeHandle node, GraphHandle to);
  GraphHandle copy_of_child(GraphHandle child);
  bool sets(GraphNodeHandle node, backend::ConditionalHandle condition) const;

  backend::Backend& backend_;
  std::unordered_map<backend::ConditionalHandle, backend::ConditionalHandle> conditions_;  // those of the copy
  std::vector<GraphHandle> children_;                                                      // until the end
};

}  // namespace reprise::inspect
