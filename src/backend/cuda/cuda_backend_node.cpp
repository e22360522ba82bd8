// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conditional_nodes.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/node_params.h"
#include "text/format.h"

// The nodes of template graphs.

namespace reprise::backend::cuda {
namespace {

// In a stream, programmatic dependent launch is an attribute of the launch; in a graph, of the edge.
constexpr const char* programmatic_node_refused =
    "in a graph, programmatic dependent launch is not a property of the kernel node: give the edge that leads to it "
    "type 1 and the port that it comes from";

/// Why a node cannot be made or changed so; null if it can.
const char* refusal_of(const NodeParams& params) {
  if (is_pitched(params)) return pitched_refused;
  const auto* const kernel = std::get_if<KernelNodeParams>(&params);
  return kernel != nullptr && kernel->config.programmatic ? programmatic_node_refused : nullptr;
}

/// Why a driver of this version has no such node; empty if it has.
std::string lack_of(int version, const NodeParams& params) {
  const auto* const conditional = std::get_if<ConditionalNodeParams>(&params);
  const bool is_newer =
      conditional != nullptr && (conditional->type == ConditionalType::switch_ ||
                                 (conditional->type == ConditionalType::if_ && conditional->body_count > 1));
  return is_newer ? branches_unavailable(version) : std::string();
}

}  // namespace

CUresult CudaBackend::kernel_attributes(CUgraphNode node, LaunchConfig* config) const {
  CUlaunchAttributeValue cluster{}, cooperative{};
  CUresult result = driver_.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster);
  if (result != CUDA_SUCCESS) return result;
  result = driver_.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
  if (result != CUDA_SUCCESS) return result;
  // The driver writes zeros if no cluster was requested.
  if (cluster.clusterDim.x != 0) config->cluster = {cluster.clusterDim.x, cluster.clusterDim.y, cluster.clusterDim.z};
  config->cooperative = cooperative.cooperative != 0;
  return result;
}

CUresult CudaBackend::set_kernel_attributes(CUgraphNode node, const LaunchConfig& config) const {
  LaunchConfig now;
  CUresult result = kernel_attributes(node, &now);
  if (result != CUDA_SUCCESS) return result;
  if (now.cluster != config.cluster) {
    CUlaunchAttributeValue cluster{};
    cluster.clusterDim = {config.cluster.x, config.cluster.y, config.cluster.z};
    result = driver_.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster);
    if (result != CUDA_SUCCESS) return result;
  }
  if (now.cooperative == config.cooperative) return CUDA_SUCCESS;
  CUlaunchAttributeValue cooperative{};
  cooperative.cooperative = config.cooperative ? 1 : 0;
  return driver_.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
}

Result CudaBackend::graph_add_node(GraphNodeHandle* node, GraphHandle graph, const Dependencies& dependencies,
                                   NodeParams& params) {
  if (const char* const why = refusal_of(params)) return {ErrorCode::not_supported, why};
  if (std::string why = lack_of(driver_.version, params); !why.empty())
    return {ErrorCode::not_supported, std::move(why)};
  return enter(Call::graph_add_node, [&] {
    CUgraphNodeParams to_make = to_driver(params, primary_.load(std::memory_order_relaxed), device_);
    CUgraphNode made = nullptr;
    const CUresult result = driver_.cuGraphAddNode(&made, graph, dependencies.nodes.data(),
                                                   to_driver(dependencies.edges), dependencies.nodes.size(), &to_make);
    if (result != CUDA_SUCCESS) return result;
    const auto* const kernel = std::get_if<KernelNodeParams>(&params);
    if (kernel != nullptr && (kernel->config.cluster != Dim3{} || kernel->config.cooperative)) {
      const CUresult set = set_kernel_attributes(made, kernel->config);
      if (set != CUDA_SUCCESS) {
        (void)driver_.cuGraphDestroyNode(made);
        return set;
      }
    }
    read_outputs(to_make, &params);
    if (const auto* const conditional = std::get_if<ConditionalNodeParams>(&params))
      ConditionalNodes::instance().added(made, graph, *conditional);
    *node = made;
    return result;
  });
}

Result CudaBackend::graph_destroy_node(GraphNodeHandle node) {
  return enter(Call::graph_destroy_node, [&] {
    const CUresult result = driver_.cuGraphDestroyNode(node);
    if (result == CUDA_SUCCESS) ConditionalNodes::instance().destroyed(node);
    return result;
  });
}

Result CudaBackend::graph_node_type(GraphNodeHandle node, NodeType* type) {
  return enter_for<CUgraphNodeType>(Call::graph_node_type, type,
                                    [&](CUgraphNodeType* found) { return driver_.cuGraphNodeGetType(node, found); });
}

CUresult CudaBackend::kernel_params(CUgraphNode node, KernelNodeParams* params) const {
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUresult result = driver_.cuGraphKernelNodeGetParams(node, &kernel);
  // A node made from a kernel of a library refers to that; every device has its own function for it.
  if (result == CUDA_SUCCESS && kernel.func == nullptr && kernel.kern != nullptr)
    result = driver_.cuKernelGetFunction(&kernel.func, kernel.kern);
  if (result == CUDA_SUCCESS) result = kernel_attributes(node, &params->config);
  if (result != CUDA_SUCCESS) return result;
  params->function = kernel.func;
  params->config.grid = {kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ};
  params->config.block = {kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ};
  params->config.shared_bytes = kernel.sharedMemBytes;
  params->params = kernel.kernelParams;
  params->extra = kernel.extra;
  return result;
}

Result CudaBackend::graph_node_params(GraphNodeHandle node, NodeParams* params) {
  return enter(Call::graph_node_params, [&] {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    const CUresult result = driver_.cuGraphNodeGetType(node, &type);
    return result == CUDA_SUCCESS ? node_params(node, type, params) : result;
  });
}

