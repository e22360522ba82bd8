// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "inspect/diff/compared_graph.h"
#include "inspect/diff/node_pairs.h"

namespace reprise::inspect {

/// For each step, those that come before it.
using StepsBefore = std::vector<std::vector<std::size_t>>;

/// The steps in an order that has each after those before it; of several that may come next, the one with the lowest
/// rank does. Steps on a cycle, and those after them, are missing.
std::vector<std::size_t> ordered(const StepsBefore& before, const std::function<std::uint64_t(std::size_t)>& rank);

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

/// Other orders of the steps of a graph.
///
/// The steps are divided into chains, of steps that come one after another. Each order delays another chain as long as
/// possible, and has the others in random order. If a step of the delayed chain may come after another step, it does:
/// with as many orders as chains, each two steps without a path between them are executed in both orders.
class OtherOrders {
 public:
  OtherOrders(const StepsBefore& before, std::uint64_t seed);

  std::vector<std::size_t> next();
  std::size_t chains() const noexcept { return priority_.size(); }

 private:
  const StepsBefore& before_;
  std::mt19937_64 random_;
  std::vector<std::size_t> chain_of_;  // each step
  std::vector<std::size_t> delayed_;   // chains, in the order in which they are
  std::vector<std::uint64_t> priority_;
  std::size_t made_ = 0;
};

/// Begins with the first `count` steps of `other`, and goes on with the remaining ones in the order of `order`. If both
/// are orders that edges allow, so is this.
std::vector<std::size_t> with_beginning(const std::vector<std::size_t>& order, const std::vector<std::size_t>& other,
                                        std::size_t count);

}  // namespace reprise::inspect
