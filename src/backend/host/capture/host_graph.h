// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "backend/host/capture/user_object.h"
#include "backend/host/run/work.h"

namespace reprise::backend::host {

class HostDevice;
struct HostGraph;

/// A node of a template graph. Owned by its graph.
struct HostNode {
  HostGraph* graph;
  HostDevice* device;
  std::uint64_t id;         ///< unique in the process: addresses are reused, ids are not
  std::uint64_t origin_id;  ///< in a clone: the id of the node it was copied from
  NodeType type;
  Work work;
  std::vector<HostNode*> dependencies;  ///< without repetition, in order of addition
  std::vector<HostNode*> dependents;
};

/// A template graph. Guarded by the runtime's mutex.
struct HostGraph {
  HostDevice* device;
  std::uint64_t id;
  std::vector<std::unique_ptr<HostNode>> nodes;  ///< in order of creation
  std::vector<UserObjectRef> user_objects;       ///< one for each reference that the graph holds
  bool copies = false;                           ///< it has, or had, a copy node

  HostNode& add(HostDevice& node_device, NodeType type, Work work, std::span<HostNode* const> dependencies);
  /// Copies nodes, edges and references; the copy keeps the ids of the originals.
  std::unique_ptr<HostGraph> clone() const;
};

/// Adds an edge; false if it exists already or leads from a node to itself.
bool connect(HostNode& from, HostNode& to);
/// Removes an edge; false if there is none.
bool disconnect(HostNode& from, HostNode& to);
/// The nodes and all their dependencies.
std::unordered_set<const HostNode*> with_ancestors(std::span<HostNode* const> nodes);
/// The nodes in topological order; empty if there is a cycle (or no node).
std::vector<HostNode*> topological_order(const HostGraph& graph);
/// The graph in the language of Graphviz.
std::string to_dot(const HostGraph& graph, DotFlags flags);

/// A new number, unique in the process.
std::uint64_t next_id() noexcept;

}  // namespace reprise::backend::host
