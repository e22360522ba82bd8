// SPDX-License-Identifier: Apache-2.0
#include "graph/nodes/inner_nodes.h"

#include "backend/check.h"
#include "graph/nodes/node_image.h"
#include "text/format.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Checked;
using backend::NodeType;

namespace {

void add_nodes(Backend& backend, GraphHandle graph, const NumberedNode* parent, const std::string& prefix,
               std::vector<NumberedNode>& found) {
  std::vector<GraphNodeHandle> nodes;
  Checked(backend).graph_nodes(graph, &nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    NumberedNode node{.handle = nodes[i], .graph = graph, .index = i, .number = prefix + std::to_string(i)};
    Checked(backend).graph_node_type(nodes[i], &node.type);
    node.parent = parent != nullptr ? parent->handle : nullptr;
    node.top = parent != nullptr ? parent->top : nodes[i];
    node.top_index = parent != nullptr ? parent->top_index : i;
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

std::vector<GraphHandle> graphs_in(Backend& backend, GraphNodeHandle node, NodeType type) {
  if (type != NodeType::child_graph && type != NodeType::conditional) return {};
  KernelLayouts layouts;
  return NodeImage(backend, node, layouts).inner_graphs();
}

std::string number_within(const std::string& node, NodeType type, std::size_t graph) {
  return type == NodeType::conditional ? text::format("{}.{}.", node, graph) : node + ".";
}

}  // namespace reprise::graphs
