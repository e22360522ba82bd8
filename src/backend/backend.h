// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/call.h"
#include "backend/node_watch.h"
#include "backend/types.h"
#include "reprise/capture_report.h"
#include "reprise/device.h"

namespace reprise::backend {

/// One device of one device runtime, as the CUDA driver shows it: the only way to memory, streams, events, captures and
/// graphs.
///
/// Every call stands for a call of the driver API (call.h has the pairs), takes what that takes and does what that
/// does: same codes, same effect on captures. Nothing is thrown, nothing is checked beyond what the driver checks, and
/// no call has a meaning that the driver could not give it. Where the driver works on the calling thread's current
/// context, a backend works on its own device; it leaves the thread's current context as it was, except that a thread
/// without one may keep that of the device.
///
/// Results are written only on success. Handles are the driver's opaque pointers; streams and events of another device
/// of the same runtime may be passed where the driver allows it. A null stream is this device's legacy default stream;
/// so is the handle 0x1.
///
/// All calls may be made from any thread, at any time. A host function and a user object's destructor must not make
/// any: they get `not_permitted`.
class Backend {
 public:
  virtual ~Backend() = default;

  // --- The device -----------------------------------------------------------------------------------------------
  virtual DeviceType type() const noexcept = 0;
  virtual int index() const noexcept = 0;       ///< among the devices of its type
  virtual std::string device_name() const = 0;  ///< `cuDeviceGetName`
  /// What the runtime knows about the last failure of a call on this thread beyond its code, in sentences; may be
  /// empty. (CUDA: the error log of 12.9 and later.)
  virtual std::string last_error_detail() const = 0;
  /// Fills in what is known of the capture that a stream takes part in: what broke it and after how many nodes, and
  /// what was refused and not captured while somebody watched. Nothing if nothing is known. No call of the driver's;
  /// the capture is not changed.
  virtual void describe_capture(StreamHandle stream, CaptureReport* report) const = 0;
  /// While the result lives, every call of the process is watched, for captures that begin after this. Null if that is
  /// not possible; `why` is the reason then, as a sentence.
  virtual std::shared_ptr<void> watch_calls(std::string* why) = 0;
  /// While the result lives, launches of the executable are timed node by node. Null if that is not possible; `why` is
  /// the reason then, as a sentence. No call of the driver's; what is launched is not changed.
  /// \param template_graph what the executable was made from.
  virtual std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec,
                                                 std::string* why) = 0;

  virtual Result device_synchronize() = 0;
  virtual Result memory_info(MemoryInfo* info) = 0;
  virtual Result stream_priority_range(int* least, int* greatest) = 0;

