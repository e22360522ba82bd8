// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/host_graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "support/room.h"
#include "text/format.h"

namespace reprise::backend::host {

namespace {
// Two nodes can have an edge of each kind between them.
constexpr std::size_t kinds_of_edges = 4;
}  // namespace

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

GraphHandle handle_of(const HostGraph& graph) noexcept {
  return reinterpret_cast<GraphHandle>(const_cast<HostGraph*>(&graph));  // NOLINT: a handle
}
GraphNodeHandle handle_of(const HostNode& node) noexcept {
  return reinterpret_cast<GraphNodeHandle>(const_cast<HostNode*>(&node));  // NOLINT
}

HostNode& HostGraph::add(HostDevice& node_device, NodeType type, Work work, std::span<const Dependency> dependencies) {
  const std::uint64_t node_id = next_id();
  copies |= type == NodeType::memcpy;
  auto made =
      std::unique_ptr<HostNode>(new HostNode{this, &node_device, node_id, node_id, type, std::move(work), {}, {}, {}});
  HostNode& node = *made;
  // No search for duplicates: a new node has no edges yet, and the caller passes no dependency twice.
  node.dependencies.assign(dependencies.begin(), dependencies.end());
  for (const Dependency& dependency : dependencies) support::make_room(dependency.node->dependents, kinds_of_edges);
  nodes.push_back(std::move(made));
  for (const Dependency& dependency : dependencies) dependency.node->dependents.push_back(&node);
  return node;
}

std::unique_ptr<HostGraph> HostGraph::clone() const {
  auto copy = std::make_unique<HostGraph>();
  copy->user_objects = user_objects;
  std::unordered_map<const HostNode*, HostNode*> twins;
  for (const auto& node : nodes) {
    HostNode& twin = copy->add(*node->device, node->type, node->work, {});
    twin.origin_id = node->id;
    for (const auto& inner : node->graphs) {
      twin.graphs.push_back(inner->clone());
      twin.graphs.back()->owner = &twin;
    }
    if (node->type == NodeType::child_graph) twin.work = ChildGraphNodeParams{handle_of(*twin.graphs.front())};
    twins.emplace(node.get(), &twin);
  }
  for (const auto& node : nodes)
    for (const Dependency& dependency : node->dependencies)
      connect({twins.at(dependency.node), dependency.data}, *twins.at(node.get()));
  return copy;
}

bool connect(const Dependency& from, HostNode& to) {
  if (from.node == &to || std::find(to.dependencies.begin(), to.dependencies.end(), from) != to.dependencies.end())
    return false;
  support::make_room(to.dependencies);
  support::make_room(from.node->dependents);
  to.dependencies.push_back(from);
  from.node->dependents.push_back(&to);
  return true;
}

bool disconnect(const Dependency& from, HostNode& to) {
  const auto edge = std::find(to.dependencies.begin(), to.dependencies.end(), from);
  if (edge == to.dependencies.end()) return false;
  std::vector<HostNode*>& dependents = from.node->dependents;
  dependents.erase(std::find(dependents.begin(), dependents.end(), &to));
  to.dependencies.erase(edge);
  return true;
}

std::unordered_set<const HostNode*> joined_by(std::span<const Dependency> nodes) {
  std::vector<const HostNode*> open;
  std::unordered_set<const HostNode*> joined;
  const auto reach = [&](const Dependency& dependency) {
    if (joined.insert(dependency.node).second) open.push_back(dependency.node);
  };
  for (const Dependency& node : nodes) reach(node);
  while (!open.empty()) {
    const HostNode* node = open.back();
    open.pop_back();
    for (const Dependency& dependency : node->dependencies) reach(dependency);
  }
  return joined;
}

HostNode* find_node(const HostGraph& graph, const std::function<bool(HostNode&)>& f) {
  for (const auto& node : graph.nodes) {
    if (f(*node)) return node.get();
    for (const auto& inner : node->graphs)
      if (HostNode* const found = find_node(*inner, f)) return found;
  }
  return nullptr;
}

const HostGraph& outermost(const HostGraph& graph) noexcept {
  const HostGraph* found = &graph;
  while (found->owner != nullptr) found = found->owner->graph;
  return *found;
}

bool lies_in(NodeType type, const HostGraph& graph) noexcept {
  for (const HostGraph* inner = &graph; inner->owner != nullptr; inner = inner->owner->graph)
    if (inner->owner->type == type) return true;
  return false;
}

namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '{' || c == '}' || c == '|' || c == '<' || c == '>') out += '\\';
    out += c;
  }
  return out;
}

std::string label(const HostNode& node, DotFlags flags) {
  const bool verbose = flags == DotFlags::verbose;
  if (const auto* kernel = std::get_if<KernelWork>(&node.work)) {
    std::string text = escaped(kernel->kernel().name);
    if (verbose) {
      const LaunchConfig& c = kernel->config();
      text += text::format("\\ngrid {} x {} x {}, block {} x {} x {}, shared {} B", c.grid.x, c.grid.y, c.grid.z,
                           c.block.x, c.block.y, c.block.z, c.shared_bytes);
    }
    return text;
  }
  std::string text = node_type_name(node.type);
  if (!verbose) return text;
  if (const auto* copy = std::get_if<MemcpyNodeParams>(&node.work))
    text += text::format("\\n{} B, {} to {}", copy->bytes, copy->source, copy->destination);
  if (const auto* set = std::get_if<MemsetNodeParams>(&node.work))
    text += text::format("\\n{} x {} B of {:#x} to {}", set->count, set->element_bytes, set->value, set->destination);
  return text;
}

/// Writes a graph, and those in its nodes as clusters.
struct DotText {
  DotFlags flags;
  std::string out = {};
  std::unordered_map<const HostNode*, std::string> names = {};

  void nodes_of(const HostGraph& graph, const std::string& prefix, const std::string& indent) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const HostNode& node = *graph.nodes[i];
      const std::string name = prefix + std::to_string(i);
      names.emplace(&node, name);
      out += text::format("{}{} [label=\"{}\"];\n", indent, name, label(node, flags));
      for (std::size_t inner = 0; inner < node.graphs.size(); ++inner) {
        const std::string cluster = text::format("{}_{}", name, inner);
        const char* const kind = node.type == NodeType::child_graph ? "child graph" : "body";
        out += text::format("{}subgraph cluster_{} {{\n{}  label=\"{} {} of node {}\";\n", indent, cluster, indent,
                            kind, inner, name.substr(1));
        nodes_of(*node.graphs[inner], cluster + "_", indent + "  ");
        out += indent + "}\n";
      }
    }
    for (const auto& node : graph.nodes)
      for (const Dependency& dependency : node->dependencies)
        out += text::format("{}{} -> {}{};\n", indent, names.at(dependency.node), names.at(node.get()),
                            is_programmatic(dependency.data) ? " [style=dashed, label=\"programmatic\"]" : "");
  }
};

}  // namespace

std::string to_dot(const HostGraph& graph, DotFlags flags) {
  DotText text{flags};
  text.nodes_of(graph, "n", "  ");
  return "digraph cuda_graph {\n  node [shape=box];\n" + text.out + "}\n";
}

}  // namespace reprise::backend::host
