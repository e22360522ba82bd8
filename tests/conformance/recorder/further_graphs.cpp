// SPDX-License-Identifier: Apache-2.0
#if defined(__CUDACC__)

#include "tests/conformance/recorder/further_calls.h"

// Further calls of the recorder: graphs.

namespace reprise::backend::test {

namespace {

CUDA_MEMSET_NODE_PARAMS set_of(State& x) {
  CUDA_MEMSET_NODE_PARAMS params{};
  params.dst = things(x).memory;
  params.value = 9;
  params.elementSize = 1;
  params.width = 16;
  params.height = 1;
  return params;
}

void CUDA_CB nothing(void*) {}

void with_graph(State& x) {
  require_cuda(CU(cuGraphCreate)(&things(x).graph, 0), "cuGraphCreate");
}

void add_node_calls(std::vector<RecordedCall>& calls) {
  add(calls, "cuGraphAddEmptyNode", [](State& x) {
    CUgraphNode made = nullptr;
    return CU(cuGraphAddEmptyNode)(&made, x.graph, nullptr, 0);
  });
  add(
      calls, "cuGraphAddKernelNode",
      [](State& x) {
        CUDA_KERNEL_NODE_PARAMS params{};
        params.func = things(x).function;
        params.gridDimX = params.gridDimY = params.gridDimZ = 1;
        params.blockDimX = params.blockDimY = params.blockDimZ = 1;
        CUgraphNode made = nullptr;
        return CU(cuGraphAddKernelNode)(&made, x.graph, nullptr, 0, &params);
      },
      with_function);
  add(calls, "cuGraphAddMemcpyNode", [](State& x) {
    CUDA_MEMCPY3D params{};
    params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    params.srcDevice = things(x).memory;
    params.dstDevice = things(x).memory + 2048;
    params.WidthInBytes = 64;
    params.Height = params.Depth = 1;
    CUgraphNode made = nullptr;
    return CU(cuGraphAddMemcpyNode)(&made, x.graph, nullptr, 0, &params, things(x).context);
  });
  add(calls, "cuGraphAddMemsetNode", [](State& x) {
    const CUDA_MEMSET_NODE_PARAMS params = set_of(x);
    CUgraphNode made = nullptr;
    return CU(cuGraphAddMemsetNode)(&made, x.graph, nullptr, 0, &params, things(x).context);
  });
  add(calls, "cuGraphAddHostNode", [](State& x) {
    CUDA_HOST_NODE_PARAMS params{};
    params.fn = &nothing;
    CUgraphNode made = nullptr;
    return CU(cuGraphAddHostNode)(&made, x.graph, nullptr, 0, &params);
  });
  add(
      calls, "cuGraphAddChildGraphNode",
      [](State& x) {
        CUgraphNode made = nullptr;
        return CU(cuGraphAddChildGraphNode)(&made, x.graph, nullptr, 0, things(x).graph);
      },
      with_graph);
  add(calls, "cuGraphAddEventRecordNode", [](State& x) {
    CUgraphNode made = nullptr;
    return CU(cuGraphAddEventRecordNode)(&made, x.graph, nullptr, 0, x.never);
  });
  add(calls, "cuGraphMemsetNodeGetParams", [](State& x) {
    CUDA_MEMSET_NODE_PARAMS params{};
    return CU(cuGraphMemsetNodeGetParams)(x.first, &params);
  });
  add(calls, "cuGraphNodeGetDependencies", [](State& x) {
    std::size_t count = 0;
    return CU(cuGraphNodeGetDependencies)(x.second, nullptr, nullptr, &count);
  });
  add(calls, "cuGraphGetRootNodes", [](State& x) {
    std::size_t count = 0;
    return CU(cuGraphGetRootNodes)(x.graph, nullptr, &count);
  });
  add(calls, "cuGraphConditionalHandleCreate", [](State& x) {
    CUgraphConditionalHandle made = 0;
    return CU(cuGraphConditionalHandleCreate)(&made, x.graph, things(x).context, 0, 0);
  });
}

}  // namespace

void add_further_graph_calls(std::vector<RecordedCall>& calls) {
  add_node_calls(calls);
  add(calls, "cuGraphInstantiate", [](State& x) {
    CUgraphExec made = nullptr;
    return then(CU(cuGraphInstantiate)(&made, x.graph, 0), x, [&] { (void)CU(cuGraphExecDestroy)(made); });
  });
  add(calls, "cuGraphExecGetFlags", [](State& x) {
    cuuint64_t flags = 0;
    return CU(cuGraphExecGetFlags)(x.exec, &flags);
  });
  add(calls, "cuGraphExecMemsetNodeSetParams", [](State& x) {
    const CUDA_MEMSET_NODE_PARAMS params = set_of(x);
    return CU(cuGraphExecMemsetNodeSetParams)(x.exec, x.first, &params, things(x).context);
  });
}

}  // namespace reprise::backend::test

#endif
