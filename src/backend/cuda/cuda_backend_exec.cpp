// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda_backend.h"

// Executable graphs. Changes of the params of their nodes: cuda_backend_node.cpp.

namespace reprise::backend::cuda {
namespace {

static_assert(static_cast<unsigned>(InstantiateFlags::auto_free_on_launch) ==
              CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
static_assert(static_cast<unsigned>(InstantiateFlags::upload) == CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
static_assert(static_cast<unsigned>(InstantiateFlags::device_launch) == CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
static_assert(static_cast<unsigned>(InstantiateFlags::use_node_priority) ==
              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
static_assert(static_cast<int>(UpdateResult::success) == CU_GRAPH_EXEC_UPDATE_SUCCESS);
static_assert(static_cast<int>(UpdateResult::topology_changed) == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
static_assert(static_cast<int>(UpdateResult::node_type_changed) == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
static_assert(static_cast<int>(UpdateResult::function_changed) == CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED);
static_assert(static_cast<int>(UpdateResult::parameters_changed) == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
static_assert(static_cast<int>(UpdateResult::not_supported) == CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
static_assert(static_cast<int>(UpdateResult::unsupported_function_change) ==
              CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
static_assert(static_cast<int>(UpdateResult::attributes_changed) == CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);

const char* text(CUgraphInstantiateResult result) {
  switch (result) {
    case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
      return "the graph's structure is not valid, for example a cycle";
    case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
      return "the graph is to be launched from the device, and a node has an operation that device launch does not "
             "support";
    case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
      return "the graph's nodes belong to several contexts, which is not possible with launches from the device";
#if CUDA_VERSION >= 12080
    case CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:
      return "a conditional handle of the graph belongs to no conditional node";
#endif
    default:
      return "";
  }
}

}  // namespace

Result CudaBackend::graph_instantiate(GraphExecHandle* exec, GraphHandle graph, InstantiateFlags flags,
                                      StreamHandle upload_stream) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  params.flags = static_cast<cuuint64_t>(flags);
  params.hUploadStream = upload_stream;
  Result result = enter_for<CUgraphExec>(Call::graph_instantiate, exec, [&](CUgraphExec* made) {
    return driver_.cuGraphInstantiateWithParams(made, graph, &params);
  });
  if (!result.failed()) return result;
  return Result::logged(result.code(), text(params.result_out));
}

Result CudaBackend::graph_exec_destroy(GraphExecHandle exec) {
  return enter(Call::graph_exec_destroy, [&] { return driver_.cuGraphExecDestroy(exec); });
}

Result CudaBackend::graph_upload(GraphExecHandle exec, StreamHandle stream) {
  return enter({Call::graph_upload, stream}, [&] { return driver_.cuGraphUpload(exec, stream); });
}

[[gnu::hot]] Result CudaBackend::graph_launch(GraphExecHandle exec, StreamHandle stream) {
  return enter_stream({Call::graph_launch, stream}, [&] { return driver_.cuGraphLaunch(exec, stream); });
}

Result CudaBackend::graph_exec_update(GraphExecHandle exec, GraphHandle graph, UpdateInfo* info) {
  return enter(Call::graph_exec_update, [&] {
    CUgraphExecUpdateResultInfo found{};
    const CUresult result = driver_.cuGraphExecUpdate(exec, graph, &found);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
      *info = {static_cast<UpdateResult>(found.result), found.errorNode};
    return result;
  });
}

Result CudaBackend::graph_node_set_enabled(GraphExecHandle exec, GraphNodeHandle node, bool enabled) {
  return enter(Call::graph_node_set_enabled,
               [&] { return driver_.cuGraphNodeSetEnabled(exec, node, enabled ? 1 : 0); });
}

Result CudaBackend::graph_node_enabled(GraphExecHandle exec, GraphNodeHandle node, bool* enabled) {
  return enter_for<unsigned>(Call::graph_node_enabled, enabled,
                             [&](unsigned* found) { return driver_.cuGraphNodeGetEnabled(exec, node, found); });
}

}  // namespace reprise::backend::cuda
