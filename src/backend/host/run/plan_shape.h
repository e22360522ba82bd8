// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/types.h"

namespace reprise::backend::host {

struct HostGraph;
struct HostNode;

/// The nodes of a graph and of all graphs in its nodes, in one row, without their work. The place of a node is its
/// index there. A *level* is one graph: the first the outermost one, then those in its nodes, then those in theirs.
/// Constant once made.
struct PlanShape {
  static constexpr std::size_t none = SIZE_MAX;

  struct Edge {
    std::size_t from;  ///< place
    EdgeData data;
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };
  struct Node {
    NodeType type;
    ConditionalType condition = ConditionalType::if_;  ///< of a conditional node
    std::size_t level;
    std::string number;  ///< as texts name it: from 0 in the order of creation; in a node's graph "3.1", or "3.0.1"
    std::uint64_t id;    ///< of the template's node
    std::vector<Edge> dependencies;  ///< sorted
    std::vector<std::size_t> inner;  ///< the levels in it
  };
  struct Level {
    std::size_t owner = none;  ///< the node that it is in
    std::size_t first = 0;     ///< place of the first node; the others follow
    std::size_t count = 0;
  };

  /// \param sources the nodes of the graph, by place.
  explicit PlanShape(const HostGraph& graph, std::vector<HostNode*>* sources = nullptr);

  std::vector<Node> nodes;
  std::vector<Level> levels;

  /// The places of a level in topological order; fewer than there are if the level has a cycle.
  std::vector<std::size_t> topological_order(std::size_t level) const;
  bool has_cycle() const;
  /// The level and all in its nodes, in order.
  std::vector<std::size_t> levels_from(std::size_t level) const;
};

/// The first difference between two shapes, as an update of an executable sees it.
struct ShapeDifference {
  UpdateResult result = UpdateResult::success;
  std::size_t place = PlanShape::none;  ///< in the new shape; none if it is no single node
  const char* why = "";
};

/// Compares these levels of a shape with all of another one.
ShapeDifference difference(const PlanShape& shape, std::span<const std::size_t> levels, const PlanShape& other);

}  // namespace reprise::backend::host
