// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <utility>

#include "backend/check.h"
#include "reprise/device.h"

namespace reprise::captures {

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
