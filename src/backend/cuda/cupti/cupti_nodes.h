// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/monitor.h"
#include "backend/types.h"
#include "reprise/handles.h"

// What the nodes of a launch took, told by CUPTI's activity records.

namespace reprise::backend::cuda {

/// A node of the template.
struct WatchedNode {
  GraphNodeHandle node = nullptr;
  NodeType type = NodeType::empty;
};

/// See Monitor::watch_nodes. The last launch is the one that was made last: nobody else may launch the executable.
std::shared_ptr<NodeWatch> watch_nodes_through_cupti(const std::vector<WatchedNode>& nodes, GraphExecHandle exec,
                                                     std::string* why);

}  // namespace reprise::backend::cuda
