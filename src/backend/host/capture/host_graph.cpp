// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/host_graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "support/room.h"
#include "text/format.h"

namespace reprise::backend::host {

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

HostNode& HostGraph::add(HostDevice& node_device, NodeType type, Work work, std::span<HostNode* const> dependencies) {
  const std::uint64_t node_id = next_id();
  copies |= type == NodeType::memcpy;
  auto made =
      std::unique_ptr<HostNode>(new HostNode{this, &node_device, node_id, node_id, type, std::move(work), {}, {}});
  HostNode& node = *made;
  // No search for duplicates: a new node has no edges yet, and the caller passes no dependency twice.
  node.dependencies.assign(dependencies.begin(), dependencies.end());
  for (HostNode* dependency : dependencies) support::make_room(dependency->dependents);
  nodes.push_back(std::move(made));
  for (HostNode* dependency : dependencies) dependency->dependents.push_back(&node);
  return node;
}

std::unique_ptr<HostGraph> HostGraph::clone() const {
  auto copy = std::make_unique<HostGraph>();
  copy->device = device;
  copy->id = next_id();
  copy->user_objects = user_objects;
  std::unordered_map<const HostNode*, HostNode*> twins;
  for (const auto& node : nodes) {
    HostNode& twin = copy->add(*node->device, node->type, node->work, {});
    twin.origin_id = node->id;
    twins.emplace(node.get(), &twin);
  }
  for (const auto& node : nodes)
    for (const HostNode* dependency : node->dependencies) connect(*twins.at(dependency), *twins.at(node.get()));
  return copy;
}

bool connect(HostNode& from, HostNode& to) {
  if (&from == &to || std::find(to.dependencies.begin(), to.dependencies.end(), &from) != to.dependencies.end())
    return false;
  support::make_room(to.dependencies);
  support::make_room(from.dependents);
  to.dependencies.push_back(&from);
  from.dependents.push_back(&to);
  return true;
}

bool disconnect(HostNode& from, HostNode& to) {
  const auto edge = std::find(to.dependencies.begin(), to.dependencies.end(), &from);
  if (edge == to.dependencies.end()) return false;
  to.dependencies.erase(edge);
  from.dependents.erase(std::find(from.dependents.begin(), from.dependents.end(), &to));
  return true;
}

std::unordered_set<const HostNode*> with_ancestors(std::span<HostNode* const> nodes) {
  std::vector<const HostNode*> open(nodes.begin(), nodes.end());
  std::unordered_set<const HostNode*> found(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const HostNode* node = open.back();
    open.pop_back();
    for (const HostNode* dependency : node->dependencies)
      if (found.insert(dependency).second) open.push_back(dependency);
  }
  return found;
}

std::vector<HostNode*> topological_order(const HostGraph& graph) {
  std::vector<HostNode*> order;
  order.reserve(graph.nodes.size());
  std::unordered_map<const HostNode*, std::size_t> missing;
  for (const auto& node : graph.nodes) {
    missing.emplace(node.get(), node->dependencies.size());
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (HostNode* dependent : order[i]->dependents)
      if (--missing.at(dependent) == 0) order.push_back(dependent);
  if (order.size() != graph.nodes.size()) order.clear();
  return order;
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

const char* style(NodeType type) {
  switch (type) {
    case NodeType::kernel:
      return "shape=box, style=\"rounded,filled\", fillcolor=\"#d7e8d0\"";
    case NodeType::memcpy:
    case NodeType::memset:
      return "shape=box, style=filled, fillcolor=\"#d4e4f4\"";
    case NodeType::host:
      return "shape=box, style=filled, fillcolor=\"#f6e3c5\"";
    default:
      return "shape=ellipse, style=filled, fillcolor=\"#eeeeee\"";
  }
}

}  // namespace

std::string to_dot(const HostGraph& graph, DotFlags flags) {
  std::string out = "digraph cuda_graph {\n  node [fontname=\"Helvetica\", fontsize=11];\n";
  std::unordered_map<const HostNode*, std::size_t> numbers;
  for (const auto& node : graph.nodes) {
    const std::size_t number = numbers.size();
    numbers.emplace(node.get(), number);
    out += text::format("  n{} [label=\"{}\", {}];\n", number, label(*node, flags), style(node->type));
  }
  for (const auto& node : graph.nodes)
    for (const HostNode* dependency : node->dependencies)
      out += text::format("  n{} -> n{};\n", numbers.at(dependency), numbers.at(node.get()));
  return out + "}\n";
}

}  // namespace reprise::backend::host
