// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "backend/host/failure_plan.h"

namespace reprise::backend::test {

/// A device that does what another one does, except that chosen calls fail, and that it counts the calls. It works over
/// any device; the failures that users can inject (reprise/host_failures.h) are for simulated ones.
///
/// It is a device of its own to the library: it has its own caching allocator and current streams. It must live until
/// the process ends, as devices do. All functions may be called from any thread.
class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(Backend& inner) : FaultyBackend(inner, inner.type()) {}
  /// A device that says it is of another type.
  FaultyBackend(Backend& inner, DeviceType type) : inner_(inner), type_(type), shared_(std::make_shared<Shared>()) {}
  /// A device that counts and fails together with another one.
  FaultyBackend(Backend& inner, const FaultyBackend& together)
      : inner_(inner), type_(inner.type()), shared_(together.shared_) {}

  /// The next call of a kind, after `passed` more of it, is not made and returns `code`.
  void fail(Call call, Result code, int passed = 0) {
    shared_->plan.add({call, code, static_cast<std::uint64_t>(passed) + 1, nullptr});
  }
  /// The next call of any kind, after `passed` more, is not made and returns `code`.
  void fail_any(Result code, int passed) {
    shared_->plan.add({std::nullopt, code, static_cast<std::uint64_t>(passed) + 1, nullptr});
  }
  /// Faults leave no error detail.
  void say_nothing() { shared_->say_nothing = true; }
  /// True if every injected fault has happened.
  bool all_happened() const { return !shared_->plan.any(); }
  /// The kind of the call that failed last by a fault; nothing if none has since heal().
  std::optional<Call> failed() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->failed;
  }
  /// From now on, nothing fails, and no hook of before_any() is called.
  void heal() {
    shared_->plan.clear();
    const std::lock_guard lock(shared_->mutex);
    shared_->failed.reset();
    shared_->before = nullptr;
  }

  /// Calls `hook` once, after the next call of a kind was made and before it returns.
  void after(Call call, std::function<void()> hook) {
    const std::lock_guard lock(shared_->mutex);
    shared_->hooks[call] = std::move(hook);
  }
  /// Calls `hook` once, right before the call after `passed` more of any kind.
  void before_any(int passed, std::function<void()> hook) {
    const std::lock_guard lock(shared_->mutex);
    shared_->before = std::move(hook);
    shared_->passed = passed;
  }

  /// How many calls of a kind were made since forget_calls().
  int calls(Call call) const { return shared_->counts[static_cast<std::size_t>(call)]; }
  /// How many calls of any kind were made since forget_calls().
  int calls() const {
    int sum = 0;
    for (const auto& count : shared_->counts) sum += count;
    return sum;
  }
  void forget_calls() {
    for (auto& count : shared_->counts) count = 0;
  }

  DeviceType type() const noexcept override { return type_; }
  int index() const noexcept override { return inner_.index(); }
  std::string device_name() const override { return inner_.device_name(); }
  void describe_capture(StreamHandle stream, CaptureReport* report) const override {
    inner_.describe_capture(stream, report);
  }
  std::shared_ptr<void> watch_calls(std::string* why) override { return inner_.watch_calls(why); }
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec, std::string* why) override {
    return inner_.watch_nodes(template_graph, exec, why);
  }
  std::string last_error_detail() const override { return detail().empty() ? inner_.last_error_detail() : detail(); }

  // --- Every call of the interface ------------------------------------------------------------------------------
  Result device_synchronize() override {
    return run(Call::device_synchronize, [&] { return inner_.device_synchronize(); });
  }
  Result memory_info(MemoryInfo* info) override {
    return run(Call::memory_info, [&] { return inner_.memory_info(info); });
  }
  Result stream_priority_range(int* least, int* greatest) override {
    return run(Call::stream_priority_range, [&] { return inner_.stream_priority_range(least, greatest); });
  }
  Result memory_allocate(void** pointer, std::size_t bytes) override {
    return run(Call::memory_allocate, [&] { return inner_.memory_allocate(pointer, bytes); });
  }
  Result memory_free(void* pointer) override {
    return run(Call::memory_free, [&] { return inner_.memory_free(pointer); });
  }
  Result memory_allocate_async(void** pointer, std::size_t bytes, StreamHandle stream) override {
    return run(Call::memory_allocate_async, [&] { return inner_.memory_allocate_async(pointer, bytes, stream); });
  }
  Result memory_free_async(void* pointer, StreamHandle stream) override {
    return run(Call::memory_free_async, [&] { return inner_.memory_free_async(pointer, stream); });
  }
  Result memory_pool_trim(std::size_t bytes_to_keep) override {
    return run(Call::memory_pool_trim, [&] { return inner_.memory_pool_trim(bytes_to_keep); });
  }
  Result pinned_allocate(void** pointer, std::size_t bytes) override {
    return run(Call::pinned_allocate, [&] { return inner_.pinned_allocate(pointer, bytes); });
  }
  Result pinned_free(void* pointer) override {
    return run(Call::pinned_free, [&] { return inner_.pinned_free(pointer); });
  }
  Result pointer_info(const void* pointer, PointerInfo* info) override {
    return run(Call::pointer_info, [&] { return inner_.pointer_info(pointer, info); });
  }
  Result copy(void* destination, const void* source, std::size_t bytes) override {
    return run(Call::copy, [&] { return inner_.copy(destination, source, bytes); });
  }
  Result copy_async(void* destination, const void* source, std::size_t bytes, StreamHandle stream) override {
    return run(Call::copy_async, [&] { return inner_.copy_async(destination, source, bytes, stream); });
  }
  Result set(const MemsetNodeParams& params) override {
    return run(Call::set, [&] { return inner_.set(params); });
  }
  Result set_async(const MemsetNodeParams& params, StreamHandle stream) override {
    return run(Call::set_async, [&] { return inner_.set_async(params, stream); });
  }
  Result stream_create(StreamHandle* stream, StreamFlags flags, int priority) override {
    return run(Call::stream_create, [&] { return inner_.stream_create(stream, flags, priority); });
  }
  Result stream_destroy(StreamHandle stream) override {
    return run(Call::stream_destroy, [&] { return inner_.stream_destroy(stream); });
  }
  Result stream_flags(StreamHandle stream, StreamFlags* flags) override {
    return run(Call::stream_flags, [&] { return inner_.stream_flags(stream, flags); });
  }
  Result stream_priority(StreamHandle stream, int* priority) override {
    return run(Call::stream_priority, [&] { return inner_.stream_priority(stream, priority); });
  }
  Result stream_id(StreamHandle stream, std::uint64_t* id) override {
    return run(Call::stream_id, [&] { return inner_.stream_id(stream, id); });
  }
  Result stream_synchronize(StreamHandle stream) override {
    return run(Call::stream_synchronize, [&] { return inner_.stream_synchronize(stream); });
  }
  Result stream_query(StreamHandle stream) override {
    return run(Call::stream_query, [&] { return inner_.stream_query(stream); });
  }
  Result stream_wait_event(StreamHandle stream, EventHandle event, EventUseFlags use) override {
    return run(Call::stream_wait_event, [&] { return inner_.stream_wait_event(stream, event, use); });
  }
  Result event_create(EventHandle* event, EventFlags flags) override {
    return run(Call::event_create, [&] { return inner_.event_create(event, flags); });
  }
  Result event_destroy(EventHandle event) override {
    return run(Call::event_destroy, [&] { return inner_.event_destroy(event); });
  }
  Result event_record(EventHandle event, StreamHandle stream, EventUseFlags use) override {
    return run(Call::event_record, [&] { return inner_.event_record(event, stream, use); });
  }
  Result event_query(EventHandle event) override {
    return run(Call::event_query, [&] { return inner_.event_query(event); });
  }
  Result event_synchronize(EventHandle event) override {
    return run(Call::event_synchronize, [&] { return inner_.event_synchronize(event); });
  }
  Result event_elapsed_ms(float* milliseconds, EventHandle start, EventHandle end) override {
    return run(Call::event_elapsed_ms, [&] { return inner_.event_elapsed_ms(milliseconds, start, end); });
  }
  Result stream_begin_capture(StreamHandle stream, CaptureErrorMode mode) override {
    return run(Call::stream_begin_capture, [&] { return inner_.stream_begin_capture(stream, mode); });
  }
  Result stream_begin_capture_to_graph(StreamHandle stream, GraphHandle graph,
                                       std::span<const GraphNodeHandle> dependencies, CaptureErrorMode mode) override {
    return run(Call::stream_begin_capture_to_graph,
               [&] { return inner_.stream_begin_capture_to_graph(stream, graph, dependencies, mode); });
  }
  Result stream_end_capture(StreamHandle stream, GraphHandle* graph) override {
    return run(Call::stream_end_capture, [&] { return inner_.stream_end_capture(stream, graph); });
  }
  Result stream_is_capturing(StreamHandle stream, CaptureStatus* status) override {
    return run(Call::stream_is_capturing, [&] { return inner_.stream_is_capturing(stream, status); });
  }
  Result stream_capture_info(StreamHandle stream, CaptureInfo* info) override {
    return run(Call::stream_capture_info, [&] { return inner_.stream_capture_info(stream, info); });
  }
  Result stream_update_capture_dependencies(StreamHandle stream, std::span<const GraphNodeHandle> dependencies,
                                            UpdateDependencies how) override {
    return run(Call::stream_update_capture_dependencies,
               [&] { return inner_.stream_update_capture_dependencies(stream, dependencies, how); });
  }
  Result thread_exchange_capture_mode(CaptureErrorMode* mode) override {
    return run(Call::thread_exchange_capture_mode, [&] { return inner_.thread_exchange_capture_mode(mode); });
  }
  Result kernel_function(const KernelRecord& kernel, FunctionHandle* function) override {
    return run(Call::kernel_function, [&] { return inner_.kernel_function(kernel, function); });
  }
  Result function_name(FunctionHandle function, const char** name) override {
    return run(Call::function_name, [&] { return inner_.function_name(function, name); });
  }
  Result function_param_info(FunctionHandle function, std::size_t index, KernelParam* param) override {
    return run(Call::function_param_info, [&] { return inner_.function_param_info(function, index, param); });
  }
  Result function_set_max_shared(FunctionHandle function, unsigned bytes) override {
    return run(Call::function_set_max_shared, [&] { return inner_.function_set_max_shared(function, bytes); });
  }
  Result launch_kernel(const KernelNodeParams& launch, StreamHandle stream) override {
    return run(Call::launch_kernel, [&] { return inner_.launch_kernel(launch, stream); });
  }
  Result launch_host_function(const HostNodeParams& params, StreamHandle stream) override {
    return run(Call::launch_host_function, [&] { return inner_.launch_host_function(params, stream); });
  }
  Result graph_create(GraphHandle* graph) override {
    return run(Call::graph_create, [&] { return inner_.graph_create(graph); });
  }
  Result graph_destroy(GraphHandle graph) override {
    return run(Call::graph_destroy, [&] { return inner_.graph_destroy(graph); });
  }
  Result graph_clone(GraphHandle* clone, GraphHandle graph) override {
    return run(Call::graph_clone, [&] { return inner_.graph_clone(clone, graph); });
  }
  Result graph_node_find_in_clone(GraphNodeHandle* found, GraphNodeHandle original, GraphHandle clone) override {
    return run(Call::graph_node_find_in_clone, [&] { return inner_.graph_node_find_in_clone(found, original, clone); });
  }
  Result graph_add_node(GraphNodeHandle* node, GraphHandle graph, std::span<const GraphNodeHandle> dependencies,
                        NodeParams& params) override {
    return run(Call::graph_add_node, [&] { return inner_.graph_add_node(node, graph, dependencies, params); });
  }
  Result graph_destroy_node(GraphNodeHandle node) override {
    return run(Call::graph_destroy_node, [&] { return inner_.graph_destroy_node(node); });
  }
  Result graph_nodes(GraphHandle graph, std::vector<GraphNodeHandle>* nodes) override {
    return run(Call::graph_nodes, [&] { return inner_.graph_nodes(graph, nodes); });
  }
  Result graph_edges(GraphHandle graph, std::vector<Edge>* edges) override {
    return run(Call::graph_edges, [&] { return inner_.graph_edges(graph, edges); });
  }
  Result graph_add_dependencies(GraphHandle graph, std::span<const Edge> edges) override {
    return run(Call::graph_add_dependencies, [&] { return inner_.graph_add_dependencies(graph, edges); });
  }
  Result graph_remove_dependencies(GraphHandle graph, std::span<const Edge> edges) override {
    return run(Call::graph_remove_dependencies, [&] { return inner_.graph_remove_dependencies(graph, edges); });
  }
  Result graph_node_type(GraphNodeHandle node, NodeType* type) override {
    return run(Call::graph_node_type, [&] { return inner_.graph_node_type(node, type); });
  }
  Result graph_node_params(GraphNodeHandle node, NodeParams* params) override {
    return run(Call::graph_node_params, [&] { return inner_.graph_node_params(node, params); });
  }
  Result graph_node_set_params(GraphNodeHandle node, const NodeParams& params) override {
    return run(Call::graph_node_set_params, [&] { return inner_.graph_node_set_params(node, params); });
  }
  Result graph_conditional_handle_create(ConditionalHandle* handle, GraphHandle graph,
                                         unsigned default_value) override {
    return run(Call::graph_conditional_handle_create,
               [&] { return inner_.graph_conditional_handle_create(handle, graph, default_value); });
  }
  Result graph_debug_dot_print(GraphHandle graph, const char* path, DotFlags flags) override {
    return run(Call::graph_debug_dot_print, [&] { return inner_.graph_debug_dot_print(graph, path, flags); });
  }
  Result graph_instantiate(GraphExecHandle* exec, GraphHandle graph, InstantiateFlags flags,
                           StreamHandle upload_stream) override {
    return run(Call::graph_instantiate, [&] { return inner_.graph_instantiate(exec, graph, flags, upload_stream); });
  }
  Result graph_exec_destroy(GraphExecHandle exec) override {
    return run(Call::graph_exec_destroy, [&] { return inner_.graph_exec_destroy(exec); });
  }
  Result graph_upload(GraphExecHandle exec, StreamHandle stream) override {
    return run(Call::graph_upload, [&] { return inner_.graph_upload(exec, stream); });
  }
  Result graph_launch(GraphExecHandle exec, StreamHandle stream) override {
    return run(Call::graph_launch, [&] { return inner_.graph_launch(exec, stream); });
  }
  Result graph_exec_update(GraphExecHandle exec, GraphHandle graph, UpdateInfo* info) override {
    return run(Call::graph_exec_update, [&] { return inner_.graph_exec_update(exec, graph, info); });
  }
  Result graph_exec_node_set_params(GraphExecHandle exec, GraphNodeHandle node, const NodeParams& params) override {
    return run(Call::graph_exec_node_set_params, [&] { return inner_.graph_exec_node_set_params(exec, node, params); });
  }
  Result graph_node_set_enabled(GraphExecHandle exec, GraphNodeHandle node, bool enabled) override {
    return run(Call::graph_node_set_enabled, [&] { return inner_.graph_node_set_enabled(exec, node, enabled); });
  }
  Result graph_node_enabled(GraphExecHandle exec, GraphNodeHandle node, bool* enabled) override {
    return run(Call::graph_node_enabled, [&] { return inner_.graph_node_enabled(exec, node, enabled); });
  }
  Result user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                            unsigned references) override {
    return run(Call::user_object_create,
               [&] { return inner_.user_object_create(handle, object, destroy, references); });
  }
  Result user_object_retain(UserObjectHandle handle, unsigned references) override {
    return run(Call::user_object_retain, [&] { return inner_.user_object_retain(handle, references); });
  }
  Result user_object_release(UserObjectHandle handle, unsigned references) override {
    return run(Call::user_object_release, [&] { return inner_.user_object_release(handle, references); });
  }
  Result graph_retain_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references,
                                  RetainFlags flags) override {
    return run(Call::graph_retain_user_object,
               [&] { return inner_.graph_retain_user_object(graph, handle, references, flags); });
  }
  Result graph_release_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references) override {
    return run(Call::graph_release_user_object,
               [&] { return inner_.graph_release_user_object(graph, handle, references); });
  }

 private:
  struct Shared {
    FailurePlan plan;
    mutable std::mutex mutex;
    std::optional<Call> failed;
    std::map<Call, std::function<void()>> hooks;
    std::function<void()> before;
    int passed = 0;
    std::atomic<bool> say_nothing{false};
    std::array<std::atomic<int>, call_count> counts{};
  };

  // What the thread's last failed call leaves, if it was a fault.
  static std::string& detail() {
    thread_local std::string text;
    return text;
  }

  template <class F>
  Result run(Call call, F&& f) {
    ++shared_->counts[static_cast<std::size_t>(call)];
    if (const auto hook = take_before()) hook();
    if (shared_->plan.any()) {
      if (const auto happened = shared_->plan.next(call, *this)) {
        const std::lock_guard lock(shared_->mutex);
        shared_->failed = call;
        detail() = shared_->say_nothing ? "" : happened->detail;
        return happened->code;
      }
    }
    const Result result = f();
    if (result != Result::success) detail().clear();
    if (const auto hook = take_after(call)) hook();
    return result;
  }

  std::function<void()> take_before() {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->before || shared_->passed-- > 0) return {};
    return std::exchange(shared_->before, nullptr);
  }
  std::function<void()> take_after(Call call) {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->hooks.find(call);
    if (found == shared_->hooks.end()) return {};
    const std::function<void()> hook = std::move(found->second);
    shared_->hooks.erase(found);
    return hook;
  }

  Backend& inner_;
  const DeviceType type_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace reprise::backend::test
