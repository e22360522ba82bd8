// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/nodes/node_image.h"
#include "reprise/parameter.h"

namespace reprise::graphs {

/// The parameters of one graph: where its nodes use them, and their values.
///
/// Owned by a graph, and used under its launch mutex.
class Parameters {
 public:
  /// A place where a node uses a parameter.
  struct Use {
    GraphNodeHandle node = nullptr;
    GraphNodeHandle top = nullptr;  ///< the same, or the node of the template whose child graph or body has it
    NodePlace place;
    std::uintptr_t distance = 0;  ///< from an address that is set to the one that the node uses
  };
  /// An address that is a parameter wherever nodes use it, or, with `bytes`, any address of that range.
  struct Address {
    std::shared_ptr<const void> key;
    std::uintptr_t value = 0;
    std::size_t bytes = 0;  ///< size of the range from `value` on; 0: the address alone
    bool covers(std::uintptr_t other) const noexcept { return bytes == 0 ? other == value : other - value < bytes; }
  };
  struct Parameter {
    std::weak_ptr<const void> key;  ///< nothing can set the parameter once it has expired
    const void* address = nullptr;  ///< of the key: not used again while this refers to it weakly (make_shared)
    std::vector<std::byte> value;
    std::vector<Use> uses;
    std::size_t bytes = 0;    ///< of an address: that its uses may lie in, from it on; 0 if not given
    bool known = true;        ///< all uses have the value
    bool shares = false;      ///< another parameter has one of its places, or a part of it
    std::uint64_t batch = 0;  ///< the last one that sets it
  };

  /// Adds uses of a parameter, and the parameter if it is new. Drops expired parameters (Parameter::key) once they are
  /// as many as the others: references to parameters are invalid then.
  /// \param uses each place once. \param bytes Parameter::bytes.
  void add(const std::shared_ptr<const void>& key, std::span<const std::byte> value, std::vector<Use> uses,
           std::size_t bytes = 0);
  /// An address whose uses are looked for when the capture has ended.
  void add_address(Address address) { addresses_.push_back(std::move(address)); }
  std::vector<Address> take_addresses() noexcept { return std::exchange(addresses_, {}); }

  bool empty() const noexcept { return parameters_.empty(); }
  std::size_t size() const noexcept { return parameters_.size(); }
  /// A node that uses one of them; nullopt if there are none.
  std::optional<GraphNodeHandle> first_node() const noexcept {
    for (const Parameter& each : parameters_)
      if (!each.uses.empty()) return each.uses.front().node;
    return std::nullopt;
  }
  /// True if a call of CUDAGraph::set() can still change a node.
  bool can_be_set() const noexcept {
    return std::ranges::any_of(parameters_,
                               [](const Parameter& each) { return !each.uses.empty() && !each.key.expired(); });
  }
  /// \throws UsageError if this graph does not have it.
  Parameter& find(const char* call, const void* key) {
    // Most calls name the same parameters in the same order.
    if (next_ >= parameters_.size() || parameters_[next_].address != key) [[unlikely]]
      next_ = index_of(call, key);
    Parameter& found = parameters_[next_];
    next_ = &found != &parameters_.back() ? next_ + 1 : 0;
    return found;
  }
  /// True if all of them have these values. \throws UsageError as find().
  bool have(const char* call, std::span<const ParameterValue> values) {
    bool all = true;
    for (const ParameterValue& value : values) all &= has(find(call, value.key()), value);
    return all;
  }
  static bool has(const Parameter& parameter, const ParameterValue& value) noexcept {
    if (!parameter.known) return false;
    const std::byte* const present = parameter.value.data();
    if (value.bytes() == sizeof(std::uint64_t)) return is_equal<std::uint64_t>(present, value.value());
    if (value.bytes() == sizeof(std::uint32_t)) return is_equal<std::uint32_t>(present, value.value());
    return std::memcmp(present, value.value(), value.bytes()) == 0;
  }
  /// A number for the next batch of values.
  std::uint64_t next_batch() noexcept { return ++batch_; }

  /// True if a parameter that can still be set has the place, or a part of it.
  bool have_place(GraphNodeHandle node, const NodePlace& place) const;
  /// Values of a node were changed: a parameter that is used there may not have its value any more.
  void node_changed(GraphNodeHandle node) noexcept;
  /// Notes that values of all nodes may have changed: no parameter's value is known.
  void forget() noexcept {
    for (Parameter& parameter : parameters_) parameter.known = false;
  }
  /// The same parameters of another graph, by its nodes.
  Parameters adopted(const std::unordered_map<GraphNodeHandle, GraphNodeHandle>& nodes) const;
  /// Several parameters were set. Those that share places with them may not have their values any more.
  void were_set(std::span<const ParameterValue> values) noexcept;

  /// Removes all parameters.
  void reset() noexcept {
    parameters_.clear();
    by_key_.clear();
    by_node_.clear();
    addresses_.clear();
    drop_at_ = least_to_drop;
  }

 private:
  static constexpr std::size_t least_to_drop = 16;

  /// A use of a parameter, as its node has it.
  struct Place {
    std::size_t parameter;  // in parameters_
    NodePlace place;
  };

  /// As memcmp, without a call: pointers and numbers.
  template <class Word>
  static bool is_equal(const void* one, const void* other) noexcept {
    Word first{}, second{};
    std::memcpy(&first, one, sizeof first);
    std::memcpy(&second, other, sizeof second);
    return first == second;
  }
  /// In parameters_. \throws UsageError if this graph does not have it.
  std::size_t index_of(const char* call, const void* key) const;
  std::size_t find_or_add(const std::shared_ptr<const void>& key, std::span<const std::byte> value);
  void add_use(std::size_t parameter, const Use& use);
  /// Without the parameters that nothing can set, and with the nodes that `node_of` returns; null: not used any more.
  template <class NodeOf>
  Parameters copy(const NodeOf& node_of) const;
  void forget_sharing(const Parameter& parameter) noexcept;

  std::vector<Parameter> parameters_;
  std::unordered_map<const void*, std::size_t> by_key_;  // places in parameters_, by Parameter::address
  std::size_t next_ = 0;  // in parameters_: after the last that was found; the first one after the last
  std::unordered_map<GraphNodeHandle, std::vector<Place>> by_node_;
  std::vector<Address> addresses_;       // while the capture is underway
  std::size_t drop_at_ = least_to_drop;  // the number of parameters at which those are dropped that nothing can set
  std::uint64_t batch_ = 0;
};

}  // namespace reprise::graphs
