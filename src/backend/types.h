// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "reprise/capture_options.h"
#include "reprise/error.h"
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

/// `CUmemorytype`, with what is no memory of the device runtime.
enum class MemoryKind { unregistered, device, pinned };

/// What the runtime knows about an address.
struct PointerInfo {
  MemoryKind kind = MemoryKind::unregistered;
  int device_index = -1;  ///< the device it belongs to; -1 when unregistered
  void* base = nullptr;   ///< start of the allocation it lies in (`cuMemGetAddressRange`)
  std::size_t bytes = 0;  ///< size of that allocation
  std::uint64_t id = 0;   ///< of that allocation: none in the process has had it before; 0 when unregistered
};

/// `CUgraphEdgeData`: zeros for a full dependency.
struct EdgeData {
  unsigned char from_port = 0;  ///< 0: when the node is complete; 1: programmatic; 2: launch completion
  unsigned char to_port = 0;
  unsigned char type = 0;  ///< 0 default, 1 programmatic
  friend bool operator==(const EdgeData&, const EdgeData&) = default;
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
};

/// `CUgraphNodeType`; the numbers are CUDA's.
enum class NodeType {
  kernel = 0,
  memcpy = 1,
  memset = 2,
  host = 3,
  child_graph = 4,
  empty = 5,
  event_wait = 6,
  event_record = 7,
  memory_allocate = 10,
  memory_free = 11,
  conditional = 13,
};

/// `CUDA_KERNEL_NODE_PARAMS`. As an input the arguments are copied; as an output they point into the node, and are
/// valid until it is changed or destroyed.
struct KernelNodeParams {
  FunctionHandle function = nullptr;
  LaunchConfig config = {};
  void** params = nullptr;  ///< a pointer to each argument; null if there is `extra`
  /// The arguments packed into one block, instead of `params`: the last argument of `cuLaunchKernel`, passed on as it
  /// is. packed_arguments() reads it. Not on host devices.
  void** extra = nullptr;
};

/// The block of packed arguments in KernelNodeParams::extra: each parameter lies at its offset
/// (Backend::function_param_info). nullopt if `extra` is null or in an unknown form.
std::optional<std::span<const std::byte>> packed_arguments(void* const* extra) noexcept;

/// `CUDA_MEMCPY3D` in one dimension.
struct MemcpyNodeParams {
  void* destination = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
};

/// `CUDA_MEMSET_NODE_PARAMS` in one dimension.
struct MemsetNodeParams {
  void* destination = nullptr;
  unsigned value = 0;          ///< of which the low `element_bytes` bytes count
  unsigned element_bytes = 1;  ///< 1, 2 or 4; the destination is aligned to it
  std::size_t count = 0;       ///< elements
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
  unsigned body_count = 1;
  std::vector<GraphHandle> bodies = {};
};

/// `CUgraphNodeParams`: the type of a node and what it does.
using NodeParams = std::variant<KernelNodeParams, MemcpyNodeParams, MemsetNodeParams, HostNodeParams,
                                ChildGraphNodeParams, EmptyNodeParams, EventWaitNodeParams, EventRecordNodeParams,
                                MemoryAllocateNodeParams, MemoryFreeNodeParams, ConditionalNodeParams>;

/// The type that the params stand for.
NodeType node_type(const NodeParams& params) noexcept;

/// CUDA's word for the type, for example "memcpy".
const char* node_type_name(NodeType type) noexcept;

/// `CUgraphExecUpdateResult`; the numbers are CUDA's.
enum class UpdateResult {
  success = 0,
  error = 1,
  topology_changed = 2,
  node_type_changed = 3,
  function_changed = 4,
  parameters_changed = 5,
  not_supported = 6,
  unsupported_function_change = 7,
  attributes_changed = 8,
};

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
