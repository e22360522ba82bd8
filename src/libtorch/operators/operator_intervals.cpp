// SPDX-License-Identifier: Apache-2.0
#include "libtorch/operators/operator_intervals.h"

#include <algorithm>
#include <unordered_set>

#include "backend/check.h"

namespace reprise::libtorch {

using backend::Backend;
using backend::Checked;

namespace {

// The nodes that come before each node of a graph.
class Graph {
 public:
  Graph(Backend& backend, GraphHandle graph) {
    std::vector<GraphNodeHandle> nodes;
    Checked(backend).graph_nodes(graph, &nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes_[nodes[i]].place = i;
    std::vector<backend::Edge> edges;
    Checked(backend).graph_edges(graph, &edges);
    for (const backend::Edge& edge : edges) nodes_[edge.to].before.push_back(edge.from);
  }

  /// The nodes between two sets of nodes: ancestors of the second one that were created after the first one.
  std::unordered_set<GraphNodeHandle> between(const std::vector<GraphNodeHandle>& from,
                                              const std::vector<GraphNodeHandle>& to) const {
    std::unordered_set<GraphNodeHandle> found;
    std::size_t last = 0;  // how many there were
    for (const GraphNodeHandle node : from)
      if (const auto at = nodes_.find(node); at != nodes_.end()) last = std::max(last, at->second.place + 1);
    std::vector<GraphNodeHandle> open = to;
    while (!open.empty()) {
      const auto at = nodes_.find(open.back());
      open.pop_back();
      if (at == nodes_.end() || at->second.place < last || !found.insert(at->first).second) continue;
      open.insert(open.end(), at->second.before.begin(), at->second.before.end());
    }
    return found;
  }

 private:
  struct Node {
    std::size_t place = 0;  // in order of creation
    std::vector<GraphNodeHandle> before = {};
  };
  std::unordered_map<GraphNodeHandle, Node> nodes_;
};

}  // namespace

void OperatorIntervals::began(const RunningOperator& op, const Nodes* tails) {
  if (tails == nullptr) return;
  running_[&op] = intervals_.size();
  intervals_.push_back({op.name, *tails, {}});
}

void OperatorIntervals::ended(const RunningOperator& op, const OperatorWatch::End& end) {
  const auto running = running_.find(&op);
  if (running == running_.end()) return;
  const auto tails = end.capture.dependencies;
  intervals_[running->second].after.assign(tails.begin(), tails.end());
  running_.erase(running);
}

std::optional<std::size_t> OperatorIntervals::number_of(const RunningOperator& op) const {
  const RunningOperator* outermost = &op;
  while (outermost->within != nullptr) outermost = outermost->within;
  const auto running = running_.find(outermost);
  return running != running_.end() ? std::optional(running->second) : std::nullopt;
}

OperatorIntervals::Makers OperatorIntervals::makers(Backend& backend, GraphHandle template_graph) const {
  const Graph graph(backend, template_graph);
  Makers found;
  for (std::size_t i = 0; i < intervals_.size(); ++i)
    for (const GraphNodeHandle node : graph.between(intervals_[i].before, intervals_[i].after)) found.emplace(node, i);
  return found;
}

}  // namespace reprise::libtorch
