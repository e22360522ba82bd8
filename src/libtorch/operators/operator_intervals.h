// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libtorch/operators/operator_watch.h"

namespace reprise::libtorch {

/// Nodes that the outermost operators of a capture made: those between the stream's dependencies at the beginning and
/// the end of one. For an OperatorWatch, which guards it by its mutex.
class OperatorIntervals {
 public:
  using Nodes = OperatorWatch::Nodes;

  /// The arguments of OperatorWatch::began() and ended().
  void began(const RunningOperator& op, const Nodes* tails);
  void ended(const RunningOperator& op, const OperatorWatch::End& end);

  /// The number of the outermost operator that `op` is, or that called it; nullopt if that began before the watch, or
  /// has ended.
  std::optional<std::size_t> number_of(const RunningOperator& op) const;
  /// Number of outermost operators, which are numbered from 0.
  std::size_t size() const noexcept { return intervals_.size(); }
  const std::string& name(std::size_t number) const { return intervals_[number].name; }

  using Makers = std::unordered_multimap<GraphNodeHandle, std::size_t>;
  /// The numbers of the operators that made each node of the finished graph; nodes that none made are left out.
  /// \throws BackendError if a query of the runtime fails.
  Makers makers(backend::Backend& backend, GraphHandle template_graph) const;

 private:
  struct Interval {
    std::string name;
    Nodes before, after;
  };

  std::vector<Interval> intervals_;
  std::map<const RunningOperator*, std::size_t> running_;  // of intervals_
};

}  // namespace reprise::libtorch
