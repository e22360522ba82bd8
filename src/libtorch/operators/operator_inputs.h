// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libtorch/operators/operator_watch.h"
#include "libtorch/operators/storage_watch.h"

namespace reprise::libtorch {

/// The memory of operators' tensor arguments in a capture, and the nodes created by operators.
///
/// An address in the parameters of libtorch's kernels is memory that the operator was given, or an uninitialised word:
/// this separates inputs from words that look like addresses by chance. What an operator was given includes the
/// arguments of all operators that it called: autocast's get casts, others what they keep. Nothing is known about nodes
/// that no operator created.
///
///     open -> closed -> look_at(template) -> may_use
class OperatorInputs final : public OperatorWatch {
 public:
  using Ranges = std::map<std::uintptr_t, std::uintptr_t>;  ///< from where to where

  /// \param keeps storages of arguments in this memory and in that of the host are kept until release_kept(), so that a
  ///        capture which drops them does not free it; nullopt: none are.
  explicit OperatorInputs(const Device& device, std::optional<Ranges> keeps = {})
      : OperatorWatch(device), keeps_(std::move(keeps)) {}

  void began(const RunningOperator& op, const at::RecordFunction& call, const Nodes* tails) override;
  void ended(const RunningOperator& op, const End& end) override;

  /// True if the address lies in memory of any operator's arguments. After look_at().
  bool has(std::uintptr_t address) const;
  /// The storages of operators' arguments whose memory begins in a range, dead or alive.
  WeakStorages storages_in(const void* begin, std::size_t bytes) const;

  struct Memory {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;  ///< of the largest
    WeakStorages storages = {};
  };
  /// The pinned memory of an address; nullopt for other memory, or if it was no operator's argument.
  /// \throws BackendError if a query of the runtime fails.
  std::optional<Memory> pinned_memory_at(std::uintptr_t address) const;

  /// Closes the watch, and determines the nodes of the finished graph that were created by operators: those between the
  /// stream's dependencies at the beginning and the end of one. \throws BackendError if a query of the runtime fails.
  void look_at(GraphHandle template_graph);
  void release_kept() noexcept;
  bool made_by_operator(GraphNodeHandle node) const { return made_.contains(node); }
  /// The name of the first outermost operator that created the node; empty if none did. After look_at().
  std::string operator_of(GraphNodeHandle node) const;
  /// False if operators created the node, and none of them was given the memory of the address. After look_at().
  bool may_use(GraphNodeHandle node, std::uintptr_t address) const;
  /// True if an operator created the node and was given the memory of the address. After look_at().
  bool was_given(GraphNodeHandle node, std::uintptr_t address) const {
    return made_by_operator(node) && may_use(node, address);
  }

 private:
  /// An operator that no other one called.
  struct Outermost {
    std::string name;
    Nodes before, after = {};  ///< what the next node of the stream would have depended on
    Ranges given = {};         ///< the memory of its arguments, and of those of the operators that it called
  };

  /// True if one of the ranges has the address. None must meet another one.
  static bool has_address(const Ranges& apart, std::uintptr_t address);
  static bool lies_in(const Ranges& ranges, std::uintptr_t address);
  /// `given`: of the outermost operator; null if that began before the watch.
  void add(const at::Tensor& tensor, Ranges* given);

  mutable std::mutex mutex_;                 // guards the rest
  std::map<std::uintptr_t, Memory> memory_;  // by where it begins
  std::vector<Outermost> outermost_;
  std::map<const RunningOperator*, std::size_t> running_;       // of outermost_
  std::unordered_multimap<GraphNodeHandle, std::size_t> made_;  // by nodes: those of outermost_ that made them
  Ranges ranges_;                                               // of memory_; none meets another one
  const std::optional<Ranges> keeps_;                           // none meets another one
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> kept_;
};

}  // namespace reprise::libtorch
