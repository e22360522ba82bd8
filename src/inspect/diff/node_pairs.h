// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "inspect/nodes/node_values.h"
#include "reprise/detail/export.h"

namespace reprise::inspect {

/// Two nodes that are compared with each other, by their indices in NodeValues::nodes.
struct NodePair {
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  std::size_t first = none;
  std::size_t second = none;
  friend bool operator==(const NodePair&, const NodePair&) = default;
};

/// Pairs the nodes of two graphs, as diff() documents it. Each node is in one pair, with `none` if it has no partner;
/// indices ascend.
REPRISE_EXPORT_INTERNAL std::vector<NodePair> pair_nodes(const NodeValues& first, const NodeValues& second);

}  // namespace reprise::inspect
