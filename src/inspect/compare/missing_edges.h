// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "inspect/compare/paired_runs.h"
#include "reprise/compare.h"

namespace reprise::inspect {

/// Executes one of two graphs in several orders that its edges allow, and finds two nodes that lack an edge.
///
/// Two orders that leave different bytes are connected by a sequence of orders, each obtained from the previous one by
/// swapping two adjacent, unordered steps. Bisection of the sequence finds two neighbours that leave different bytes:
/// the two steps that they swap lack an edge.
class MissingEdgeSearch {
 public:
  MissingEdgeSearch(const SteppedGraph& graph, Side side, PairedRuns& runs);

  /// \param orders how many orders are tried. Null: none left other bytes.
  std::optional<MissingEdge> run(int orders, std::uint64_t seed);

  bool repeatable = true;  ///< false: the same order left other bytes when it was executed again
  int tried = 0;           ///< orders

 private:
  using Order = std::vector<std::size_t>;

  void execute(const Order& order);
  std::uint64_t outcome(const Order& order);
  MissingEdge search(const Order& other);
  MissingEdge describe(const Order& before, const Order& after, std::size_t one, std::size_t other);

  const SteppedGraph& graph_;
  const Side side_;
  PairedRuns& runs_;
  Order usual_;
  std::uint64_t usual_outcome_ = 0;
};

}  // namespace reprise::inspect
