// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backend/types.h"

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

}  // namespace reprise::captures
