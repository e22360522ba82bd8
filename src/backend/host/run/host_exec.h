// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/host/capture/host_graph.h"
#include "backend/host/races/race_shadow.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/node_times.h"
#include "backend/host/run/plan.h"
#include "backend/types.h"

namespace reprise::backend::host {

/// An executable graph. Guarded by the runtime's mutex.
struct HostExec {
  std::uint64_t id;
  InstantiateFlags flags;
  std::shared_ptr<Plan> plan;
  std::unordered_map<std::uint64_t, std::size_t> index_of_node;  ///< template node's id -> place in the plan
  std::shared_ptr<const void> sole;  ///< of a graph that may have one executable only: shows it that this one lives
  OperationRef last_launch;
  std::optional<std::vector<Access>> accesses;  ///< for the race check; reset when the plan changes
  std::weak_ptr<NodeTimes> times;               ///< for its launches, while nodes are timed

  HostExec(const HostGraph& graph, InstantiateFlags exec_flags);
  /// The place of a node of the template in the plan; nullopt if it has none. \param node may be null.
  std::optional<std::size_t> place_of(const HostNode* node) const;
  /// The plan, for changes: a copy of it if an incomplete launch uses it.
  Plan& changeable_plan();
};

}  // namespace reprise::backend::host
