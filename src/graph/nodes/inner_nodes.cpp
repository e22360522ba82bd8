// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/inner_nodes.h"

#include <charconv>
#include <utility>

#include "backend/check.h"
#include "graph/nodes/node_image.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Checked;
using backend::NodeType;

namespace {

// A node of `graph`, which lies in `parent`; null: it is the outermost one.
NumberedNode numbered(Backend& backend, GraphHandle graph, const NumberedNode* parent, GraphNodeHandle node,
                      std::size_t index, std::string number) {
  return {.handle = node,
          .type = Checked(backend).type_of(node),
          .graph = graph,
          .parent = parent != nullptr ? parent->handle : nullptr,
          .top = parent != nullptr ? parent->top : node,
          .top_index = parent != nullptr ? parent->top_index : index,
          .index = index,
          .number = std::move(number)};
}

void add_nodes(Backend& backend, GraphHandle graph, const NumberedNode* parent, const std::string& prefix,
               std::vector<NumberedNode>& found) {
  const std::vector<GraphNodeHandle> nodes = Checked(backend).nodes_of(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NumberedNode node = numbered(backend, graph, parent, nodes[i], i, prefix + std::to_string(i));
    found.push_back(node);
    const std::vector<GraphHandle> inner = graphs_in(backend, node.handle, node.type);
    for (std::size_t k = 0; k < inner.size(); ++k)
      add_nodes(backend, inner[k], &node, number_within(node.number, node.type, k), found);
  }
}

}  // namespace

std::vector<NumberedNode> numbered_nodes(Backend& backend, GraphHandle graph) {
  std::vector<NumberedNode> found;
  add_nodes(backend, graph, nullptr, "", found);
  return found;
}

std::optional<NumberedNode> node_with_number(Backend& backend, GraphHandle graph, std::string_view number) {
  std::vector<std::size_t> places;
  for (std::string_view left = number;; left.remove_prefix(1)) {
    const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), places.emplace_back());
    if (error != std::errc() || (left.front() == '0' && end != left.data() + 1)) return std::nullopt;
    left.remove_prefix(static_cast<std::size_t>(end - left.data()));
    if (left.empty()) break;
    if (left.front() != '.') return std::nullopt;
  }
  std::optional<NumberedNode> found;
  for (auto place = places.begin(); place != places.end(); ++place) {
    if (found) {  // goes on in a graph of that node
      const std::vector<GraphHandle> inner = graphs_in(backend, found->handle, found->type);
      const std::size_t which = found->type == NodeType::conditional ? *place++ : 0;
      if (which >= inner.size() || place == places.end()) return std::nullopt;
      graph = inner[which];
    }
    const std::vector<GraphNodeHandle> nodes = Checked(backend).nodes_of(graph);
    if (*place >= nodes.size()) return std::nullopt;
    found = numbered(backend, graph, found ? &*found : nullptr, nodes[*place], *place, std::string(number));
  }
  return found;
}

std::vector<GraphHandle> graphs_in(Backend& backend, GraphNodeHandle node, NodeType type) {
  if (type != NodeType::child_graph && type != NodeType::conditional) return {};
  KernelLayouts layouts;
  return NodeImage(backend, node, layouts).inner_graphs();
}

std::string number_within(const std::string& node, NodeType type, std::size_t graph) {
  return type == NodeType::conditional ? text::format("{}.{}.", node, graph) : node + ".";
}

}  // namespace reprise::graphs
