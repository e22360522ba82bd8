// SPDX-License-Identifier: Apache-2.0
#include "inspect/diff/compared_graph.h"

#include <set>
#include <utility>

#include "backend/check.h"
#include "graph/listeners/child_listener.h"
#include "graph/listeners/pool_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/nodes/graph_walk.h"
#include "inspect/nodes/node_text.h"
#include "text/format.h"

namespace reprise::inspect {

namespace {

bool is_named_kernel(const ScannedNode& node) {
  return node.type == backend::NodeType::kernel && node.function != nullptr;
}

}  // namespace

ComparedGraph::ComparedGraph(Impl& graph)
    : values(read_node_values(graph.backend(), graph.template_graph, &graph.changes)), graph_(&graph) {
  if (const std::string text = omissions_text(graph.backend(), values.nodes, values.omissions); !text.empty())
    warn(text::format("A comparison of graphs may miss differences: {}.", text));
  find_memory(*graph.device, graph.pool, graph.listeners.pool().allocations(), values);
  values.own.add_children(graph.listeners.children().memory());
  add_copied_values(values);
}

ComparedGraph::ComparedGraph(Impl& graph, std::size_t count, const ChooseNode& choose)
    : values(read_node_values(graph.backend(), count, choose, &graph.changes)), graph_(nullptr) {
  find_memory(*graph.device, graph.pool, graph.listeners.pool().allocations(), values);
  values.own.add_children(graph.listeners.children().memory());
  add_copied_values(values);
  for (std::size_t i = 0; i < values.nodes.size(); ++i) {
    const ScannedNode& node = values.nodes[i];
    if (is_named_kernel(node)) name_of(graph, names_, node.function);
    if (const Annotation* const annotation = graph.listeners.annotations().annotation_of(node))
      annotations_.emplace(i, *annotation);
  }
}

ComparedNode ComparedGraph::describe(std::size_t index) const {
  const ScannedNode& node = values.nodes[index];
  ComparedNode described;
  described.number = node.number;
  described.index = std::stoul(node.number);  // up to the first dot
  if (!is_named_kernel(node))
    described.name = backend::node_type_name(node.type);
  else
    described.name = graph_ != nullptr ? name_of(*graph_, names_, node.function) : names_.at(node.function);
  const Annotation* annotation = nullptr;
  if (graph_ != nullptr)
    annotation = graph_->listeners.annotations().annotation_of(node);
  else if (const auto known = annotations_.find(index); known != annotations_.end())
    annotation = &known->second;
  if (annotation != nullptr) described.annotation = *annotation;
  return described;
}

std::vector<ComparedGraph::Dependencies> ComparedGraph::dependencies() const {
  std::unordered_map<GraphNodeHandle, std::size_t> index_of;
  std::set<GraphHandle> graphs;
  for (std::size_t i = 0; i < values.nodes.size(); ++i) {
    index_of.emplace(values.nodes[i].handle, i);
    graphs.insert(values.nodes[i].graph);
  }
  std::vector<Dependencies> found(values.nodes.size());
  for (const GraphHandle graph : graphs) {
    std::vector<backend::Edge> edges;
    backend::Checked(graph_->backend()).graph_edges(graph, &edges);
    for (const backend::Edge& edge : edges) found[index_of.at(edge.to)].emplace(index_of.at(edge.from), edge.data);
  }
  return found;
}

const std::string& ComparedGraph::name_of(Impl& graph, std::unordered_map<FunctionHandle, std::string>& names,
                                          FunctionHandle function) {
  const auto known = names.find(function);
  if (known != names.end()) return known->second;
  return names.emplace(function, kernel_text(graph.backend(), function)).first->second;
}

}  // namespace reprise::inspect
