// SPDX-License-Identifier: Apache-2.0
#include "cache/input_uses.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_set>
#include <variant>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"
#include "graph/listeners/pool_listener.h"
#include "memory/allocator_impl.h"

namespace reprise::caches {

using graphs::NodeImage;
using graphs::NodePlace;

namespace {

bool lies_in(const void* address, std::uintptr_t value, std::size_t bytes) {
  return value - reinterpret_cast<std::uintptr_t>(address) < bytes;
}

// True if the value lies in the memory or within `bytes_around` of it.
bool lies_near(const MemoryRange& memory, std::uintptr_t value) {
  return lies_in(static_cast<const std::byte*>(memory.data) - bytes_around, value, memory.bytes + 2 * bytes_around);
}

// Marks the memory that a kernel of this library accesses as unreadable: addresses in its parameters are not replaced.
void find_in_own_kernel(const NodeImage& image, std::span<const MemoryRange> memory, std::vector<InputUse>& uses) {
  for (const MemoryAccess& access : image.own_accesses())
    for (std::size_t i = 0; i < memory.size(); ++i)
      if (access.bytes != 0 &&
          lies_in(memory[i].data, reinterpret_cast<std::uintptr_t>(access.address), memory[i].bytes))
        uses[i] = InputUse::unreadable;
}

// Addresses that lie near no memory are added to `others`: of kernels, as copies and sets use no address but theirs.
void find_in_words(NodeImage& image, std::span<const MemoryRange> memory, std::vector<InputUse>& uses,
                   std::unordered_set<std::uintptr_t>& others) {
  const InputUse readable = image.type() == NodeType::kernel ? InputUse::readable : InputUse::readable_in_copy;
  for (const NodePlace& place : image.words()) {
    const std::uintptr_t value = image.word(place);
    bool is_near = false;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (!lies_near(memory[i], value)) continue;
      is_near = true;
      if (!lies_in(memory[i].data, value, memory[i].bytes))
        std::ranges::fill(uses, InputUse::unreadable);  // it may count from any
      else
        uses[i] = std::max(uses[i], image.is_number(place) ? InputUse::unreadable : readable);
    }
    if (!is_near && image.type() == NodeType::kernel) others.insert(value);
  }
}

/// Finds out whether an address that lies near no memory of a list may count from one of them: `x - 10000`, which the
/// kernel adds an index to.
class FarAddresses {
 public:
  FarAddresses(const graphs::GraphAccess::Impl& impl, std::span<const MemoryRange> memory,
               const std::unordered_set<std::uintptr_t>& others)
      : impl_(impl), others_(others) {
    for (const MemoryRange& each : memory) own_.push_back(allocation_of(reinterpret_cast<std::uintptr_t>(each.data)));
  }

  bool may_be_origin(std::uintptr_t address) {
    // Allocations lie around others of the same device: a number, or a pointer of the host, does not.
    if (!lies_within(std::uintptr_t{1} << 36, address)) return false;
    // Allocations of the capture, also those that the body has freed: several may have had the same memory.
    bool is_of_capture = false;
    for (const auto& each : impl_.listeners.pool().allocations()) {
      if (address - each.address >= each.bytes) continue;
      if (may_be_meant(each.address, address)) return false;
      is_of_capture = true;
    }
    if (is_of_capture) return true;
    const auto block = CachingAllocator::of(*impl_.device).impl().find_block(reinterpret_cast<const void*>(address));
    if (block) return !may_be_meant(reinterpret_cast<std::uintptr_t>(block->address), address);
    const Allocation found = allocation_of(address);
    return found.bytes == 0 || !may_be_meant(found.begin, address);
  }

 private:
  struct Allocation {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;  // 0: there is none
  };

  Allocation allocation_of(std::uintptr_t address) const {
    const backend::PointerInfo info = backend::Checked(impl_.backend())
                                          .allowing(ErrorCode::invalid_value)
                                          .info_of(reinterpret_cast<const void*>(address));
    const bool is_known = info.kind != backend::MemoryKind::unregistered;
    return {reinterpret_cast<std::uintptr_t>(info.base), is_known ? info.bytes : 0};
  }
  bool lies_within(std::uintptr_t distance, std::uintptr_t address) const {
    return std::ranges::any_of(own_, [&](const Allocation& each) {
      return address - (each.begin - std::min(each.begin, distance)) < each.bytes + 2 * distance;
    });
  }
  // For an address in other memory, which begins at `begin`: of its beginning, or of a part where the graph uses the
  // beginning as well. Memory that lies further away is not looked at so closely.
  bool may_be_meant(std::uintptr_t begin, std::uintptr_t address) const {
    constexpr std::uintptr_t near = std::uintptr_t{2} << 20;
    return begin == address || others_.contains(begin) || !lies_within(near, address);
  }

  const graphs::GraphAccess::Impl& impl_;
  const std::unordered_set<std::uintptr_t>& others_;
  std::vector<Allocation> own_;  // in which the memory lies
};

// Addresses in arguments that are not aligned there.
void find_between_words(NodeImage& image, std::span<const MemoryRange> memory, std::vector<InputUse>& uses) {
  constexpr std::size_t word = sizeof(std::uintptr_t);
  for (const KernelParam& param : image.layout()) {
    const std::span<const std::byte> bytes = image.at({NodePlace::Of::arguments, param.offset, param.size});
    for (std::size_t at = 1; at + word <= bytes.size(); ++at) {
      if (at % word == 0) continue;
      std::uintptr_t value = 0;
      std::memcpy(&value, bytes.data() + at, word);
      for (std::size_t i = 0; i < memory.size(); ++i)
        if (lies_near(memory[i], value)) uses[i] = InputUse::unreadable;
    }
  }
}

bool has_readable_uses(const NodeImage& image) {
  const NodeType type = image.type();
  return image.has_params() && (type == NodeType::kernel || type == NodeType::memcpy || type == NodeType::memset);
}

}  // namespace

std::vector<InputUse> find_uses(CUDAGraph& graph, std::span<const MemoryRange> memory) {
  std::vector<InputUse> uses(memory.size(), InputUse::none);
  const std::vector<InputUse> all_unreadable(memory.size(), InputUse::unreadable);
  if (memory.empty()) return uses;
  graphs::GraphAccess::Impl& impl = graphs::GraphAccess::of(graph, "GraphCache::run");
  const std::lock_guard lock(impl.launch_mutex);
  std::unordered_set<std::uintptr_t> others;
  for (const GraphNodeHandle node : backend::Checked(impl.backend()).nodes_of(impl.template_graph)) {
    NodeImage image = impl.changes.values(impl.backend(), node);
    // Child graphs and bodies of control flow are not searched.
    if (!has_readable_uses(image)) return all_unreadable;
    if (image.own_kernel() != nullptr)
      find_in_own_kernel(image, memory, uses);
    else {
      find_in_words(image, memory, uses, others);
      if (image.type() == NodeType::kernel) find_between_words(image, memory, uses);
    }
  }
  FarAddresses far(impl, memory, others);
  for (const std::uintptr_t each : others)
    if (far.may_be_origin(each)) return all_unreadable;
  return uses;
}

}  // namespace reprise::caches
