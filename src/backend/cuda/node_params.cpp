// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/node_params.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/cuda_backend.h"

namespace reprise::backend::cuda {
namespace {

static_assert(static_cast<int>(NodeType::kernel) == CU_GRAPH_NODE_TYPE_KERNEL);
static_assert(static_cast<int>(NodeType::memcpy) == CU_GRAPH_NODE_TYPE_MEMCPY);
static_assert(static_cast<int>(NodeType::memset) == CU_GRAPH_NODE_TYPE_MEMSET);
static_assert(static_cast<int>(NodeType::host) == CU_GRAPH_NODE_TYPE_HOST);
static_assert(static_cast<int>(NodeType::child_graph) == CU_GRAPH_NODE_TYPE_GRAPH);
static_assert(static_cast<int>(NodeType::empty) == CU_GRAPH_NODE_TYPE_EMPTY);
static_assert(static_cast<int>(NodeType::event_wait) == CU_GRAPH_NODE_TYPE_WAIT_EVENT);
static_assert(static_cast<int>(NodeType::event_record) == CU_GRAPH_NODE_TYPE_EVENT_RECORD);
static_assert(static_cast<int>(NodeType::memory_allocate) == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
static_assert(static_cast<int>(NodeType::memory_free) == CU_GRAPH_NODE_TYPE_MEM_FREE);
static_assert(static_cast<int>(NodeType::conditional) == CU_GRAPH_NODE_TYPE_CONDITIONAL);
static_assert(static_cast<int>(ConditionalType::if_) == CU_GRAPH_COND_TYPE_IF);
static_assert(static_cast<int>(ConditionalType::while_) == CU_GRAPH_COND_TYPE_WHILE);
#if CUDA_VERSION >= 12080
static_assert(static_cast<int>(ConditionalType::switch_) == CU_GRAPH_COND_TYPE_SWITCH);
#endif

static_assert(sizeof(EdgeData) == sizeof(CUgraphEdgeData) &&
              offsetof(EdgeData, from_port) == offsetof(CUgraphEdgeData, from_port) &&
              offsetof(EdgeData, to_port) == offsetof(CUgraphEdgeData, to_port) &&
              offsetof(EdgeData, type) == offsetof(CUgraphEdgeData, type));
#if CUDA_VERSION >= 12090
static_assert(CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE == 0);
#endif
static_assert(programmatic_edge.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC &&
              programmatic_edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);

static_assert(CU_LAUNCH_PARAM_END_AS_INT == 0 && CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT == 1 &&
              CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT == 2);  // as packed_arguments() takes them

struct ToDriver {
  CUgraphNodeParams& to;
  CUcontext context;
  CUdevice device;

  void operator()(const KernelNodeParams& from) const {
    CUDA_KERNEL_NODE_PARAMS_v3& kernel = to.kernel;
    kernel.func = from.function;
    kernel.gridDimX = from.config.grid.x;
    kernel.gridDimY = from.config.grid.y;
    kernel.gridDimZ = from.config.grid.z;
    kernel.blockDimX = from.config.block.x;
    kernel.blockDimY = from.config.block.y;
    kernel.blockDimZ = from.config.block.z;
    kernel.sharedMemBytes = from.config.shared_bytes;
    kernel.kernelParams = from.params;
    kernel.extra = from.extra;
  }
  void operator()(const MemcpyNodeParams& from) const {
    to.memcpy.copyCtx = context;
    CUDA_MEMCPY3D& copy = to.memcpy.copyParams;
    copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = to_address(from.source);
    copy.srcPitch = from.bytes;
    copy.srcHeight = 1;
    copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.dstDevice = to_address(from.destination);
    copy.dstPitch = from.bytes;
    copy.dstHeight = 1;
    copy.WidthInBytes = from.bytes;
    copy.Height = 1;
    copy.Depth = 1;
  }
  void operator()(const PitchedCopyNodeParams&) const {}  // refused before, as the next
  void operator()(const PitchedSetNodeParams&) const {}
  void operator()(const MemsetNodeParams& from) const {
    to.memset.dst = to_address(from.destination);
    // The driver writes more than the element when the value has more bits.
    to.memset.value = from.element_bytes < 4 ? from.value & ((1U << (8 * from.element_bytes)) - 1) : from.value;
    to.memset.elementSize = from.element_bytes;
    to.memset.width = from.count;
    to.memset.height = 1;
    to.memset.ctx = context;
  }
  void operator()(const HostNodeParams& from) const {
    to.host.fn = from.function;
    to.host.userData = from.data;
  }
  void operator()(const ChildGraphNodeParams& from) const { to.graph.graph = from.graph; }  // cloned: the default, 0
  void operator()(const EmptyNodeParams&) const {}
  void operator()(const EventWaitNodeParams& from) const { to.eventWait.event = from.event; }
  void operator()(const EventRecordNodeParams& from) const { to.eventRecord.event = from.event; }
  void operator()(const MemoryAllocateNodeParams& from) const {
    to.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    to.alloc.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
    to.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    to.alloc.poolProps.location.id = device;
    to.alloc.bytesize = from.bytes;
  }
  void operator()(const MemoryFreeNodeParams& from) const { to.free.dptr = to_address(from.address); }
  void operator()(const ConditionalNodeParams& from) const {
    to.conditional.handle = from.handle;
    to.conditional.type = static_cast<CUgraphConditionalNodeType>(from.type);
    to.conditional.size = from.body_count;
    to.conditional.ctx = context;
  }
};

std::size_t rows_of(const CUDA_MEMCPY3D& copy) {
  return std::max<std::size_t>(copy.Height, 1);
}

std::size_t slices_of(const CUDA_MEMCPY3D& copy) {
  return std::max<std::size_t>(copy.Depth, 1);
}

/// One end of a copy: `height` is how many rows lie between the beginnings of two slices, `x`, `y` and `z` where it
/// begins.
struct EndLayout {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t pitch, height, x, y, z;
};

PitchedCopyNodeParams::End end_of(const CUDA_MEMCPY3D& copy, const EndLayout& end) {
  if (end.type == CU_MEMORYTYPE_ARRAY) return {};
  const void* const memory = end.type == CU_MEMORYTYPE_HOST ? end.host : to_pointer(end.device);
  const auto offset_of = [&](std::size_t z, std::size_t y, std::size_t x) {
    return (z * end.height + y) * end.pitch + x;
  };
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(memory)) + offset_of(end.z, end.y, end.x);
  if (copy.WidthInBytes == 0) return {begin, 0};
  return {begin, offset_of(slices_of(copy) - 1, rows_of(copy) - 1, 0) + copy.WidthInBytes};
}

PitchedCopyNodeParams::End source_of(const CUDA_MEMCPY3D& copy) {
  return end_of(copy, {copy.srcMemoryType, copy.srcHost, copy.srcDevice, copy.srcPitch, copy.srcHeight,
                       copy.srcXInBytes, copy.srcY, copy.srcZ});
}

PitchedCopyNodeParams::End destination_of(const CUDA_MEMCPY3D& copy) {
  return end_of(copy, {copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstPitch, copy.dstHeight,
                       copy.dstXInBytes, copy.dstY, copy.dstZ});
}

}  // namespace

CUgraphNodeParams to_driver(const NodeParams& params, CUcontext context, CUdevice device) {
  CUgraphNodeParams made{};
  made.type = static_cast<CUgraphNodeType>(node_type(params));
  std::visit(ToDriver{made, context, device}, params);
  return made;
}

const CUgraphEdgeData* to_driver(std::span<const EdgeData> edges) noexcept {
  return reinterpret_cast<const CUgraphEdgeData*>(edges.data());
}

void read_outputs(const CUgraphNodeParams& made, NodeParams* params) {
  if (auto* const allocation = std::get_if<MemoryAllocateNodeParams>(params))
    allocation->address = to_pointer(made.alloc.dptr);
  else if (auto* const conditional = std::get_if<ConditionalNodeParams>(params))
    conditional->bodies.assign(made.conditional.phGraph_out, made.conditional.phGraph_out + made.conditional.size);
}

NodeParams from_driver(const CUDA_MEMCPY3D& copy) {
  const PitchedCopyNodeParams::End source = source_of(copy), destination = destination_of(copy);
  const std::size_t rows = rows_of(copy) * slices_of(copy), bytes = copy.WidthInBytes * rows;
  const bool is_array = source.address == nullptr || destination.address == nullptr;
  if (is_array || source.bytes != bytes || destination.bytes != bytes)
    return PitchedCopyNodeParams{source, destination, copy.WidthInBytes, rows};
  return MemcpyNodeParams{destination.address, source.address, bytes};
}

NodeParams from_driver(const CUDA_MEMSET_NODE_PARAMS& set) {
  const std::size_t rows = std::max<std::size_t>(set.height, 1), row_bytes = set.width * set.elementSize;
  if (rows > 1 && set.pitch != row_bytes)
    return PitchedSetNodeParams{to_pointer(set.dst), (rows - 1) * set.pitch + row_bytes, set.value, row_bytes, rows};
  return MemsetNodeParams{to_pointer(set.dst), set.value, set.elementSize, set.width * rows};
}

}  // namespace reprise::backend::cuda
