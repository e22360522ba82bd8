// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"

namespace reprise::graphs {

/// Place of a value in a node.
struct NodePlace {
  enum class Of { arguments, source, destination };

  Of of = Of::arguments;
  std::size_t offset = 0;  ///< in the parameter block, of arguments
  std::size_t bytes = 0;
  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

/// True if an argument of this type is a number, and no address, whatever its value; null: the type is not known.
bool is_number(const std::type_info* type) noexcept;

/// The parameters of kernels, each queried once.
class KernelLayouts {
 public:
  struct Layout {
    std::vector<KernelParam> params = {};
    std::string unknown = {};  // why they are not known; empty if they are
  };

  /// \throws BackendError if the runtime fails.
  const std::shared_ptr<const Layout>& of(backend::Backend& backend, FunctionHandle function);
  void clear() noexcept { layouts_.clear(); }

 private:
  std::unordered_map<FunctionHandle, std::shared_ptr<const Layout>> layouts_;
};

/// Memory to which the parameters of a kernel in the backend's form refer, besides its arguments.
struct ParamPointers {
  std::vector<void*> pointers = {};
  std::size_t block_bytes = 0;
};

/// The values of one node, copied from a template: they can be changed here, and written to template and executable.
///
/// A value: copies are independent of each other, and of the node.
class NodeImage {
 public:
  /// Reads the node by one call of the runtime, unless that does not describe it.
  /// \throws BackendError if the runtime fails.
  NodeImage(backend::Backend& backend, GraphNodeHandle node, KernelLayouts& layouts);

  backend::NodeType type() const noexcept { return type_; }
  /// Why the values are not known and cannot be changed, without a full stop; empty if they are.
  const std::string& unknown() const noexcept { return unknown_; }
  /// Record of a kernel of this library, whose arguments cannot be changed; else null.
  const KernelRecord* own_kernel() const noexcept { return own_; }
  /// What a launch of such a kernel accesses.
  std::vector<MemoryAccess> own_accesses() const;

  /// Function and config of a kernel node; known even if the arguments are not.
  FunctionHandle function() const noexcept { return function_; }
  LaunchConfig& config() noexcept { return config_; }
  const LaunchConfig& config() const noexcept { return config_; }
  /// One for each argument, in order.
  std::span<const KernelParam> layout() const noexcept {
    return layout_ != nullptr ? std::span<const KernelParam>(layout_->params) : std::span<const KernelParam>();
  }
  /// The parameter block, in which KernelParam::offset counts.
  std::span<std::byte> block() noexcept { return block_; }
  std::span<const std::byte> block() const noexcept { return block_; }

  backend::MemcpyNodeParams& copy() noexcept { return copy_; }
  const backend::MemcpyNodeParams& copy() const noexcept { return copy_; }
  backend::MemsetNodeParams& set() noexcept { return set_; }
  const backend::MemsetNodeParams& set() const noexcept { return set_; }

  /// The graphs in a child graph node or a conditional node, as far as the runtime describes it; none of other nodes.
  std::vector<GraphHandle> inner_graphs() const;

  /// The bytes at a place; empty if the node has no such place.
  std::span<std::byte> at(const NodePlace& place) noexcept;
  /// The bytes at a place that can hold an address.
  std::uintptr_t word(const NodePlace& place) noexcept {
    std::uintptr_t value = 0;
    std::memcpy(&value, at(place).data(), sizeof value);
    return value;
  }
  /// All places that can hold an address: words of arguments, and the addresses of copies and sets.
  std::vector<NodePlace> words() const;
  /// The type of the argument that the place lies in; null if it is not known, and for the address of a copy or set.
  const std::type_info* argument_type(const NodePlace& place) const noexcept;
  /// True if the place is that of an argument whose type is known to be a number: its value is no address.
  bool is_number(const NodePlace& place) const noexcept;

  /// Addresses in values that are known and cannot be changed: of copies and sets of rows with gaps between them; null:
  /// none.
  const std::array<const void*, 2>& fixed_addresses() const noexcept { return fixed_; }

  /// True if params() has all values: also of a node that has none, or of a type that is never changed here.
  bool has_params() const noexcept { return unknown_.empty() || others_.has_value(); }
  /// The values in the form of the backend, if has_params(). They point into this object and into `pointers`, and are
  /// valid until one of the two is changed, moved, destroyed or passed to this again.
  backend::NodeParams params(ParamPointers& pointers) const;

  /// True if both are of the same node and have the same values. Padding counts.
  bool same_values(const NodeImage& other) const noexcept;

 private:
  void read(backend::Backend& backend, const backend::KernelNodeParams& kernel, KernelLayouts& layouts);
  void read_packed(void* const* extra);

  backend::NodeType type_ = backend::NodeType::empty;
  std::string unknown_;
  const KernelRecord* own_ = nullptr;
  FunctionHandle function_ = nullptr;
  LaunchConfig config_;
  std::shared_ptr<const KernelLayouts::Layout> layout_;  // null unless it is known
  std::vector<std::byte> block_;
  bool packed_ = false;  // the launch had its arguments in one block
  backend::MemcpyNodeParams copy_;
  backend::MemsetNodeParams set_;
  std::optional<backend::NodeParams> others_;  // of other types
  std::array<const void*, 2> fixed_ = {};
};

}  // namespace reprise::graphs
