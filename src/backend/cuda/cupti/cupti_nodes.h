// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/monitor.h"
#include "backend/types.h"
#include "reprise/handles.h"

// The times of a launch's nodes, from CUPTI's activity records.

namespace reprise::backend::cuda {

/// A node of the template.
struct WatchedNode {
  GraphNodeHandle node = nullptr;
  NodeType type = NodeType::empty;
};

/// See Backend::watch_nodes. Measures the most recent launch: the executable must not be launched by other threads.
std::shared_ptr<NodeWatch> watch_nodes_through_cupti(const std::vector<WatchedNode>& nodes, GraphExecHandle exec,
                                                     std::string* why);

}  // namespace reprise::backend::cuda
