// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/check.h"
#include "reprise/device.h"

namespace reprise::captures {

/// These nodes of a graph and all that come before them, in time linear in the edges.
inline std::unordered_set<GraphNodeHandle> with_nodes_before(std::span<const backend::Edge> edges,
                                                             std::vector<GraphNodeHandle> nodes) {
  std::unordered_map<GraphNodeHandle, std::vector<GraphNodeHandle>> before;
  for (const backend::Edge& edge : edges) before[edge.to].push_back(edge.from);
  std::unordered_set<GraphNodeHandle> all;
  while (!nodes.empty()) {
    const GraphNodeHandle node = nodes.back();
    nodes.pop_back();
    if (!all.insert(node).second) continue;
    if (const auto found = before.find(node); found != before.end())
      nodes.insert(nodes.end(), found->second.begin(), found->second.end());
  }
  return all;
}

/// Edges that the library adds between nodes of a graph that is being captured, each once: the runtime refuses a second
/// one. Not thread-safe.
class AddedEdges {
 public:
  /// Nothing if this edge was added before.
  /// \throws BackendError if the runtime fails: the edge counts as not added.
  void add(const Device& device, GraphHandle graph, GraphNodeHandle from, GraphNodeHandle to) {
    const auto [at, is_new] = edges_.emplace(from, to);
    if (!is_new) return;
    const backend::Edge edge{from, to, {}};
    try {
      backend::Checked(device.backend()).graph_add_dependencies(graph, {&edge, 1});
    } catch (...) {
      edges_.erase(at);
      throw;
    }
  }

 private:
  std::set<std::pair<GraphNodeHandle, GraphNodeHandle>> edges_;
};

}  // namespace reprise::captures
