// SPDX-License-Identifier: Apache-2.0
#include "cache/input_uses.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <variant>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"

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
  graphs::ParamPointers pointers;
  const backend::NodeParams params = image.params(pointers);
  for (const MemoryAccess& access : image.own_kernel()->accesses(std::get<backend::KernelNodeParams>(params).params))
    for (std::size_t i = 0; i < memory.size(); ++i)
      if (access.bytes != 0 &&
          lies_in(memory[i].data, reinterpret_cast<std::uintptr_t>(access.address), memory[i].bytes))
        uses[i] = InputUse::unreadable;
}

void find_in_words(NodeImage& image, std::span<const MemoryRange> memory, std::vector<InputUse>& uses) {
  const InputUse readable = image.type() == NodeType::kernel ? InputUse::readable : InputUse::readable_in_copy;
  for (const NodePlace& place : image.words()) {
    std::uintptr_t value = 0;
    std::memcpy(&value, image.at(place).data(), sizeof value);
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (!lies_near(memory[i], value)) continue;
      const InputUse use = lies_in(memory[i].data, value, memory[i].bytes) ? readable : InputUse::unreadable;
      uses[i] = std::max(uses[i], use);
    }
  }
}

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
  if (memory.empty()) return uses;
  graphs::GraphAccess::Impl& impl = graphs::GraphAccess::of(graph, "GraphCache::run");
  const std::lock_guard lock(impl.launch_mutex);
  std::vector<GraphNodeHandle> nodes;
  backend::Checked(impl.backend()).graph_nodes(impl.template_graph, &nodes);
  for (const GraphNodeHandle node : nodes) {
    NodeImage image = impl.changes.values(impl.backend(), node);
    // Child graphs and bodies of control flow are not searched.
    if (!has_readable_uses(image)) return std::vector<InputUse>(memory.size(), InputUse::unreadable);
    if (image.own_kernel() != nullptr)
      find_in_own_kernel(image, memory, uses);
    else {
      find_in_words(image, memory, uses);
      if (image.type() == NodeType::kernel) find_between_words(image, memory, uses);
    }
  }
  return uses;
}

}  // namespace reprise::caches
