// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "backend/cuda/capture_watch.h"
#include "backend/cuda/driver_api.h"

namespace reprise::backend::cuda {

/// CUDA's result, as it is: the numbers are the same.
inline Result to_result(CUresult result) noexcept {
  return static_cast<Result>(result);
}

inline CUdeviceptr to_address(const void* pointer) noexcept {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline void* to_pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<void*>(address);
}

/// The backend interface on a CUDA device: one call of the driver for each, in the device's primary context, which is
/// the one that CUDA's runtime, and so every library, works in.
///
/// The primary context is retained by the first call that needs it and never released. A thread that had no current
/// context keeps this one, as with the runtime; a thread that had another one has it again when the call returns.
///
/// Nothing is checked here that the driver checks. All state is either set once or locked: any thread may call.
/// The calls are spread over cuda_backend_*.cpp by subject.
class CudaBackend final : public Backend {
 public:
  /// \param driver outlives this object.
  /// \param device the device with the ordinal `index`.
  CudaBackend(const DriverApi& driver, CUdevice device, int index) : driver_(driver), device_(device), index_(index) {}

  DeviceType type() const noexcept override;
  int index() const noexcept override;
  std::string device_name() const override;
  std::string last_error_detail() const override;
  void describe_capture(StreamHandle stream, CaptureReport* report) const override;
  std::shared_ptr<void> watch_calls(std::string* why) override;
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec, std::string* why) override;
  Result device_synchronize() override;
  Result memory_info(MemoryInfo* info) override;
  Result stream_priority_range(int* least, int* greatest) override;
  Result memory_allocate(void** pointer, std::size_t bytes) override;
  Result memory_free(void* pointer) override;
  Result memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle stream) override;
  Result memory_free_async(void* pointer, StreamHandle stream) override;
  Result memory_pool_trim(std::size_t bytes_to_keep) override;
  Result pinned_allocate(void** pointer, std::size_t bytes) override;
  Result pinned_free(void* pointer) override;
  Result pointer_info(const void* pointer, PointerInfo* info) override;
  Result copy(void* destination, const void* source, std::size_t bytes) override;
  Result copy_async(void* destination, const void* source, std::size_t bytes, StreamHandle stream) override;
  Result set(const MemsetNodeParams& params) override;
  Result set_async(const MemsetNodeParams& params, StreamHandle stream) override;
  Result stream_create(StreamHandle* stream, StreamFlags flags, int priority) override;
  Result stream_destroy(StreamHandle stream) override;
  Result stream_flags(StreamHandle stream, StreamFlags* flags) override;
  Result stream_priority(StreamHandle stream, int* priority) override;
  Result stream_id(StreamHandle stream, std::uint64_t* id) override;
  Result stream_synchronize(StreamHandle stream) override;
  Result stream_query(StreamHandle stream) override;
  Result stream_wait_event(StreamHandle stream, EventHandle event, EventUseFlags use) override;
  Result event_create(EventHandle* event, EventFlags flags) override;
  Result event_destroy(EventHandle event) override;
  Result event_record(EventHandle event, StreamHandle stream, EventUseFlags use) override;
  Result event_query(EventHandle event) override;
  Result event_synchronize(EventHandle event) override;
  Result event_elapsed_ms(float* milliseconds, EventHandle start, EventHandle end) override;
  Result stream_begin_capture(StreamHandle stream, CaptureErrorMode mode) override;
  Result stream_begin_capture_to_graph(StreamHandle stream, GraphHandle graph,
                                       std::span<const GraphNodeHandle> dependencies, CaptureErrorMode mode) override;
  Result stream_end_capture(StreamHandle stream, GraphHandle* graph) override;
  Result stream_is_capturing(StreamHandle stream, CaptureStatus* status) override;
  Result stream_capture_info(StreamHandle stream, CaptureInfo* info) override;
  Result stream_update_capture_dependencies(StreamHandle stream, std::span<const GraphNodeHandle> dependencies,
                                            UpdateDependencies how) override;
  Result thread_exchange_capture_mode(CaptureErrorMode* mode) override;
  Result kernel_function(const KernelRecord& kernel, FunctionHandle* function) override;
  Result function_name(FunctionHandle function, const char** name) override;
  Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) override;
  Result function_set_max_shared(FunctionHandle function, unsigned bytes) override;
  Result launch_kernel(const KernelNodeParams& launch, StreamHandle stream) override;
  Result launch_host_function(const HostNodeParams& params, StreamHandle stream) override;
  Result graph_create(GraphHandle* graph) override;
  Result graph_destroy(GraphHandle graph) override;
  Result graph_clone(GraphHandle* clone, GraphHandle graph) override;
  Result graph_node_find_in_clone(GraphNodeHandle* found, GraphNodeHandle original, GraphHandle clone) override;
  Result graph_add_node(GraphNodeHandle* node, GraphHandle graph, std::span<const GraphNodeHandle> dependencies,
                        NodeParams& params) override;
  Result graph_destroy_node(GraphNodeHandle node) override;
  Result graph_nodes(GraphHandle graph, std::vector<GraphNodeHandle>* nodes) override;
  Result graph_edges(GraphHandle graph, std::vector<Edge>* edges) override;
  Result graph_add_dependencies(GraphHandle graph, std::span<const Edge> edges) override;
  Result graph_remove_dependencies(GraphHandle graph, std::span<const Edge> edges) override;
  Result graph_node_type(GraphNodeHandle node, NodeType* type) override;
  Result graph_node_params(GraphNodeHandle node, NodeParams* params) override;
  Result graph_node_set_params(GraphNodeHandle node, const NodeParams& params) override;
  Result graph_conditional_handle_create(ConditionalHandle* handle, GraphHandle graph, unsigned default_value) override;
  Result graph_debug_dot_print(GraphHandle graph, const char* path, DotFlags flags) override;
  Result graph_instantiate(GraphExecHandle* exec, GraphHandle graph, InstantiateFlags flags,
                           StreamHandle upload_stream) override;
  Result graph_exec_destroy(GraphExecHandle exec) override;
  Result graph_upload(GraphExecHandle exec, StreamHandle stream) override;
  Result graph_launch(GraphExecHandle exec, StreamHandle stream) override;
  Result graph_exec_update(GraphExecHandle exec, GraphHandle graph, UpdateInfo* info) override;
  Result graph_exec_node_set_params(GraphExecHandle exec, GraphNodeHandle node, const NodeParams& params) override;
  Result graph_node_set_enabled(GraphExecHandle exec, GraphNodeHandle node, bool enabled) override;
  Result graph_node_enabled(GraphExecHandle exec, GraphNodeHandle node, bool* enabled) override;
  Result user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                            unsigned references) override;
  Result user_object_retain(UserObjectHandle handle, unsigned references) override;
  Result user_object_release(UserObjectHandle handle, unsigned references) override;
  Result graph_retain_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references,
                                  RetainFlags flags) override;
  Result graph_release_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references) override;

 private:
  /// Runs a call's body, which returns the driver's result, with the primary context current. The usual case, that it
  /// is current already, costs one query of the driver.
  template <class Body>
  Result enter(CallSite site, Body&& body) {
    CUcontext current = nullptr;
    const CUresult asked = driver_.cuCtxGetCurrent(&current);
    if (asked == CUDA_SUCCESS && current != nullptr && current == primary_.load(std::memory_order_acquire)) [[likely]]
      return finish(site, std::forward<Body>(body)());
    bool pushed = false;
    if (asked != CUDA_SUCCESS) return finish(site, asked);
    if (const CUresult made = make_current(current, &pushed); made != CUDA_SUCCESS) return finish(site, made);
    const CUresult result = std::forward<Body>(body)();
    if (pushed) (void)driver_.cuCtxPopCurrent(&current);
    return finish(site, result);
  }
  /// Makes the primary context current for a thread whose current context is `current`.
  CUresult make_current(CUcontext current, bool* pushed);
  CUresult primary_context(CUcontext* context);

  Result finish(CallSite site, CUresult result) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      note_failure(site, result);
    return to_result(result);
  }
  void note_failure(CallSite site, CUresult result) const;
  /// What this code, not the driver's log, knows about the calling thread's last failure.
  static std::string& failure_detail();
  /// Has a call failed on the calling thread?
  static bool& failed_here();
  static Result fail(Result result, std::string detail);

  CUresult set_kernel_attributes(CUgraphNode node, const LaunchConfig& config) const;
  CUresult kernel_params(CUgraphNode node, KernelNodeParams* params) const;
  CUresult node_params(CUgraphNode node, CUgraphNodeType type, NodeParams* params) const;

  const DriverApi& driver_;
  const CUdevice device_;
  const int index_;
  std::atomic<CUcontext> primary_ = nullptr;
  std::mutex primary_mutex_;  ///< held while the primary context is retained
};

}  // namespace reprise::backend::cuda