CUresult CudaBackend::node_params(CUgraphNode node, CUgraphNodeType type, NodeParams* params) const {
  // Reads into `found`, and passes it on only if that worked.
  const auto get = [&](auto found, const auto& read) {
    const CUresult result = read(found);
    if (result == CUDA_SUCCESS) *params = found;
    return result;
  };
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return get(KernelNodeParams{}, [&](KernelNodeParams& found) { return kernel_params(node, &found); });
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return get(NodeParams{}, [&](NodeParams& found) {
        CUDA_MEMCPY3D copy{};
        const CUresult result = driver_.cuGraphMemcpyNodeGetParams(node, &copy);
        if (result == CUDA_SUCCESS) found = from_driver(copy);
        return result;
      });
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return get(NodeParams{}, [&](NodeParams& found) {
        CUDA_MEMSET_NODE_PARAMS set{};
        const CUresult result = driver_.cuGraphMemsetNodeGetParams(node, &set);
        if (result == CUDA_SUCCESS) found = from_driver(set);
        return result;
      });
    case CU_GRAPH_NODE_TYPE_HOST:
      return get(HostNodeParams{}, [&](HostNodeParams& found) {
        CUDA_HOST_NODE_PARAMS host{};
        const CUresult result = driver_.cuGraphHostNodeGetParams(node, &host);
        found = {host.fn, host.userData};
        return result;
      });
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return get(ChildGraphNodeParams{}, [&](ChildGraphNodeParams& found) {
        return driver_.cuGraphChildGraphNodeGetGraph(node, &found.graph);
      });
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return get(EmptyNodeParams{}, [](EmptyNodeParams&) { return CUDA_SUCCESS; });
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return get(EventWaitNodeParams{},
                 [&](EventWaitNodeParams& found) { return driver_.cuGraphEventWaitNodeGetEvent(node, &found.event); });
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return get(EventRecordNodeParams{}, [&](EventRecordNodeParams& found) {
        return driver_.cuGraphEventRecordNodeGetEvent(node, &found.event);
      });
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return get(MemoryAllocateNodeParams{}, [&](MemoryAllocateNodeParams& found) {
        CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
        const CUresult result = driver_.cuGraphMemAllocNodeGetParams(node, &allocation);
        found = {allocation.bytesize, to_pointer(allocation.dptr)};
        return result;
      });
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return get(MemoryFreeNodeParams{}, [&](MemoryFreeNodeParams& found) {
        CUdeviceptr address = 0;
        const CUresult result = driver_.cuGraphMemFreeNodeGetParams(node, &address);
        found.address = to_pointer(address);
        return result;
      });
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return ConditionalNodes::instance().find(node, params) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;  // the other types have no params in this library
  }
}

unsigned CudaBackend::memory_type(CUdeviceptr address) const {
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  return driver_.cuPointerGetAttributes(1, &attribute, &value, address) == CUDA_SUCCESS ? type : 0;
}

// An executable takes a copy only with the memory types that it was made with (driver 580), which are not UNIFIED in
// nodes that cudaMemcpyAsync makes with a kind. DEVICE also stands for pinned memory.
CUgraphNodeParams CudaBackend::changed_params(CUgraphNode node, const NodeParams& params) const {
  CUgraphNodeParams wanted = to_driver(params, primary_.load(std::memory_order_relaxed), device_);
  CUDA_MEMCPY3D present{};
  if (wanted.type != CU_GRAPH_NODE_TYPE_MEMCPY || driver_.cuGraphMemcpyNodeGetParams(node, &present) != CUDA_SUCCESS)
    return wanted;
  CUDA_MEMCPY3D& copy = wanted.memcpy.copyParams;
  const auto fits = [this](CUmemorytype type, CUdeviceptr address) {
    if (type == CU_MEMORYTYPE_DEVICE) return memory_type(address) != 0;
    return type == CU_MEMORYTYPE_HOST && memory_type(address) != CU_MEMORYTYPE_DEVICE;
  };
  if (fits(present.srcMemoryType, copy.srcDevice)) copy.srcMemoryType = present.srcMemoryType;
  if (fits(present.dstMemoryType, copy.dstDevice)) copy.dstMemoryType = present.dstMemoryType;
  copy.srcHost = to_pointer(copy.srcDevice);
  copy.dstHost = to_pointer(copy.dstDevice);
  return wanted;
}

Result CudaBackend::graph_node_set_params(GraphNodeHandle node, const NodeParams& params) {
  if (const char* const why = refusal_of(params)) return {ErrorCode::not_supported, why};
  return enter(Call::graph_node_set_params, [&] {
    CUgraphNodeParams wanted = changed_params(node, params);
    const CUresult result = driver_.cuGraphNodeSetParams(node, &wanted);
    const auto* const kernel = std::get_if<KernelNodeParams>(&params);
    const bool has_attributes = kernel != nullptr && !kernel->without_attributes;
    return result == CUDA_SUCCESS && has_attributes ? set_kernel_attributes(node, kernel->config) : result;
  });
}

Result CudaBackend::graph_exec_node_set_params(GraphExecHandle exec, GraphNodeHandle node, const NodeParams& params) {
  if (const char* const why = refusal_of(params)) return {ErrorCode::not_supported, why};
  // The driver keeps cluster and cooperation of the instantiated node, whatever the params.
  return enter(Call::graph_exec_node_set_params, [&] {
    CUgraphNodeParams wanted = changed_params(node, params);
    return driver_.cuGraphExecNodeSetParams(exec, node, &wanted);
  });
}

}  // namespace reprise::backend::cuda
