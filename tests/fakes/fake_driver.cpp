// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_driver.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace reprise::backend::cuda::test {
namespace {

FakeDriver* current_driver = nullptr;

FakeDriver& driver() {
  return FakeDriver::instance();
}

/// What every call that works in a context does.
CUresult work() {
  driver().worked_in.push_back(FakeDriver::contexts().empty() ? nullptr : FakeDriver::contexts().back());
  if (driver().result != CUDA_SUCCESS && driver().breaks_captures)
    driver().capture_status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return driver().result;
}

}  // namespace

FakeDriver& FakeDriver::instance() {
  if (current_driver == nullptr) throw std::logic_error("there is no fake driver");
  return *current_driver;
}

std::vector<CUcontext>& FakeDriver::contexts() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

CUstreamCaptureMode& FakeDriver::capture_mode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

FakeDriver::FakeDriver() {
  current_driver = this;
  contexts().clear();
  api_.version = 13000;
  fill_contexts();
  fill_work();
  fill_captures();
  fill_graphs();
}

FakeDriver::~FakeDriver() {
  current_driver = nullptr;
}

void FakeDriver::fill_contexts() {
  api_.cuCtxGetCurrent = [](CUcontext* context) {
    ++driver().current_queries;
    *context = contexts().empty() ? nullptr : contexts().back();
    return CUDA_SUCCESS;
  };
  api_.cuCtxSetCurrent = [](CUcontext context) {
    if (contexts().empty())
      contexts().push_back(context);
    else
      contexts().back() = context;
    return CUDA_SUCCESS;
  };
  api_.cuCtxPushCurrent = [](CUcontext context) {
    contexts().push_back(context);
    return CUDA_SUCCESS;
  };
  api_.cuCtxPopCurrent = [](CUcontext* context) {
    *context = contexts().back();
    contexts().pop_back();
    return CUDA_SUCCESS;
  };
  api_.cuDevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    ++driver().retained;
    driver().mode_at_retain = capture_mode();
    if (driver().retain_result == CUDA_SUCCESS) *context = primary_context_of(device);
    return driver().retain_result;
  };
  api_.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode* mode) {
    ++driver().mode_exchanges;
    std::swap(*mode, capture_mode());
    return CUDA_SUCCESS;
  };
  api_.cuLogsCurrent = [](LogIterator*, unsigned) { return CUDA_SUCCESS; };
  api_.cuLogsDumpToMemory = [](LogIterator*, char* buffer, std::size_t* size, unsigned) {
    *size = std::min(*size, driver().log.size());
    std::memcpy(buffer, driver().log.data(), *size);
    driver().log.clear();
    return CUDA_SUCCESS;
  };
}

void FakeDriver::fill_work() {
  api_.cuCtxSynchronize = [] { return work(); };
  api_.cuStreamQuery = [](CUstream) { return work(); };
  api_.cuMemAlloc = [](CUdeviceptr* pointer, std::size_t) {
    *pointer = 0xbad;  // on failure, too, as a driver might
    return work();
  };
  api_.cuMemFree = [](CUdeviceptr) { return work(); };
  api_.cuPointerGetAttributes = [](unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr) {
    const bool known = driver().pointer_type != 0;
    for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
          *static_cast<unsigned*>(values[i]) = driver().pointer_type;
          break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
          *static_cast<int*>(values[i]) = known ? 3 : -2;
          break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
          *static_cast<CUdeviceptr*>(values[i]) = known ? 0x7000 : 0;
          break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
          *static_cast<std::size_t*>(values[i]) = known ? 640 : 0;
          break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
          *static_cast<unsigned long long*>(values[i]) = known ? 77 : 0;
          break;
        default:
          return CUDA_ERROR_INVALID_VALUE;
      }
    return work();
  };
  api_.cuMemsetD8Async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) { return work(); };
  api_.cuMemcpyAsync = [](CUdeviceptr, CUdeviceptr, std::size_t, CUstream) { return work(); };
  api_.cuStreamWaitEvent = [](CUstream, CUevent, unsigned) { return work(); };
  api_.cuEventRecordWithFlags = [](CUevent, CUstream, unsigned) { return work(); };
  api_.cuMemGetAddressRange = [](CUdeviceptr*, std::size_t*, CUdeviceptr) { return CUDA_ERROR_NOT_FOUND; };
  api_.cuLaunchKernelEx = [](const CUlaunchConfig* config, CUfunction, void**, void** extra) {
    driver().launched = *config;
    driver().launched_extra = extra;
    driver().launch_attributes.assign(config->attrs, config->attrs + config->numAttrs);
    return work();
  };
}

