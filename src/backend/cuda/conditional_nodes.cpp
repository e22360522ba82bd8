// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conditional_nodes.h"

#include <algorithm>
#include <new>

namespace reprise::backend::cuda {

void ConditionalNodes::added(CUgraphNode node, CUgraph graph, const ConditionalNodeParams& params) noexcept {
  const std::lock_guard lock(mutex_);
  nodes_.erase(node);  // of a node that the driver destroyed
  try {
    nodes_.emplace(node, Known{graph, params});
  } catch (const std::bad_alloc&) {
  }
}

bool ConditionalNodes::find(CUgraphNode node, NodeParams* params) const {
  const std::lock_guard lock(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end()) return false;
  *params = known->second.params;
  return true;
}

void ConditionalNodes::destroyed(CUgraphNode node) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = nodes_.find(node);
  if (known == nodes_.end()) return;
  const auto taken = nodes_.extract(known);
  for (CUgraph body : taken.mapped().params.bodies) forget_nodes_of(body);
}

void ConditionalNodes::destroyed(CUgraph graph) noexcept {
  const std::lock_guard lock(mutex_);
  forget_nodes_of(graph);
}

void ConditionalNodes::forget_nodes_of(CUgraph graph) noexcept {
  const auto is_in_graph = [graph](const auto& entry) { return entry.second.graph == graph; };
  // Anew after each node: its bodies may hold others.
  for (auto known = nodes_.begin();
       (known = std::find_if(nodes_.begin(), nodes_.end(), is_in_graph)) != nodes_.end();) {
    const auto taken = nodes_.extract(known);
    for (CUgraph body : taken.mapped().params.bodies) forget_nodes_of(body);
  }
}

}  // namespace reprise::backend::cuda
