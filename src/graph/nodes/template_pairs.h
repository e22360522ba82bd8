// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "graph/nodes/node_changes.h"

namespace reprise::graphs {

/// The nodes of two templates of the same shape, paired in order of creation, with those of child graphs and bodies;
/// and the changes that give the nodes of the one the values of the other.
///
/// An executable is updated to its own template with these values, and not to the other template: CUDA then pairs each
/// node with itself, whatever the order in which the other one got its nodes and edges.
class TemplatePairs {
 public:
  /// \param own, other what is known of the nodes of the two.
  /// \param has_executable the changes are for an executable, too, which keeps the attributes of kernels.
  TemplatePairs(backend::Backend& backend, NodeChanges& own, NodeChanges& other, bool has_executable)
      : backend_(backend), own_(own), other_(other), has_executable_(has_executable) {}
  TemplatePairs(const TemplatePairs&) = delete;
  TemplatePairs& operator=(const TemplatePairs&) = delete;

  /// Returns why the two do not have the same shape, or have nodes that cannot be changed; changes nothing.
  /// \throws BackendError if the runtime fails.
  std::optional<UpdateRefusal> run(GraphHandle own, GraphHandle other) { return pair_graphs(own, other, nullptr); }

  /// After run(): for each node of the other template that of the own one.
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> take_own_nodes() noexcept { return std::move(own_nodes_); }
  /// Changes that give the nodes of the own template the values of the other one, in the order of the templates.
  std::vector<NodeChange> take_changes() noexcept { return std::move(changes_); }

 private:
  using Refusal = std::optional<UpdateRefusal>;

  /// \param other_node that the other graph lies in; null: the template.
  Refusal pair_graphs(GraphHandle own, GraphHandle other, GraphNodeHandle other_node);
  Refusal pair_values(GraphNodeHandle own, const NodeImage& from, GraphNodeHandle other, const NodeImage& to);
  Refusal pair_inner_graphs(const NodeImage& own, GraphNodeHandle other, const NodeImage& with);

  backend::Backend& backend_;
  NodeChanges& own_;
  NodeChanges& other_;
  const bool has_executable_;
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> own_nodes_;
  std::vector<NodeChange> changes_;
};

}  // namespace reprise::graphs
