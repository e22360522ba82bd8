// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "inspect/nodes/graph_walk.h"
#include "memory/watches/allocation_log.h"
#include "reprise/detail/export.h"

namespace reprise::inspect {

/// A value in the parameters of a node.
struct NodeValue {
  /// For `parameter`: the value lies in the block of all arguments of a kernel whose parameters are unknown.
  static constexpr std::int32_t all_arguments = std::numeric_limits<std::int32_t>::max();
  /// `member` of a word of a value that the graph owns (copy_value_async), which a copy has as its source.
  static constexpr std::string_view copied_value = "copied value";
  /// NodeValue::offset of the first byte of that value: further properties of the node.
  static constexpr std::uint32_t copied_value_begins = 3;

  std::uint32_t node = 0;       ///< index in NodeValues::nodes
  std::int32_t parameter = -1;  ///< of a kernel; -1: another property of the node
  std::uint32_t offset = 0;     ///< in bytes from the start of the parameter or block; of another property: its number
  std::uint32_t bytes = 0;      ///< 1, 2, 4 or 8
  std::uint64_t value = 0;
  std::string_view member = {};  ///< of static storage; may be empty
  std::int32_t element = -1;     ///< of an array that `member` lies in; -1: it lies in none
  bool part = false;             ///< a word of a larger parameter, of a struct or of a block: perhaps two numbers
  bool no_padding = false;       ///< its padding, if any, is always 0
  bool unwritten = false;        ///< some of its bytes may be such that no code wrote
  bool perhaps = false;          ///< likewise, and no difference is certain
};

/// The memory of one graph that another capture of the same body gets in other places: which allocation of the capture
/// an address lies in, and where.
class REPRISE_EXPORT_INTERNAL OwnMemory {
 public:
  using Allocations = std::vector<memory::AllocationLog::Allocation>;

  /// Adds allocations of the capture; `hidden` are the addresses in memory that is the library's own.
  void add(Allocations allocations, std::unordered_set<std::uintptr_t> hidden) {
    logged_ = std::move(allocations);
    hidden_ = std::move(hidden);
  }
  /// Adds what the captures of child graphs allocated: a child that was captured again has other memory, too.
  void add_children(Allocations allocations) { of_children_ = std::move(allocations); }
  /// Adds the memory of an allocation node.
  void add_node(std::uintptr_t address, std::size_t bytes) { of_nodes_.push_back({address, bytes}); }
  /// Memory of a framework that the capture got: `paired` is that with the same index of the other capture, and what
  /// `unpaired` is there is not known. `is_framework` is true for an address in any memory of the framework's:
  /// allocations there are forgotten, since one of the captures may have logged them and the other one not.
  void add_framework(Allocations paired, Allocations unpaired,
                     const std::function<bool(std::uintptr_t address)>& is_framework);

  /// Allocations of the capture that correspond to those with the same index of the other one.
  const Allocations& logged() const noexcept { return logged_; }
  /// Likewise, of the captures of child graphs.
  const Allocations& of_children() const noexcept { return of_children_; }
  const Allocations& of_framework() const noexcept { return of_framework_; }
  bool is_unpaired(std::uintptr_t address) const noexcept;

  /// True if these bytes are a value that the graph owns.
  bool is_value(std::uintptr_t address, std::size_t bytes) const noexcept;

  /// Describes the place of an address: "allocation 2 of the capture, offset 64"; empty if it is none of this memory.
  std::string text(std::uintptr_t address) const;
  /// True if `mine` is to this capture what `theirs` is to the other one. An address may lie in several allocations,
  /// one after another: one in common is enough. True for two that are unpaired.
  bool corresponds(std::uintptr_t mine, const OwnMemory& other, std::uintptr_t theirs) const;

 private:
  Allocations logged_, of_nodes_, of_children_, of_framework_, unpaired_;
  std::unordered_set<std::uintptr_t> hidden_;
};

/// All values in the parameters of a template's nodes, in order of creation, and within a node by parameter and offset.
/// Left out is what differs between captures of the same work: seeds and offsets of random numbers, data of host
/// functions, events, handles of conditions.
struct NodeValues {
  std::vector<ScannedNode> nodes;
  std::vector<NodeValue> values;
  std::vector<Omission> omissions;
  OwnMemory own;
  std::unordered_map<std::uintptr_t, std::string> addresses;  ///< in memory of allocators; where they lie, as text
};

/// Reads them, including child graphs and bodies of conditional nodes. Nodes whose parameters the runtime does not
/// provide are omissions. \throws BackendError if the runtime fails.
/// \param known as GraphWalk takes it.
NodeValues read_node_values(backend::Backend& backend, GraphHandle template_graph,
                            graphs::NodeChanges* known = nullptr);

/// Looks the words of the values up in all allocators, for NodeValues::addresses and NodeValues::own. Words of loops,
/// and those attached to generators of a framework, are hidden there: they lie outside of the pool, in other places for
/// each capture.
/// \param pool the graph's own one.
/// \param allocations those of its capture.
void find_memory(const Device& device, MempoolId pool, OwnMemory::Allocations allocations, NodeValues& values);

/// Adds the words of values that the graph owns to the copies that have them as their source. The graph exists.
void add_copied_values(NodeValues& values);

/// A value of the second capture that the first one has differently. Bytes that are recognised as unwritten are 0.
struct ChangedValue {
  NodeValue value;  ///< in the second capture; may be a part of what was read
  std::uint64_t first = 0;
  std::string first_memory = {}, second_memory = {};  ///< where they lie if they are addresses; else empty
};

/// True if the difference may lie in padding before a number of 4 bytes: in 8 bytes, some of which may be unwritten,
/// the high half is the same and the low half differs. False for addresses, numbers below 2^32, and members that are
/// known to be one number.
bool may_differ_in_padding(const ChangedValue& changed) noexcept;

/// Compares two captures of the same nodes.
std::vector<ChangedValue> changed_values(const NodeValues& first, const NodeValues& second);

}  // namespace reprise::inspect
