// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "inspect/diff/compared_graph.h"
#include "inspect/diff/node_pairs.h"

namespace reprise::inspect {

/// For each step, those that come before it.
using StepsBefore = std::vector<std::vector<std::size_t>>;

/// The steps in an order that has each after those before it; of several that may come next, the lowest
/// does. Steps on a cycle, and those after them, are missing.
std::vector<std::size_t> ordered(const StepsBefore& before);

/// The steps of executing a graph node by node: one for each node, and one more for the end of each child graph. The
/// nodes of a child graph come between the step of its node and its end. Nodes in bodies of conditional nodes have
/// none.
struct GraphSteps {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// \throws BackendError if the runtime fails.
  explicit GraphSteps(const ComparedGraph& graph);

  std::vector<std::size_t> node;             ///< of each step
  std::vector<std::size_t> of_node, end_of;  ///< the steps of each node; none if it has none
  StepsBefore before;
};

/// A step of executing two graphs side by side; `none` where a graph lacks it.
struct PairedStep {
  std::size_t first = GraphSteps::none;
  std::size_t second = GraphSteps::none;
  bool differs = false;  ///< the two cannot be compared: one has no such node, or dependencies contradict each other
};

/// The steps of two graphs whose nodes are paired, in an order that the edges of both allow.
std::vector<PairedStep> paired_steps(const ComparedGraph& first, const GraphSteps& of_first,
                                     const ComparedGraph& second, const GraphSteps& of_second,
                                     const std::vector<NodePair>& pairs);

}  // namespace reprise::inspect