void FakeDriver::fill_captures() {
  api_.cuStreamBeginCapture = [](CUstream, CUstreamCaptureMode) {
    driver().capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  };
  api_.cuStreamEndCapture = [](CUstream, CUgraph* graph) {
    const bool active = driver().capture_status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    *graph = active ? handle<CUgraph>(0x6a) : nullptr;
    driver().capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
    return active ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  };
  api_.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {
    *status = driver().capture_status;
    return CUDA_SUCCESS;
  };
  api_.cuStreamGetCaptureInfo = [](CUstream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode** last, const CUgraphEdgeData**, std::size_t* count) {
    ++driver().capture_queries;
    *status = driver().capture_status;
    *id = 1;
    *graph = handle<CUgraph>(0x6a);
    *last = driver().last_nodes.data();
    *count = driver().last_nodes.size();
    return CUDA_SUCCESS;
  };
  api_.cuGraphGetEdges = [](CUgraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData*, std::size_t* count) {
    const auto& edges = driver().captured_edges;
    *count = edges.size();
    for (std::size_t i = 0; from != nullptr && i < edges.size(); ++i) {
      from[i] = edges[i].first;
      to[i] = edges[i].second;
    }
    return CUDA_SUCCESS;
  };
  api_.cuGraphGetNodes = [](CUgraph, CUgraphNode* nodes, std::size_t* count) {
    const std::vector<CUgraphNode>& captured = driver().nodes;
    *count = captured.empty() ? driver().captured_nodes : captured.size();
    if (nodes != nullptr) std::ranges::copy(captured, nodes);
    return CUDA_SUCCESS;
  };
}

void FakeDriver::fill_graphs() {
  api_.cuGraphLaunch = [](CUgraphExec, CUstream) { return work(); };
  api_.cuGraphAddNode = [](CUgraphNode* node, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, std::size_t,
                           CUgraphNodeParams* params) {
    static CUgraph bodies[] = {handle<CUgraph>(0xb0), handle<CUgraph>(0xb1)};
    driver().added = *params;
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) params->alloc.dptr = 0xa110c;
    if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) params->conditional.phGraph_out = bodies;
    *node = handle<CUgraphNode>(0x20de);
    return work();
  };
  api_.cuGraphAddDependencies = [](CUgraph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                                   std::size_t count) {
    FakeDriver& fake = driver();
    // As drivers 13.0 to 13.4: all edges of a call get the data of the first.
    for (std::size_t i = 0; i < count; ++i) fake.edges.push_back({from[i], to[i], data[0].from_port, data[0].type});
    if (++fake.edge_calls != fake.failing_edge_call) return CUDA_SUCCESS;
    fake.edges.resize(fake.edges.size() - count);
    return CUDA_ERROR_INVALID_VALUE;
  };
  api_.cuGraphRemoveDependencies = [](CUgraph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                      std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      std::erase_if(driver().edges,
                    [&](const FakeDriver::AddedEdge& edge) { return edge.from == from[i] && edge.to == to[i]; });
    return CUDA_SUCCESS;
  };
  api_.cuGraphDestroy = [](CUgraph) { return CUDA_SUCCESS; };
  api_.cuGraphDestroyNode = [](CUgraphNode node) {
    driver().destroyed = node;
    return work();
  };
  api_.cuGraphNodeGetType = [](CUgraphNode, CUgraphNodeType* type) {
    *type = driver().node_type;
    return CUDA_SUCCESS;
  };
  api_.cuGraphMemcpyNodeGetParams = [](CUgraphNode, CUDA_MEMCPY3D* params) {
    *params = driver().copy;
    return CUDA_SUCCESS;
  };
  api_.cuGraphKernelNodeGetParams = [](CUgraphNode, CUDA_KERNEL_NODE_PARAMS* params) {
    params->kern = handle<CUkernel>(0x4e44);
    params->gridDimX = 5;
    params->extra = driver().node_extra;
    return CUDA_SUCCESS;
  };
  api_.cuKernelGetFunction = [](CUfunction* function, CUkernel kernel) {
    *function = handle<CUfunction>(reinterpret_cast<std::uintptr_t>(kernel) + 1);
    return CUDA_SUCCESS;
  };
  api_.cuGraphNodeSetParams = [](CUgraphNode, CUgraphNodeParams* params) {
    driver().changed = *params;
    return CUDA_SUCCESS;
  };
  api_.cuGraphKernelNodeGetAttribute = [](CUgraphNode, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
    ++driver().attributes_queried;
    *value = driver().node_attributes[id];
    return CUDA_SUCCESS;
  };
  api_.cuGraphKernelNodeSetAttribute = [](CUgraphNode, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value) {
    driver().node_attributes[id] = *value;
    return driver().attribute_result;
  };
  api_.cuGraphInstantiateWithParams = [](CUgraphExec*, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    driver().instantiate_flags = params->flags;
    params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return work();
  };
}

}  // namespace reprise::backend::cuda::test