  // --- Memory ---------------------------------------------------------------------------------------------------
  virtual Result memory_allocate(void** pointer, std::size_t bytes) = 0;
  /// Waits for the work of the device before it gives the memory back.
  virtual Result memory_free(void* pointer) = 0;
  virtual Result memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle stream) = 0;
  virtual Result memory_free_async(void* pointer, StreamHandle stream) = 0;
  /// The default stream-ordered pool gives unused memory back, down to `bytes_to_keep`.
  virtual Result memory_pool_trim(std::size_t bytes_to_keep) = 0;
  virtual Result pinned_allocate(void** pointer, std::size_t bytes) = 0;
  virtual Result pinned_free(void* pointer) = 0;
  virtual Result pointer_info(const void* pointer, PointerInfo* info) = 0;

  // --- Copies and sets ------------------------------------------------------------------------------------------
  virtual Result copy(void* destination, const void* source, std::size_t bytes) = 0;
  virtual Result copy_async(void* destination, const void* source, std::size_t bytes, StreamHandle stream) = 0;
  virtual Result set(const MemsetNodeParams& params) = 0;
  virtual Result set_async(const MemsetNodeParams& params, StreamHandle stream) = 0;

  // --- Streams --------------------------------------------------------------------------------------------------
  virtual Result stream_create(StreamHandle* stream, StreamFlags flags, int priority) = 0;
  /// Returns at once; work that the stream was given still runs.
  virtual Result stream_destroy(StreamHandle stream) = 0;
  virtual Result stream_flags(StreamHandle stream, StreamFlags* flags) = 0;
  virtual Result stream_priority(StreamHandle stream, int* priority) = 0;
  virtual Result stream_id(StreamHandle stream, std::uint64_t* id) = 0;
  virtual Result stream_synchronize(StreamHandle stream) = 0;
  virtual Result stream_query(StreamHandle stream) = 0;  ///< success or not_ready
  virtual Result stream_wait_event(StreamHandle stream, EventHandle event, EventUseFlags use) = 0;

  // --- Events ---------------------------------------------------------------------------------------------------
  virtual Result event_create(EventHandle* event, EventFlags flags) = 0;
  virtual Result event_destroy(EventHandle event) = 0;
  virtual Result event_record(EventHandle event, StreamHandle stream, EventUseFlags use) = 0;
  virtual Result event_query(EventHandle event) = 0;  ///< success or not_ready
  virtual Result event_synchronize(EventHandle event) = 0;
  virtual Result event_elapsed_ms(float* milliseconds, EventHandle start, EventHandle end) = 0;

  // --- Capture --------------------------------------------------------------------------------------------------
  virtual Result stream_begin_capture(StreamHandle stream, CaptureErrorMode mode) = 0;
  /// Captures into a graph that exists; the first nodes depend on `dependencies`, nodes of that graph.
  virtual Result stream_begin_capture_to_graph(StreamHandle stream, GraphHandle graph,
                                               std::span<const GraphNodeHandle> dependencies,
                                               CaptureErrorMode mode) = 0;
  /// On success the caller owns the graph (not with begin_capture_to_graph: that graph stays its owner's). When the
  /// capture was invalidated the graph is null and the capture is over all the same.
  virtual Result stream_end_capture(StreamHandle stream, GraphHandle* graph) = 0;
  virtual Result stream_is_capturing(StreamHandle stream, CaptureStatus* status) = 0;
  virtual Result stream_capture_info(StreamHandle stream, CaptureInfo* info) = 0;
  virtual Result stream_update_capture_dependencies(StreamHandle stream, std::span<const GraphNodeHandle> dependencies,
                                                    UpdateDependencies how) = 0;
  /// Sets the calling thread's mode and writes back the one before it.
  virtual Result thread_exchange_capture_mode(CaptureErrorMode* mode) = 0;

  // --- Work -----------------------------------------------------------------------------------------------------
  /// The function of a kernel on this device, loaded at first use; `invalid_device_function` if it was not compiled for
  /// this runtime.
  virtual Result kernel_function(const KernelRecord& kernel, FunctionHandle* function) = 0;
  virtual Result function_name(FunctionHandle function, const char** name) = 0;
  /// `invalid_value` for an index past the last parameter.
  virtual Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) = 0;
  /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`: needed before a launch with more than 48 KiB.
  virtual Result function_set_max_shared(FunctionHandle function, unsigned bytes) = 0;
  virtual Result launch_kernel(const KernelNodeParams& launch, StreamHandle stream) = 0;
  virtual Result launch_host_function(const HostNodeParams& params, StreamHandle stream) = 0;

  // --- Template graphs ------------------------------------------------------------------------------------------
  virtual Result graph_create(GraphHandle* graph) = 0;
  virtual Result graph_destroy(GraphHandle graph) = 0;
  virtual Result graph_clone(GraphHandle* clone, GraphHandle graph) = 0;
  virtual Result graph_node_find_in_clone(GraphNodeHandle* found, GraphNodeHandle original, GraphHandle clone) = 0;
  /// Outputs in `params` (a memory node's address, a conditional node's bodies) are written.
  virtual Result graph_add_node(GraphNodeHandle* node, GraphHandle graph, std::span<const GraphNodeHandle> dependencies,
                                NodeParams& params) = 0;
  virtual Result graph_destroy_node(GraphNodeHandle node) = 0;
  virtual Result graph_nodes(GraphHandle graph, std::vector<GraphNodeHandle>* nodes) = 0;  ///< in order of creation
  virtual Result graph_edges(GraphHandle graph, std::vector<Edge>* edges) = 0;
  virtual Result graph_add_dependencies(GraphHandle graph, std::span<const Edge> edges) = 0;
  virtual Result graph_remove_dependencies(GraphHandle graph, std::span<const Edge> edges) = 0;
  virtual Result graph_node_type(GraphNodeHandle node, NodeType* type) = 0;
  /// The driver has a getter for each type. For a child graph node, the graph is the node's own.
  virtual Result graph_node_params(GraphNodeHandle node, NodeParams* params) = 0;
  virtual Result graph_node_set_params(GraphNodeHandle node, const NodeParams& params) = 0;
  /// A handle for one conditional node of `graph`, set to `default_value` by each launch.
  virtual Result graph_conditional_handle_create(ConditionalHandle* handle, GraphHandle graph,
                                                 unsigned default_value) = 0;
  virtual Result graph_debug_dot_print(GraphHandle graph, const char* path, DotFlags flags) = 0;

  // --- Executable graphs ----------------------------------------------------------------------------------------
  virtual Result graph_instantiate(GraphExecHandle* exec, GraphHandle graph, InstantiateFlags flags,
                                   StreamHandle upload_stream) = 0;
  virtual Result graph_exec_destroy(GraphExecHandle exec) = 0;
  virtual Result graph_upload(GraphExecHandle exec, StreamHandle stream) = 0;
  virtual Result graph_launch(GraphExecHandle exec, StreamHandle stream) = 0;
  /// `graph_exec_update_failure` and a reason in `info` if the graph does not fit; the executable is unchanged then.
  virtual Result graph_exec_update(GraphExecHandle exec, GraphHandle graph, UpdateInfo* info) = 0;
  /// `node` is one of the template graph that the executable was made from; later launches see the change.
  virtual Result graph_exec_node_set_params(GraphExecHandle exec, GraphNodeHandle node, const NodeParams& params) = 0;
  /// Kernel, memcpy and memset nodes only.
  virtual Result graph_node_set_enabled(GraphExecHandle exec, GraphNodeHandle node, bool enabled) = 0;
  virtual Result graph_node_enabled(GraphExecHandle exec, GraphNodeHandle node, bool* enabled) = 0;

  // --- User objects ---------------------------------------------------------------------------------------------
  /// A reference-counted object, made with `references` of them; `destroy(object)` is called some time after the last
  /// is gone, on a thread of the runtime's own.
  virtual Result user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                                    unsigned references) = 0;
  virtual Result user_object_retain(UserObjectHandle handle, unsigned references) = 0;
  virtual Result user_object_release(UserObjectHandle handle, unsigned references) = 0;
  /// The graph, its clones, its executables and their running launches hold references.
  virtual Result graph_retain_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references,
                                          RetainFlags flags) = 0;
  virtual Result graph_release_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references) = 0;
};

/// The simulated devices of this process, opened at the first call.
const std::vector<Backend*>& host_backends();

/// The CUDA devices of this process, opened at the first call; none where CUDA's driver is missing, too old or without
/// a device.
const std::vector<Backend*>& cuda_backends();

/// Why there are no CUDA devices, without a full stop; empty if there are.
const std::string& cuda_unavailable_reason();

}  // namespace reprise::backend
