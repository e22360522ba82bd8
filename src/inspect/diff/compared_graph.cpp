// SPDX-License-Identifier: Apache-2.0
#include "inspect/diff/compared_graph.h"

#include <set>
#include <string>

#include "backend/check.h"
#include "graph/listeners/child_listener.h"
#include "graph/listeners/pool_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/nodes/graph_walk.h"
#include "inspect/nodes/node_text.h"
#include "text/format.h"

namespace reprise::inspect {

ComparedGraph::ComparedGraph(Impl& graph)
    : values(read_node_values(graph.backend(), graph.template_graph, &graph.changes)), graph_(graph) {
  if (const std::string text = omissions_text(graph.backend(), values.nodes, values.omissions); !text.empty())
    warn(text::format("A comparison of graphs may miss differences: {}.", text));
  find_memory(*graph.device, graph.pool, graph.listeners.pool().allocations(), values);
  values.own.add_children(graph.listeners.children().memory());
  add_copied_values(values);
}

ComparedNode described(ComparedGraph::Impl& graph, const ScannedNode& node, KernelNames& names) {
  ComparedNode found;
  found.number = node.number;
  found.index = std::stoul(node.number);  // up to the first dot
  if (node.type == backend::NodeType::kernel && node.function != nullptr) {
    const auto [name, is_new] = names.try_emplace(node.function);
    if (is_new) name->second = kernel_text(graph.backend(), node.function);
    found.name = name->second;
  } else {
    found.name = backend::node_type_name(node.type);
  }
  if (const Annotation* const annotation = graph.listeners.annotations().annotation_of(node))
    found.annotation = *annotation;
  return found;
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
    for (const backend::Edge& edge : backend::Checked(graph_.backend()).edges_of(graph))
      found[index_of.at(edge.to)].emplace(index_of.at(edge.from), edge.data);
  }
  return found;
}

}  // namespace reprise::inspect
