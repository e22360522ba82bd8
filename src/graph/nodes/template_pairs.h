// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "graph/nodes/node_changes.h"
#include "graph/update_refusal.h"

namespace reprise::graphs {

/// The nodes of two templates of the same shape, paired in order of creation, with those of child graphs and bodies;
/// and the changes that give the nodes of the one the values of the other.
///
/// An executable is updated to its own template with these values, and not to the other template: CUDA then pairs each
/// node with itself, whatever the order in which the other one got its nodes and edges.
class TemplatePairs {
 public:
  /// A node of one of the templates.
  struct Place {
    GraphNodeHandle node = nullptr;
    GraphNodeHandle top = nullptr;  ///< the same, or the node of the template that it lies in
    GraphHandle graph = nullptr;    ///< that it is a node of
    const NodeImage* image = nullptr;
  };
  /// Two nodes whose values differ.
  struct Changed {
    /// As texts have it, in both templates.
    std::string number() const { return *prefix + std::to_string(index); }

    Place own, other;
    const std::string* prefix = nullptr;  ///< of the numbers of all nodes of its graph
    std::size_t index = 0;
  };

  /// \param own, other what is known of the nodes of the two.
  /// \param has_executable the changes are for an executable, too, which keeps the attributes of kernels.
  TemplatePairs(backend::Backend& backend, NodeChanges& own, NodeChanges& other, bool has_executable)
      : backend_(backend), own_(own), other_(other), has_executable_(has_executable) {}
  TemplatePairs(const TemplatePairs&) = delete;
  TemplatePairs& operator=(const TemplatePairs&) = delete;

  /// Returns why the two do not have the same shape, or have nodes that cannot be changed; changes nothing.
  /// \throws BackendError if the runtime fails.
  std::optional<UpdateRefusal> run(GraphHandle own, GraphHandle other);

  /// After run(): for each node of the other template that of the own one.
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> take_own_nodes() noexcept { return std::move(own_nodes_); }
  /// The nodes whose values differ, in the order of the templates. Valid until one of the two is changed.
  std::span<const Changed> changed() const noexcept { return changed_; }
  /// Changes that give the nodes of the own template the values of the other one.
  std::vector<NodeAdoption> adoptions() const;

 private:
  using Refusal = std::optional<UpdateRefusal>;
  /// Two graphs: the templates, or graphs in nodes of them.
  struct Level {
    GraphHandle own, other;
    GraphNodeHandle own_top, other_top;  // null: the templates
    GraphNodeHandle other_node;          // that the other graph lies in; null: the template
    const std::string* prefix;
  };

  Refusal pair_graphs(const Level& level);
  Refusal pair_values(const Changed& pair);
  Refusal pair_inner_graphs(const Changed& pair);

  backend::Backend& backend_;
  NodeChanges& own_;
  NodeChanges& other_;
  const bool has_executable_;
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> own_nodes_;
  std::vector<Changed> changed_;
  std::deque<std::string> prefixes_;  // of the levels
};

}  // namespace reprise::graphs
