// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// The names of the backend's calls: ours, and the driver call that it stands for. One list serves error texts, the
// capture rules of the host device, and whatever else speaks of "a kind of call".

#define REPRISE_BACKEND_CALLS(X)                                             \
  X(device_synchronize, "cuCtxSynchronize")                                  \
  X(memory_info, "cuMemGetInfo")                                             \
  X(stream_priority_range, "cuCtxGetStreamPriorityRange")                    \
  X(memory_allocate, "cuMemAlloc")                                           \
  X(memory_free, "cuMemFree")                                                \
  X(memory_allocate_async, "cuMemAllocAsync")                                \
  X(memory_free_async, "cuMemFreeAsync")                                     \
  X(memory_pool_trim, "cuMemPoolTrimTo")                                     \
  X(pinned_allocate, "cuMemHostAlloc")                                       \
  X(pinned_free, "cuMemFreeHost")                                            \
  X(pointer_info, "cuPointerGetAttributes")                                  \
  X(copy, "cuMemcpy")                                                        \
  X(copy_async, "cuMemcpyAsync")                                             \
  X(set, "cuMemsetD8")                                                       \
  X(set_async, "cuMemsetD8Async")                                            \
  X(stream_create, "cuStreamCreateWithPriority")                             \
  X(stream_destroy, "cuStreamDestroy")                                       \
  X(stream_flags, "cuStreamGetFlags")                                        \
  X(stream_priority, "cuStreamGetPriority")                                  \
  X(stream_id, "cuStreamGetId")                                              \
  X(stream_synchronize, "cuStreamSynchronize")                               \
  X(stream_query, "cuStreamQuery")                                           \
  X(stream_wait_event, "cuStreamWaitEvent")                                  \
  X(event_create, "cuEventCreate")                                           \
  X(event_destroy, "cuEventDestroy")                                         \
  X(event_record, "cuEventRecordWithFlags")                                  \
  X(event_query, "cuEventQuery")                                             \
  X(event_synchronize, "cuEventSynchronize")                                 \
  X(event_elapsed_ms, "cuEventElapsedTime")                                  \
  X(stream_begin_capture, "cuStreamBeginCapture")                            \
  X(stream_begin_capture_to_graph, "cuStreamBeginCaptureToGraph")            \
  X(stream_end_capture, "cuStreamEndCapture")                                \
  X(stream_is_capturing, "cuStreamIsCapturing")                              \
  X(stream_capture_info, "cuStreamGetCaptureInfo")                           \
  X(stream_update_capture_dependencies, "cuStreamUpdateCaptureDependencies") \
  X(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode")       \
  X(kernel_function, "cuKernelGetFunction")                                  \
  X(function_name, "cuFuncGetName")                                          \
  X(function_param_info, "cuFuncGetParamInfo")                               \
  X(function_set_max_shared, "cuFuncSetAttribute")                           \
  X(launch_kernel, "cuLaunchKernelEx")                                       \
  X(launch_host_function, "cuLaunchHostFunc")                                \
  X(graph_create, "cuGraphCreate")                                           \
  X(graph_destroy, "cuGraphDestroy")                                         \
  X(graph_clone, "cuGraphClone")                                             \
  X(graph_node_find_in_clone, "cuGraphNodeFindInClone")                      \
  X(graph_add_node, "cuGraphAddNode")                                        \
  X(graph_destroy_node, "cuGraphDestroyNode")                                \
  X(graph_nodes, "cuGraphGetNodes")                                          \
  X(graph_edges, "cuGraphGetEdges")                                          \
  X(graph_add_dependencies, "cuGraphAddDependencies")                        \
  X(graph_remove_dependencies, "cuGraphRemoveDependencies")                  \
  X(graph_node_type, "cuGraphNodeGetType")                                   \
  X(graph_node_params, "cuGraphKernelNodeGetParams")                         \
  X(graph_node_set_params, "cuGraphNodeSetParams")                           \
  X(graph_conditional_handle_create, "cuGraphConditionalHandleCreate")       \
  X(graph_debug_dot_print, "cuGraphDebugDotPrint")                           \
  X(graph_instantiate, "cuGraphInstantiateWithParams")                       \
  X(graph_exec_destroy, "cuGraphExecDestroy")                                \
  X(graph_upload, "cuGraphUpload")                                           \
  X(graph_launch, "cuGraphLaunch")                                           \
  X(graph_exec_update, "cuGraphExecUpdate")                                  \
  X(graph_exec_node_set_params, "cuGraphExecNodeSetParams")                  \
  X(graph_node_set_enabled, "cuGraphNodeSetEnabled")                         \
  X(graph_node_enabled, "cuGraphNodeGetEnabled")                             \
  X(user_object_create, "cuUserObjectCreate")                                \
  X(user_object_retain, "cuUserObjectRetain")                                \
  X(user_object_release, "cuUserObjectRelease")                              \
  X(graph_retain_user_object, "cuGraphRetainUserObject")                     \
  X(graph_release_user_object, "cuGraphReleaseUserObject")

namespace reprise::backend {

/// A kind of call of the backend.
enum class Call {
#define REPRISE_CALL_ENUM(name, cuda) name,
  REPRISE_BACKEND_CALLS(REPRISE_CALL_ENUM)
#undef REPRISE_CALL_ENUM
};

/// How many kinds there are.
inline constexpr int call_count = 0
#define REPRISE_CALL_COUNT(name, cuda) +1
    REPRISE_BACKEND_CALLS(REPRISE_CALL_COUNT)
#undef REPRISE_CALL_COUNT
    ;

/// The driver call, for example `cuMemAlloc`.
constexpr const char* cuda_name(Call call) {
  switch (call) {
#define REPRISE_CALL_NAME(name, cuda) \
  case Call::name:                    \
    return cuda;
    REPRISE_BACKEND_CALLS(REPRISE_CALL_NAME)
#undef REPRISE_CALL_NAME
  }
  return "unknown call";
}

}  // namespace reprise::backend
