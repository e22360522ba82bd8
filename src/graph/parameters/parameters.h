// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
  /// An address whose uses are a parameter: itself, or `bytes` from it on.
  struct Address {
    std::shared_ptr<const void> key;
    std::uintptr_t value = 0;
    std::size_t bytes = 0;  ///< 0: it alone
    bool covers(std::uintptr_t other) const noexcept { return bytes == 0 ? other == value : other - value < bytes; }
  };
  struct Parameter {
    std::shared_ptr<const void> key;
    std::vector<std::byte> value;
    std::vector<Use> uses;
    bool known = true;        ///< all uses have the value
    std::uint64_t batch = 0;  ///< the last one that sets it
  };

  /// Uses of a parameter, which may be there already. Each place once.
  void add(const std::shared_ptr<const void>& key, std::span<const std::byte> value, std::vector<Use> uses);
  /// An address whose uses are looked for when the capture has ended.
  void add_address(Address address) { addresses_.push_back(std::move(address)); }
  std::vector<Address> take_addresses() noexcept { return std::exchange(addresses_, {}); }

  bool empty() const noexcept { return parameters_.empty(); }
  /// \throws UsageError if this graph does not have it.
  Parameter& find(const char* call, const void* key) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) [[unlikely]]
      refuse(call);
    return parameters_[found->second];
  }
  /// True if all of them have these values. \throws UsageError as find().
  bool have(const char* call, std::span<const ParameterValue> values) {
    bool all = true;
    for (const ParameterValue& value : values) all &= has(find(call, value.key()), value);
    return all;
  }
  static bool has(const Parameter& parameter, const ParameterValue& value) noexcept {
    return parameter.known && std::memcmp(parameter.value.data(), value.value(), value.bytes()) == 0;
  }
  /// A number for the next batch of values.
  std::uint64_t next_batch() noexcept { return ++batch_; }

  /// Values of a node were changed: a parameter that is used there may not have its value any more.
  void node_changed(GraphNodeHandle node) noexcept;
  /// After the same for all nodes.
  void forget() noexcept {
    for (Parameter& parameter : parameters_) parameter.known = false;
  }
  /// The same parameters of another graph, by its nodes.
  Parameters adopted(const std::unordered_map<GraphNodeHandle, GraphNodeHandle>& nodes) const;
  /// Several parameters were set, in these nodes.
  void were_set(std::span<const ParameterValue> values, std::span<const GraphNodeHandle> nodes) noexcept;

  /// The graph is empty.
  void reset() noexcept {
    parameters_.clear();
    by_key_.clear();
    addresses_.clear();
    share_places_ = false;
  }

 private:
  [[noreturn]] static void refuse(const char* call);

  std::vector<Parameter> parameters_;
  std::unordered_map<const void*, std::size_t> by_key_;  // places in parameters_
  std::vector<Address> addresses_;                       // while the capture is underway
  bool share_places_ = false;                            // two parameters have the same place
  std::uint64_t batch_ = 0;
};

}  // namespace reprise::graphs
