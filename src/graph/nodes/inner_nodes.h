// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "reprise/detail/export.h"

namespace reprise::graphs {

/// A node of a graph, or of a child graph or body in one of its nodes.
struct NumberedNode {
  GraphNodeHandle handle = nullptr;
  backend::NodeType type = backend::NodeType::empty;
  GraphHandle graph = nullptr;       ///< that it is a node of
  GraphNodeHandle parent = nullptr;  ///< the node whose child graph or body this is; null: none
  GraphNodeHandle top = nullptr;     ///< the same, or the node of the outermost graph that it lies in
  std::size_t top_index = 0;         ///< the place of `top` there
  std::size_t index = 0;             ///< in its graph, in order of creation
  /// The places, outermost first: "3", or "3.0" in a child graph, "3.1.0" in the second body of a conditional node.
  std::string number = {};
};

/// The nodes of a graph in order of creation, each followed by those in it, at any depth. Nodes in graphs that the
/// runtime does not describe are left out.
/// \throws BackendError if the runtime fails.
REPRISE_EXPORT_INTERNAL std::vector<NumberedNode> numbered_nodes(backend::Backend& backend, GraphHandle graph);

/// The one of these nodes that has a number: of each graph on the way to it the nodes are listed, and no other is
/// queried. nullopt if there is none, or this is no number.
/// \throws BackendError if the runtime fails.
std::optional<NumberedNode> node_with_number(backend::Backend& backend, GraphHandle graph, std::string_view number);

/// The graphs in a node of this type: a child graph, or the bodies of a conditional node, as far as the runtime
/// describes it; else none.
/// \throws BackendError if the runtime fails.
std::vector<GraphHandle> graphs_in(backend::Backend& backend, GraphNodeHandle node, backend::NodeType type);

/// The number of a graph in a node, which the numbers of its nodes begin with: "3.", or "3.1." for the second body.
std::string number_within(const std::string& node, backend::NodeType type, std::size_t graph);

}  // namespace reprise::graphs
