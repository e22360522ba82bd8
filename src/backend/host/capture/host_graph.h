// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "backend/host/capture/user_object.h"
#include "backend/host/run/condition.h"
#include "backend/host/run/work.h"

namespace reprise::backend::host {

class HostDevice;
struct HostGraph;
struct HostNode;

/// The beginning of an edge.
struct Dependency {
  HostNode* node;
  EdgeData data = {};
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

/// A node of a template graph. Owned by its graph.
struct HostNode {
  HostGraph* graph;
  HostDevice* device;
  std::uint64_t id;         ///< unique in the process: addresses are reused, ids are not
  std::uint64_t origin_id;  ///< in a clone: the id of the node it was copied from
  NodeType type;
  Work work;
  std::vector<Dependency> dependencies;            ///< without repetition, in order of addition
  std::vector<HostNode*> dependents;               ///< one for each edge
  std::vector<std::unique_ptr<HostGraph>> graphs;  ///< of a child graph or conditional node: child, or bodies
};

/// A template graph. Guarded by the runtime's mutex.
struct HostGraph {
  std::vector<std::unique_ptr<HostNode>> nodes;  ///< in order of creation
  std::vector<UserObjectRef> user_objects;       ///< one for each reference that the graph holds
  bool copies = false;                           ///< it has, or had, a copy node
  bool lost = false;          ///< a body whose capture failed: CUDA has destroyed it, but its node keeps it
  HostNode* owner = nullptr;  ///< the child graph or conditional node that it is in; null if none
  std::vector<std::shared_ptr<HostCondition>> conditions;  ///< made for nodes of this graph
  std::weak_ptr<const void> exec;  ///< HostExec::sole of its executable, if it may have one only

  HostNode& add(HostDevice& node_device, NodeType type, Work work, std::span<const Dependency> dependencies);
  /// Copies nodes with their graphs, edges and references; the copy keeps the ids of the originals. Not for graphs with
  /// conditional, allocation or free nodes.
  std::unique_ptr<HostGraph> clone() const;
};

GraphHandle handle_of(const HostGraph& graph) noexcept;
GraphNodeHandle handle_of(const HostNode& node) noexcept;

/// Adds an edge; false if it exists already or leads from a node to itself.
bool connect(const Dependency& from, HostNode& to);
/// Removes an edge; false if there is none.
bool disconnect(const Dependency& from, HostNode& to);
/// The nodes and all their dependencies, by edges of any kind: what is joined, if these are the last ones.
std::unordered_set<const HostNode*> joined_by(std::span<const Dependency> nodes);
/// The first node of the graph, or of those in its nodes, for which `f` is true; null if there is none.
HostNode* find_node(const HostGraph& graph, const std::function<bool(HostNode&)>& f);
/// The graph that this one lies in, through any number of nodes; itself if it lies in none.
const HostGraph& outermost(const HostGraph& graph) noexcept;
/// True if the graph is that of a node of this type, or lies in one.
bool lies_in(NodeType type, const HostGraph& graph) noexcept;
/// The graph in the language of Graphviz.
std::string to_dot(const HostGraph& graph, DotFlags flags);

/// A new number, unique in the process.
std::uint64_t next_id() noexcept;

}  // namespace reprise::backend::host
