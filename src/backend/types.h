// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/capture_options.h"
#include "reprise/detail/export.h"
#include "reprise/error.h"
#include "reprise/graph_types.h"
#include "reprise/handles.h"
#include "reprise/kernel.h"
#include "reprise/stream.h"

// The values that cross the backend interface. Each mirrors a struct or an enum of the CUDA driver API.

namespace reprise::backend {

/// `CU_STREAM_DEFAULT`, `CU_STREAM_NON_BLOCKING`.
enum class StreamFlags : unsigned { blocking = 0, non_blocking = 1 };

/// `CU_EVENT_DEFAULT`, `CU_EVENT_DISABLE_TIMING`.
enum class EventFlags : unsigned { timing = 0, disable_timing = 2 };

/// `CU_EVENT_RECORD_...`, `CU_EVENT_WAIT_...`.
enum class EventUseFlags : unsigned { ordering = 0, external = 1 };

/// `CU_STREAM_ADD_CAPTURE_DEPENDENCIES`, `CU_STREAM_SET_CAPTURE_DEPENDENCIES`.
enum class UpdateDependencies : unsigned { add = 0, set = 1 };

/// `CUmemorytype`; `unregistered` is memory that the device runtime does not know.
enum class MemoryKind { unregistered, device, pinned };

/// Properties of an address that the runtime knows.
struct PointerInfo {
  MemoryKind kind = MemoryKind::unregistered;
  int device_index = -1;  ///< the device it belongs to; -1 when unregistered
  void* base = nullptr;   ///< start of the allocation it lies in (`cuMemGetAddressRange`)
  std::size_t bytes = 0;  ///< size of that allocation
  std::uint64_t id = 0;   ///< of that allocation: none in the process has had it before; 0 when unregistered
};

using reprise::EdgeData;

/// Data of an edge for a kernel's programmatic dependent launch: the next kernel may start when all blocks of the one
/// before have allowed it.
inline constexpr EdgeData programmatic_edge = {1, 0, 1};

/// True if the edge orders the end of a kernel before the next one only where that waits for it.
constexpr bool is_programmatic(const EdgeData& edge) noexcept {
  return edge.type == programmatic_edge.type;
}

/// The nodes that a new node depends on, with the data of the edges: what the driver takes as two arrays.
struct Dependencies {
  Dependencies() = default;
  /// \param edge_data one for each node; none: all edges are full dependencies.
  template <class Nodes>
  requires std::is_convertible_v<Nodes&&, std::span<const GraphNodeHandle>> Dependencies(
      Nodes&& of, std::span<const EdgeData> edge_data = {})  // NOLINT: as a span
      : nodes(std::forward<Nodes>(of)), edges(edge_data) {}
  Dependencies(const GraphNodeHandle* first, std::size_t count) : nodes(first, count) {}

  EdgeData edge(std::size_t index) const noexcept { return edges.empty() ? EdgeData{} : edges[index]; }

