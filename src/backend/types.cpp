// SPDX-License-Identifier: Apache-2.0
#include "backend/types.h"

namespace reprise::backend {
namespace {

struct TypeOf {
  NodeType operator()(const KernelNodeParams&) const noexcept { return NodeType::kernel; }
  NodeType operator()(const MemcpyNodeParams&) const noexcept { return NodeType::memcpy; }
  NodeType operator()(const PitchedCopyNodeParams&) const noexcept { return NodeType::memcpy; }
  NodeType operator()(const PitchedSetNodeParams&) const noexcept { return NodeType::memset; }
  NodeType operator()(const MemsetNodeParams&) const noexcept { return NodeType::memset; }
  NodeType operator()(const HostNodeParams&) const noexcept { return NodeType::host; }
  NodeType operator()(const ChildGraphNodeParams&) const noexcept { return NodeType::child_graph; }
  NodeType operator()(const EmptyNodeParams&) const noexcept { return NodeType::empty; }
  NodeType operator()(const EventWaitNodeParams&) const noexcept { return NodeType::event_wait; }
  NodeType operator()(const EventRecordNodeParams&) const noexcept { return NodeType::event_record; }
  NodeType operator()(const MemoryAllocateNodeParams&) const noexcept { return NodeType::memory_allocate; }
  NodeType operator()(const MemoryFreeNodeParams&) const noexcept { return NodeType::memory_free; }
  NodeType operator()(const ConditionalNodeParams&) const noexcept { return NodeType::conditional; }
};

/// `CU_LAUNCH_PARAM_...`: the keys in `extra`, each but the last followed by its value. The numbers are CUDA's.
enum class LaunchParam : std::uintptr_t { end = 0, buffer_pointer = 1, buffer_size = 2 };

// A launch takes 32764 bytes of parameters; more is no size.
constexpr std::size_t most_packed_bytes = 32764;

}  // namespace

std::optional<std::span<const std::byte>> packed_arguments(void* const* extra) noexcept {
  if (extra == nullptr) return std::nullopt;
  const std::byte* buffer = nullptr;
  const std::size_t* bytes = nullptr;
  for (;; extra += 2) switch (static_cast<LaunchParam>(reinterpret_cast<std::uintptr_t>(extra[0]))) {
      case LaunchParam::buffer_pointer:
        buffer = static_cast<const std::byte*>(extra[1]);
        break;
      case LaunchParam::buffer_size:
        bytes = static_cast<const std::size_t*>(extra[1]);
        break;
      case LaunchParam::end:
        if (buffer == nullptr || bytes == nullptr || *bytes > most_packed_bytes) return std::nullopt;
        return std::span(buffer, *bytes);
      default:
        return std::nullopt;
    }
}

NodeType node_type(const NodeParams& params) noexcept {
  return std::visit(TypeOf{}, params);
}

const char* node_type_name(NodeType type) noexcept {
  switch (type) {
    case NodeType::kernel:
      return "kernel";
    case NodeType::memcpy:
      return "memcpy";
    case NodeType::memset:
      return "memset";
    case NodeType::host:
      return "host";
    case NodeType::child_graph:
      return "child graph";
    case NodeType::empty:
      return "empty";
    case NodeType::event_wait:
      return "event wait";
    case NodeType::event_record:
      return "event record";
    case NodeType::memory_allocate:
      return "memory allocate";
    case NodeType::memory_free:
      return "memory free";
    case NodeType::conditional:
      return "conditional";
  }
  return "unknown";
}

}  // namespace reprise::backend
