// SPDX-License-Identifier: Apache-2.0
#include "backend/types.h"

#include <iterator>

namespace reprise::backend {
namespace {

// In the order of NodeParams.
constexpr NodeType types_of_params[] = {NodeType::kernel,      NodeType::memcpy,       NodeType::memset,
                                        NodeType::host,        NodeType::child_graph,  NodeType::empty,
                                        NodeType::event_wait,  NodeType::event_record, NodeType::memory_allocate,
                                        NodeType::memory_free, NodeType::conditional,  NodeType::memcpy,
                                        NodeType::memset};
static_assert(std::size(types_of_params) == std::variant_size_v<NodeParams>);

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
  return types_of_params[params.index()];
}

const char* node_type_name(NodeType type) noexcept {
  // By CUDA's numbers, of which this library does not use all.
  static constexpr const char* names[] = {"kernel",          "memcpy",      "memset",       "host",       "child graph",
                                          "empty",           "event wait",  "event record", "unknown",    "unknown",
                                          "memory allocate", "memory free", "unknown",      "conditional"};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(names) ? names[number] : "unknown";
}

}  // namespace reprise::backend