  std::span<const GraphNodeHandle> nodes = {};
  std::span<const EdgeData> edges = {};
};

/// An edge of a template graph.
struct Edge {
  GraphNodeHandle from = nullptr;
  GraphNodeHandle to = nullptr;
  EdgeData data = {};
};

/// `cuStreamGetCaptureInfo`. The spans are valid until the next call on the stream or the end of the capture.
struct CaptureInfo {
  CaptureStatus status = CaptureStatus::none;
  std::uint64_t id = 0;                                ///< unique in the process
  GraphHandle graph = nullptr;                         ///< the graph being made
  std::span<const GraphNodeHandle> dependencies = {};  ///< what the next node will depend on
  std::span<const EdgeData> edges = {};                ///< of these dependencies; empty: full ones
};

using reprise::NodeType;

/// `CUDA_KERNEL_NODE_PARAMS`. As an input the arguments are copied; as an output they point into the node, and are
/// valid until it is changed or destroyed.
struct KernelNodeParams {
  FunctionHandle function = nullptr;
  LaunchConfig config = {};
  void** params = nullptr;  ///< a pointer to each argument; null if there is `extra`
  /// The arguments packed into one block, instead of `params`: the last argument of `cuLaunchKernel`, passed on as it
  /// is. packed_arguments() reads it. Not on host devices.
  void** extra = nullptr;
  /// For Backend::graph_node_set_params() alone: the node has neither cluster nor cooperation, and `config` has none
  /// either, so that the driver is not queried for them.
  bool without_attributes = false;
};

/// The block of packed arguments in KernelNodeParams::extra: each parameter lies at its offset
/// (Backend::function_param_info). nullopt if `extra` is null or in an unknown form.
std::optional<std::span<const std::byte>> packed_arguments(void* const* extra) noexcept;

using reprise::MemcpyNodeParams;
using reprise::MemsetNodeParams;

/// `CUDA_MEMCPY3D` of a copy that MemcpyNodeParams does not describe: of rows with gaps between them, or with an array.
/// An output only: the library neither makes nor changes such nodes (`not_supported`).
struct PitchedCopyNodeParams {
  struct End {
    std::byte* address = nullptr;  ///< null: an array
    std::size_t bytes = 0;         ///< from the first byte to the last one, with the gaps; 0 for an array
  };
  End source;
  End destination;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;  ///< of all slices
};

/// `CUDA_MEMSET_NODE_PARAMS` of a set that MemsetNodeParams does not describe: of rows with gaps between them. An
/// output only, likewise.
struct PitchedSetNodeParams {
  void* destination = nullptr;
  std::size_t bytes = 0;  ///< from the first byte to the last one, with the gaps
  std::uint32_t value = 0;
  std::size_t row_bytes = 0;
  std::size_t rows = 0;
};

/// `CUDA_HOST_NODE_PARAMS`. The function must not call the device runtime.
struct HostNodeParams {
  void (*function)(void* data) = nullptr;
  void* data = nullptr;
};

/// Records the event when it is reached.
struct EventRecordNodeParams {
  EventHandle event = nullptr;
};

/// Waits for the event's last record as of the launch.
struct EventWaitNodeParams {
  EventHandle event = nullptr;
};

/// Does nothing; joins edges.
struct EmptyNodeParams {};

/// A whole graph as one node; the graph is copied.
struct ChildGraphNodeParams {
  GraphHandle graph = nullptr;
};

/// `CUDA_MEM_ALLOC_NODE_PARAMS` on the device's own memory. `address` is an output.
struct MemoryAllocateNodeParams {
  std::size_t bytes = 0;
  void* address = nullptr;
};

/// Frees what an allocation node or `memory_allocate_async` allocated.
struct MemoryFreeNodeParams {
  void* address = nullptr;
};

/// `CUgraphConditionalHandle`.
using ConditionalHandle = std::uint64_t;

/// `CUgraphConditionalNodeType`.
enum class ConditionalType { if_ = 0, while_ = 1, switch_ = 2 };

/// `CUDA_CONDITIONAL_NODE_PARAMS`. `bodies` is an output: graphs that belong to the node.
struct ConditionalNodeParams {
  ConditionalHandle handle = 0;
  ConditionalType type = ConditionalType::if_;
  unsigned body_count = 1;  ///< if: 1, or 2 with an else (12.8); while: 1; switch: at least 1 (12.8)
  std::vector<GraphHandle> bodies = {};
};

/// `CUgraphNodeParams`: the type of a node and what it does.
using NodeParams =
    std::variant<KernelNodeParams, MemcpyNodeParams, MemsetNodeParams, HostNodeParams, ChildGraphNodeParams,
                 EmptyNodeParams, EventWaitNodeParams, EventRecordNodeParams, MemoryAllocateNodeParams,
                 MemoryFreeNodeParams, ConditionalNodeParams, PitchedCopyNodeParams, PitchedSetNodeParams>;

/// True for the two kinds that are outputs only.
inline bool is_pitched(const NodeParams& params) noexcept {
  return std::holds_alternative<PitchedCopyNodeParams>(params) || std::holds_alternative<PitchedSetNodeParams>(params);
}

/// The text with which a backend refuses to make or change such a node.
inline constexpr const char* pitched_refused =
    "copies and sets of rows with gaps between them, and copies of arrays, are read only in this library: make them "
    "with the runtime's own calls";

/// The type that the params stand for.
NodeType node_type(const NodeParams& params) noexcept;

/// CUDA's word for the type, for example "memcpy".
REPRISE_EXPORT_INTERNAL const char* node_type_name(NodeType type) noexcept;

using reprise::UpdateResult;

/// `CUgraphExecUpdateResultInfo`.
struct UpdateInfo {
  UpdateResult result = UpdateResult::success;
  GraphNodeHandle node = nullptr;  ///< the node of the new graph that does not fit, when there is one
};

/// `CU_GRAPH_DEBUG_DOT_FLAGS_...`.
enum class DotFlags : unsigned { none = 0, verbose = 1 };

/// `CU_GRAPH_USER_OBJECT_MOVE`: whether the graph takes a reference over or adds one.
enum class RetainFlags : unsigned { add = 0, move = 1 };

}  // namespace reprise::backend
