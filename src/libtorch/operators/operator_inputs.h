// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "libtorch/operators/operator_watch.h"
#include "libtorch/operators/storage_watch.h"

namespace reprise::libtorch {

/// The memory of the tensors that operators were given in a capture, and which nodes operators made.
///
/// What libtorch's kernels have in their parameters is such memory, or is a word that nobody wrote: so it tells inputs
/// from what looks like one by chance. Of nodes that no operator made nothing is known.
///
///     open -> closed -> look_at(template) -> made_by_operator
class OperatorInputs final : public OperatorWatch {
 public:
  explicit OperatorInputs(const Device& device) : OperatorWatch(device, /*wants_arguments=*/true) {}

  void began(const RunningOperator& op, const at::RecordFunction& call, const Nodes* tails) override;
  void ended(const RunningOperator& op, const End& end) override;

  /// Does the address lie in memory that an operator was given? After look_at().
  bool has(std::uintptr_t address) const;
  /// The storages that operators were given whose memory begins in a range, dead or alive.
  WeakStorages storages_in(const void* begin, std::size_t bytes) const;

  struct Memory {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;  ///< of the largest
    WeakStorages storages = {};
  };
  /// The pinned memory in which an address lies; none if that is other memory, or no operator was given it.
  /// \throws BackendError if the runtime does not tell.
  std::optional<Memory> pinned_memory_at(std::uintptr_t address) const;

  /// Finds out which nodes of the finished graph were made by operators: those between what the stream depended on when
  /// one began and when it ended.
  /// \throws BackendError if the runtime does not tell.
  void look_at(GraphHandle template_graph);
  bool made_by_operator(GraphNodeHandle node) const { return made_.contains(node); }

 private:
  struct Interval {
    Nodes before, after;
  };

  void add(const at::Tensor& tensor);

  mutable std::mutex mutex_;                 // guards the rest
  std::map<std::uintptr_t, Memory> memory_;  // by where it begins
  std::vector<Interval> intervals_;
  std::map<const RunningOperator*, std::size_t> running_;  // the outermost ones: of intervals_
  std::unordered_set<GraphNodeHandle> made_;
  std::map<std::uintptr_t, std::uintptr_t> ranges_;  // of memory_, from where to where; none meets another one
};

}  // namespace reprise::libtorch
