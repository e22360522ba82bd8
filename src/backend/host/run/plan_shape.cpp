// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/plan_shape.h"

#include <algorithm>
#include <unordered_map>

#include "backend/host/capture/host_graph.h"
#include "text/format.h"

namespace reprise::backend::host {

PlanShape::PlanShape(const HostGraph& graph, std::vector<HostNode*>* sources) {
  std::vector<const HostGraph*> graphs{&graph};
  std::unordered_map<const HostNode*, std::size_t> places;
  levels.emplace_back();
  for (std::size_t level = 0; level < graphs.size(); ++level) {
    const HostGraph& made_from = *graphs[level];
    const std::size_t owner = levels[level].owner;
    levels[level].first = nodes.size();
    levels[level].count = made_from.nodes.size();
    std::string prefix;
    if (owner != none) {
      // A child is the only graph of its node; bodies are numbered.
      const auto& siblings = nodes[owner].inner;
      const std::size_t number =
          static_cast<std::size_t>(std::find(siblings.begin(), siblings.end(), level) - siblings.begin());
      prefix = nodes[owner].type == NodeType::child_graph ? nodes[owner].number + "."
                                                          : text::format("{}.{}.", nodes[owner].number, number);
    }
    for (std::size_t i = 0; i < made_from.nodes.size(); ++i) {
      HostNode* const source = made_from.nodes[i].get();
      places.emplace(source, nodes.size());
      if (sources != nullptr) sources->push_back(source);
      Node& node = nodes.emplace_back(Node{source->type, {}, level, prefix + std::to_string(i), source->id, {}, {}});
      if (const auto* const conditional = std::get_if<ConditionalNodeParams>(&source->work))
        node.condition = conditional->type;
      for (const auto& inner : source->graphs) {
        node.inner.push_back(levels.size());
        levels.push_back({nodes.size() - 1, 0, 0});
        graphs.push_back(inner.get());
      }
    }
    for (const auto& source : made_from.nodes) {
      std::vector<Edge>& edges = nodes[places.at(source.get())].dependencies;
      for (const Dependency& dependency : source->dependencies)
        edges.push_back({places.at(dependency.node), dependency.data});
      std::sort(edges.begin(), edges.end());
    }
  }
}

std::vector<std::size_t> PlanShape::topological_order(std::size_t level) const {
  const auto [owner, first, count] = levels[level];
  std::vector<std::vector<std::size_t>> dependents(count);
  std::vector<std::size_t> waiting(count);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = nodes[first + i];
    waiting[i] = node.dependencies.size();
    if (waiting[i] == 0) order.push_back(first + i);
    for (const Edge& edge : node.dependencies) dependents[edge.from - first].push_back(first + i);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const std::size_t dependent : dependents[order[i] - first])
      if (--waiting[dependent - first] == 0) order.push_back(dependent);
  return order;
}

bool PlanShape::has_cycle() const {
  for (std::size_t level = 0; level < levels.size(); ++level)
    if (topological_order(level).size() != levels[level].count) return true;
  return false;
}

std::vector<std::size_t> PlanShape::levels_from(std::size_t level) const {
  std::vector<std::size_t> found{level};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [owner, first, count] = levels[found[i]];
    for (std::size_t place = first; place < first + count; ++place)
      found.insert(found.end(), nodes[place].inner.begin(), nodes[place].inner.end());
  }
  return found;
}

ShapeDifference difference(const PlanShape& shape, std::span<const std::size_t> levels, const PlanShape& other) {
  for (std::size_t i = 0; i < std::min(levels.size(), other.levels.size()); ++i) {
    const PlanShape::Level& ours = shape.levels[levels[i]];
    const PlanShape::Level& theirs = other.levels[i];
    if (ours.count != theirs.count)
      return {UpdateResult::topology_changed, theirs.owner, "the graph has another number of nodes"};
    for (std::size_t node = 0; node < ours.count; ++node) {
      const PlanShape::Node& our = shape.nodes[ours.first + node];
      const PlanShape::Node& their = other.nodes[theirs.first + node];
      const std::size_t place = theirs.first + node;
      if (our.type != their.type) return {UpdateResult::node_type_changed, place, "a node is of another type"};
      if (our.condition != their.condition || our.inner.size() != their.inner.size())
        return {UpdateResult::not_supported, place, "a conditional node is of another type, or has other bodies"};
      const bool same_edges =
          std::equal(our.dependencies.begin(), our.dependencies.end(), their.dependencies.begin(),
                     their.dependencies.end(), [&](const PlanShape::Edge& a, const PlanShape::Edge& b) {
                       return a.from - ours.first == b.from - theirs.first && a.data == b.data;
                     });
      if (!same_edges) return {UpdateResult::topology_changed, place, "a node has other dependencies"};
    }
  }
  return {};
}

}  // namespace reprise::backend::host
