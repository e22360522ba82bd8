// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "tests/conformance/kernels.h"
#include "tests/conformance/recorder/recorder_calls.h"

// The calls of the recorder: devices, work, streams and graphs.

namespace reprise::backend::test {
namespace {

void add_device_calls(Calls& calls) {
  calls.push_back({"device_synchronize", [](State& x) { return x.backend.device_synchronize(); }});
  calls.push_back({"memory_info", [](State& x) {
                     MemoryInfo info;
                     return x.backend.memory_info(&info);
                   }});
  calls.push_back({"stream_priority_range", [](State& x) {
                     int least = 0, greatest = 0;
                     return x.backend.stream_priority_range(&least, &greatest);
                   }});
  calls.push_back({"memory_allocate", [](State& x) {
                     void* made = nullptr;
                     return then(x.backend.memory_allocate(&made, 4096), x, [&] { (void)x.backend.memory_free(made); });
                   }});
  calls.push_back({"memory_free", [](State& x) {
                     return then(x.backend.memory_free(x.doomed_memory), x, [&] { x.doomed_memory = nullptr; });
                   }});
  calls.push_back({"memory_free null", [](State& x) { return x.backend.memory_free(nullptr); }});
  calls.push_back({"memory_pool_trim", [](State& x) { return x.backend.memory_pool_trim(0); }});
  calls.push_back({"pinned_allocate", [](State& x) {
                     void* made = nullptr;
                     return then(x.backend.pinned_allocate(&made, 4096), x, [&] { (void)x.backend.pinned_free(made); });
                   }});
  calls.push_back({"pinned_free", [](State& x) {
                     return then(x.backend.pinned_free(x.doomed_pinned), x, [&] { x.doomed_pinned = nullptr; });
                   }});
  calls.push_back({"pointer_info device", [](State& x) {
                     PointerInfo info;
                     return x.backend.pointer_info(x.device, &info);
                   }});
  calls.push_back({"pointer_info pageable", [](State& x) {
                     PointerInfo info;
                     return x.backend.pointer_info(x.pageable, &info);
                   }});
}

void add_work_calls(Calls& calls) {
  on_streams(calls, "copy_async device to device",
             [](State& x, StreamHandle stream) { return x.backend.copy_async(x.device + 64, x.device, 64, stream); });
  on_streams(calls, "copy_async pinned to device",
             [](State& x, StreamHandle stream) { return x.backend.copy_async(x.device, x.pinned, 64, stream); });
  on_streams(calls, "copy_async pageable to device",
             [](State& x, StreamHandle stream) { return x.backend.copy_async(x.device, x.pageable, 64, stream); });
  on_streams(calls, "copy_async device to pageable",
             [](State& x, StreamHandle stream) { return x.backend.copy_async(x.pageable, x.device, 64, stream); });
  on_streams(calls, "copy_async to null",
             [](State& x, StreamHandle stream) { return x.backend.copy_async(nullptr, x.device, 64, stream); });
  on_streams(calls, "set_async",
             [](State& x, StreamHandle stream) { return x.backend.set_async(memset_of(x, 3), stream); });
  on_streams(calls, "launch_kernel", [](State& x, StreamHandle stream) {
    FunctionHandle function = nullptr;
    (void)x.backend.kernel_function(kernel_record<Store>(), &function);
    int* out = reinterpret_cast<int*>(x.device);
    int value = 1;
    void* params[] = {&out, &value};
    return x.backend.launch_kernel({function, {}, params}, stream);
  });
  on_streams(calls, "launch_kernel of a wrong shape", [](State& x, StreamHandle stream) {
    FunctionHandle function = nullptr;
    (void)x.backend.kernel_function(kernel_record<Store>(), &function);
    int* out = reinterpret_cast<int*>(x.device);
    int value = 1;
    void* params[] = {&out, &value};
    LaunchConfig config;
    config.block = Dim3(2000);
    return x.backend.launch_kernel({function, config, params}, stream);
  });
  on_streams(calls, "launch_host_function", [](State& x, StreamHandle stream) {
    return x.backend.launch_host_function({&do_nothing, nullptr}, stream);
  });
  on_streams(calls, "graph_launch",
             [](State& x, StreamHandle stream) { return x.backend.graph_launch(x.exec, stream); });
  on_streams(calls, "graph_upload",
             [](State& x, StreamHandle stream) { return x.backend.graph_upload(x.exec, stream); });
  calls.push_back({"copy device to device", [](State& x) { return x.backend.copy(x.device + 64, x.device, 64); }});
  calls.push_back({"copy pageable to device", [](State& x) { return x.backend.copy(x.device, x.pageable, 64); }});
  calls.push_back({"copy device to pageable", [](State& x) { return x.backend.copy(x.pageable, x.device, 64); }});
  calls.push_back({"set", [](State& x) { return x.backend.set(memset_of(x, 4)); }});
  calls.push_back({"kernel_function", [](State& x) {
                     FunctionHandle function = nullptr;
                     return x.backend.kernel_function(kernel_record<Store>(), &function);
                   }});
  calls.push_back({"function_name", [](State& x) {
                     FunctionHandle function = nullptr;
                     (void)x.backend.kernel_function(kernel_record<Store>(), &function);
                     const char* name = nullptr;
                     return x.backend.function_name(function, &name);
                   }});
  calls.push_back({"function_param_info", [](State& x) {
                     FunctionHandle function = nullptr;
                     (void)x.backend.kernel_function(kernel_record<Store>(), &function);
                     KernelParam param;
                     return x.backend.function_param_info(function, 0, &param);
                   }});
  calls.push_back({"function_set_max_shared", [](State& x) {
                     FunctionHandle function = nullptr;
                     (void)x.backend.kernel_function(kernel_record<Store>(), &function);
                     return x.backend.function_set_max_shared(function, 64 << 10);
                   }});
}

void add_stream_calls(Calls& calls) {
  for (const StreamFlags flags : {StreamFlags::non_blocking, StreamFlags::blocking})
    calls.push_back({flags == StreamFlags::blocking ? "stream_create b" : "stream_create nb", [flags](State& x) {
                       StreamHandle made = nullptr;
                       return then(x.backend.stream_create(&made, flags, 0), x,
                                   [&] { (void)x.backend.stream_destroy(made); });
                     }});
  calls.push_back({"stream_destroy", [](State& x) {
                     return then(x.backend.stream_destroy(x.doomed_stream), x, [&] { x.doomed_stream = nullptr; });
                   }});
  on_streams(calls, "stream_flags", [](State& x, StreamHandle stream) {
    StreamFlags flags;
    return x.backend.stream_flags(stream, &flags);
  });
  on_streams(calls, "stream_priority", [](State& x, StreamHandle stream) {
    int priority = 0;
    return x.backend.stream_priority(stream, &priority);
  });
  on_streams(calls, "stream_id", [](State& x, StreamHandle stream) {
    std::uint64_t id = 0;
    return x.backend.stream_id(stream, &id);
  });
  on_streams(calls, "stream_synchronize",
             [](State& x, StreamHandle stream) { return x.backend.stream_synchronize(stream); });
  on_streams(calls, "stream_query", [](State& x, StreamHandle stream) { return x.backend.stream_query(stream); });
  for (const EventUseFlags use : {EventUseFlags::ordering, EventUseFlags::external}) {
    const std::string how = use == EventUseFlags::external ? " external" : "";
    on_streams(calls, "stream_wait_event in" + how,
               [use](State& x, StreamHandle stream) { return x.backend.stream_wait_event(stream, x.in, use); });
    on_streams(calls, "stream_wait_event out" + how,
               [use](State& x, StreamHandle stream) { return x.backend.stream_wait_event(stream, x.out, use); });
    on_streams(calls, "stream_wait_event never" + how,
               [use](State& x, StreamHandle stream) { return x.backend.stream_wait_event(stream, x.never, use); });
    on_streams(calls, "event_record" + how,
               [use](State& x, StreamHandle stream) { return x.backend.event_record(x.never, stream, use); });
  }
  on_streams(calls, "memory_allocate_async", [](State& x, StreamHandle stream) {
    void* made = nullptr;
    Result result = x.backend.memory_allocate_async(&made, 4096, stream);
    // What became a node is memory only when the graph runs.
    return then(std::move(result), x, [&] {
      if (stream != x.s) (void)x.backend.memory_free_async(made, stream);
    });
  });
  on_streams(calls, "memory_free_async", [](State& x, StreamHandle stream) {
    return then(x.backend.memory_free_async(x.doomed_async, stream), x, [&] {
      if (stream != x.s) x.doomed_async = nullptr;
    });
  });
}

Result add_kernel_node(State& x, GraphNodeHandle* node) {
  FunctionHandle function = nullptr;
  (void)x.backend.kernel_function(kernel_record<Store>(), &function);
  int* out = reinterpret_cast<int*>(x.device);
  int value = 1;
  void* arguments[] = {&out, &value};
  NodeParams params = KernelNodeParams{function, {}, arguments};
  return x.backend.graph_add_node(node, x.graph, {}, params);
}

void add_graph_calls(Calls& calls) {
  calls.push_back({"graph_create", [](State& x) {
                     GraphHandle made = nullptr;
                     return then(x.backend.graph_create(&made), x, [&] { (void)x.backend.graph_destroy(made); });
                   }});
  calls.push_back({"graph_destroy", [](State& x) {
                     return then(x.backend.graph_destroy(x.doomed_graph), x, [&] { x.doomed_graph = nullptr; });
                   }});
  calls.push_back({"graph_clone", [](State& x) {
                     GraphHandle made = nullptr;
                     return then(x.backend.graph_clone(&made, x.graph), x,
                                 [&] { (void)x.backend.graph_destroy(made); });
                   }});
  calls.push_back({"graph_node_find_in_clone",
                   [](State& x) {
                     GraphNodeHandle found = nullptr;
                     return x.backend.graph_node_find_in_clone(&found, x.first, x.clone);
                   },
                   [](State& x) { (void)x.backend.graph_clone(&x.clone, x.graph); }});
  calls.push_back({"graph_conditional_handle_create", [](State& x) {
                     ConditionalHandle handle{};
                     return x.backend.graph_conditional_handle_create(&handle, x.graph, 0);
                   }});
  calls.push_back({"graph_debug_dot_print", [](State& x) {
                     const auto path = std::filesystem::temp_directory_path() /
                                       ("reprise_recorder_" + std::to_string(getpid()) + ".dot");
                     Result result = x.backend.graph_debug_dot_print(x.graph, path.c_str(), DotFlags::none);
                     std::error_code ignored;
                     std::filesystem::remove(path, ignored);
                     return result;
                   }});
  calls.push_back({"graph_add_node memset", [](State& x) {
                     GraphNodeHandle node = nullptr;
                     NodeParams params = memset_of(x, 5);
                     return x.backend.graph_add_node(&node, x.graph, {}, params);
                   }});
  calls.push_back({"graph_add_node kernel", [](State& x) {
                     GraphNodeHandle node = nullptr;
                     return add_kernel_node(x, &node);
                   }});
  calls.push_back({"graph_destroy_node", [](State& x) { return x.backend.graph_destroy_node(x.second); }});
  calls.push_back({"graph_nodes", [](State& x) {
                     std::vector<GraphNodeHandle> nodes;
                     return x.backend.graph_nodes(x.graph, &nodes);
                   }});
  calls.push_back({"graph_edges", [](State& x) {
                     std::vector<Edge> edges;
                     return x.backend.graph_edges(x.graph, &edges);
                   }});
  calls.push_back({"graph_remove_dependencies", [](State& x) {
                     const Edge edge{x.first, x.second};
                     return x.backend.graph_remove_dependencies(x.graph, {&edge, 1});
                   }});
  calls.push_back({"graph_add_dependencies again", [](State& x) {
                     const Edge edge{x.first, x.second};
                     return x.backend.graph_add_dependencies(x.graph, {&edge, 1});
                   }});
  calls.push_back({"graph_node_type", [](State& x) {
                     NodeType type;
                     return x.backend.graph_node_type(x.first, &type);
                   }});
  calls.push_back({"graph_node_params", [](State& x) {
                     NodeParams params;
                     return x.backend.graph_node_params(x.first, &params);
                   }});
  calls.push_back({"graph_node_params kernel",
                   [](State& x) {
                     NodeParams params;
                     return x.backend.graph_node_params(x.second, &params);
                   },
                   [](State& x) { (void)add_kernel_node(x, &x.second); }});
  calls.push_back(
      {"graph_node_set_params", [](State& x) { return x.backend.graph_node_set_params(x.first, memset_of(x, 6)); }});
  calls.push_back({"graph_instantiate", [](State& x) {
                     GraphExecHandle made = nullptr;
                     return then(x.backend.graph_instantiate(&made, x.graph, InstantiateFlags::none, nullptr), x,
                                 [&] { (void)x.backend.graph_exec_destroy(made); });
                   }});
  calls.push_back({"graph_exec_destroy", [](State& x) {
                     return then(x.backend.graph_exec_destroy(x.doomed_exec), x, [&] { x.doomed_exec = nullptr; });
                   }});
  calls.push_back({"graph_exec_update", [](State& x) {
                     UpdateInfo info;
                     return x.backend.graph_exec_update(x.exec, x.graph, &info);
                   }});
  calls.push_back({"graph_exec_node_set_params",
                   [](State& x) { return x.backend.graph_exec_node_set_params(x.exec, x.first, memset_of(x, 7)); }});
  calls.push_back(
      {"graph_node_set_enabled", [](State& x) { return x.backend.graph_node_set_enabled(x.exec, x.first, false); }});
  calls.push_back({"graph_node_enabled", [](State& x) {
                     bool enabled = false;
                     return x.backend.graph_node_enabled(x.exec, x.first, &enabled);
                   }});
}

void add_user_object_calls(Calls& calls) {
  calls.push_back({"user_object_create", [](State& x) {
                     UserObjectHandle made = nullptr;
                     return then(x.backend.user_object_create(&made, nullptr, &do_nothing, 1), x,
                                 [&] { (void)x.backend.user_object_release(made, 1); });
                   }});
  calls.push_back({"user_object_retain", [](State& x) {
                     return then(x.backend.user_object_retain(x.object, 1), x,
                                 [&] { (void)x.backend.user_object_release(x.object, 1); });
                   }});
  calls.push_back({"user_object_release", [](State& x) {
                     return then(x.backend.user_object_release(x.object, 1), x, [&] { x.object = nullptr; });
                   }});
  calls.push_back({"graph_retain_user_object", [](State& x) {
                     return x.backend.graph_retain_user_object(x.graph, x.object, 1, RetainFlags::add);
                   }});
  calls.push_back(
      {"graph_release_user_object", [](State& x) { return x.backend.graph_release_user_object(x.graph, x.held, 1); }});
}

// clang-format off
constexpr const char* of_each_class[] = {
    "device_synchronize", "memory_info", "memory_allocate", "memory_free", "memory_pool_trim", "pinned_allocate",
    "copy pageable to device", "set", "set_async s", "set_async nb", "set_async b", "set_async legacy",
    "launch_kernel s", "launch_kernel legacy", "launch_host_function s", "graph_launch s", "graph_launch nb",
    "graph_launch legacy", "memory_allocate_async s", "memory_allocate_async nb", "memory_free_async nb",
    "stream_create nb", "stream_flags s", "stream_flags nb", "stream_flags legacy", "stream_priority s",
    "stream_id s", "stream_synchronize s", "stream_synchronize nb", "stream_synchronize legacy", "stream_query s",
    "stream_query nb", "stream_query legacy", "event_create", "event_query in", "event_query out",
    "event_query never", "event_query over", "event_synchronize in", "event_synchronize out",
    "stream_wait_event in s", "stream_wait_event in nb", "stream_wait_event in legacy", "stream_wait_event out s",
    "stream_wait_event out external s", "stream_wait_event over s", "event_record s", "event_record external s",
    "event_record legacy", "begin and end a capture on s", "begin and end a capture on nb",
    "begin and end a capture on legacy", "stream_is_capturing s", "stream_is_capturing legacy",
    "stream_capture_info s", "stream_update_capture_dependencies s", "stream_update_capture_dependencies nb",
    "stream_end_capture s", "stream_end_capture nb", "thread_exchange_capture_mode", "graph_instantiate",
    "graph_exec_destroy", "graph_exec_update", "end s with a fork that is not joined",
    "end s with a fork that is joined", "end a fork"};
// clang-format on

}  // namespace

const std::vector<RecordedCall>& recorded_calls() {
  static const Calls all = [] {
    Calls calls;
    add_device_calls(calls);
    add_work_calls(calls);
    add_stream_calls(calls);
    add_event_calls(calls);
    add_capture_calls(calls);
    add_fork_calls(calls);
    add_graph_calls(calls);
    add_user_object_calls(calls);
    return calls;
  }();
  return all;
}

const std::vector<RecordedCall>& calls_on_handles() {
  static const Calls some = [] {
    const std::set<std::string> handles = {"s", "nb", "b", "in", "out", "never", "over", "fork", "joined"};
    Calls calls;
    for (const RecordedCall& call : representative_calls())
      if (handles.contains(call.name.substr(call.name.rfind(' ') + 1)) && !call.name.starts_with("stream_create "))
        calls.push_back(call);
    return calls;
  }();
  return some;
}

const std::vector<RecordedCall>& representative_calls() {
  static const Calls some = [] {
    const std::set<std::string> names(std::begin(of_each_class), std::end(of_each_class));
    Calls calls;
    for (const RecordedCall& call : recorded_calls())
      if (names.contains(call.name)) calls.push_back(call);
    if (calls.size() != names.size()) throw std::logic_error("a call that stands for its class has no such name");
    return calls;
  }();
  return some;
}

}  // namespace reprise::backend::test
