// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <unordered_map>

#include "backend/cuda/driver_api.h"
#include "backend/types.h"
#include "support/immortal.h"

namespace reprise::backend::cuda {

/// The params of the conditional nodes that this library added, for which CUDA 13.0 has no getter. One object in the
/// process. Thread-safe.
///
/// A node is known until it or its graph is destroyed by this library. The driver destroys the graph of a capture that
/// was invalidated without notice: its nodes stay here, until a node gets the same address.
class ConditionalNodes {
 public:
  static ConditionalNodes& instance() { return support::Immortal<ConditionalNodes>::get(); }

  /// Notes a node. When out of host memory, its params stay unknown.
  void added(CUgraphNode node, CUgraph graph, const ConditionalNodeParams& params) noexcept;
  /// False if the node is not known.
  bool find(CUgraphNode node, NodeParams* params) const;
  void destroyed(CUgraphNode node) noexcept;
  /// Forgets all nodes of the graph, including those in bodies.
  void destroyed(CUgraph graph) noexcept;

 private:
  struct Known {
    CUgraph graph;
    ConditionalNodeParams params;
  };
  void forget_nodes_of(CUgraph graph) noexcept;  // with the mutex held

  mutable std::mutex mutex_;
  std::unordered_map<CUgraphNode, Known> nodes_;
};

}  // namespace reprise::backend::cuda
