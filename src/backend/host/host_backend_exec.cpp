// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/host/host_backend.h"

// Executable graphs.

namespace reprise::backend::host {
namespace {

/// A record point inside a running graph.
class RecordPoint final : public Operation {
 public:
  Task* run() override { return nullptr; }  // never run: the graph's node completes it
};

bool can_be_disabled(NodeType type) {
  return type == NodeType::kernel || type == NodeType::memcpy || type == NodeType::memset;
}

/// A copy keeps the kinds of memory that it was instantiated with.
bool keeps_memory_kinds(HostRuntime& runtime, const Work& before, const Work& after) {
  const auto* const old_copy = std::get_if<MemcpyNodeParams>(&before);
  const auto* const new_copy = std::get_if<MemcpyNodeParams>(&after);
  if (old_copy == nullptr || new_copy == nullptr) return true;
  return pointer_info(runtime, old_copy->destination).kind == pointer_info(runtime, new_copy->destination).kind &&
         pointer_info(runtime, old_copy->source).kind == pointer_info(runtime, new_copy->source).kind;
}

}  // namespace

ErrorCode HostBackend::graph_instantiate(GraphExecHandle* handle, GraphHandle graph_handle, InstantiateFlags flags,
                                         StreamHandle upload_stream) {
  return enter(Call::graph_instantiate, [&](Lock&) -> HostResult {
    if (HostResult rule = check(Call::graph_instantiate); rule.failed()) return rule;
    const HostGraph* const graph = runtime_.find(graph_handle);
    if (graph == nullptr) return no_such("graph");
    if ((flags & InstantiateFlags::device_launch) != InstantiateFlags::none)
      return fail(ErrorCode::not_supported, "on the host device a graph cannot be launched from the device");
    if ((flags & InstantiateFlags::upload) != InstantiateFlags::none && find(upload_stream) == nullptr)
      return bad_handle("stream");
    if (!graph->nodes.empty() && topological_order(*graph).empty())
      return fail(ErrorCode::invalid_value, "the edges of the graph form a cycle");
    auto exec = std::make_unique<HostExec>(device_, *graph, flags);
    HostExec* const raw = exec.get();
    runtime_.execs.emplace(raw, std::move(exec));
    *handle = reinterpret_cast<GraphExecHandle>(raw);
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::graph_exec_destroy(GraphExecHandle handle) {
  return enter(Call::graph_exec_destroy, [&](Lock&) -> HostResult {
    if (HostResult rule = check(Call::graph_exec_destroy); rule.failed()) return rule;
    return runtime_.execs.erase(handle) == 1 ? ErrorCode::success : no_such("executable graph");
  });
}

ErrorCode HostBackend::graph_upload(GraphExecHandle handle, StreamHandle stream_handle) {
  return enter(Call::graph_upload, [&](Lock&) -> HostResult {
    HostStream* const stream = find(stream_handle);
    if (stream == nullptr) return bad_handle("stream");
    if (runtime_.find(handle) == nullptr) return no_such("executable graph");
    // Nothing to upload: the plan is in host memory.
    return check(Call::graph_upload, stream);
  });
}

ErrorCode HostBackend::graph_launch(GraphExecHandle handle, StreamHandle stream_handle) {
  return enter(Call::graph_launch, [&](Lock&) -> HostResult {
    HostStream* const stream = find(stream_handle);
    if (stream == nullptr) return bad_handle("stream");
    HostExec* const exec = runtime_.find(handle);
    if (exec == nullptr) return no_such("executable graph");
    HostResult rule = check(Call::graph_launch, stream);
    return rule.failed() ? rule : launch_on(*stream, *exec);
  });
}

HostResult HostBackend::launch_on(HostStream& stream, HostExec& exec) {
  if (runtime_.races != nullptr) [[unlikely]]
    runtime_.races->prepare(exec);  // calls user code (a kernel's accesses()), which may throw: before any change
  Plan& plan = *exec.plan;
  std::vector<OperationRef> points;
  std::vector<std::pair<HostEvent*, OperationRef>> records;
  for (const std::size_t node : plan.event_nodes()) {
    const Work& work = plan.work(node);
    if (const auto* wait = std::get_if<EventWaitNodeParams>(&work)) {
      const HostEvent* const event = runtime_.find(wait->event);
      if (event == nullptr) return fail(ErrorCode::invalid_value, "an event that the graph waits for was destroyed");
      points.push_back(event->point);
      continue;
    }
    HostEvent* const event = runtime_.find(std::get<EventRecordNodeParams>(work).event);
    if (event == nullptr) return fail(ErrorCode::invalid_value, "an event that the graph records was destroyed");
    OperationRef point(new RecordPoint);
    if (event->timing) point->set_timed();
    points.push_back(point);
    records.emplace_back(event, std::move(point));
  }
  std::vector<OperationRef> all_points;
  if (runtime_.races != nullptr) [[unlikely]]
    all_points = points;
  const OperationRef launch(
      new LaunchOperation(runtime_.executor, handle_of(stream), exec.plan, std::move(points), exec.times.lock()));
  for (const auto& record : records) runtime_.executor.open(record.second);
  try {
    if (stream.device->negligible(exec.last_launch) || exec.last_launch.get() == stream.tail.get()) {
      stream.device->enqueue(stream, launch);
    } else {
      const OperationRef further[] = {exec.last_launch};
      stream.device->enqueue(stream, launch, further);
    }
  } catch (...) {
    // Not submitted: nothing depends on these points.
    for (const auto& record : records) static_cast<void>(runtime_.executor.complete(*record.second.get()));
    throw;
  }
  for (auto& record : records) {
    HostEvent& event = *record.first;
    event.capture = nullptr;
    event.captured_dependencies.clear();
    event.recorded = true;
    event.point = std::move(record.second);
  }
  if (runtime_.races != nullptr) [[unlikely]]
    runtime_.races->launched(stream, *launch.get(), all_points, exec);
  exec.last_launch = launch;
  plan.last_launch = launch;
  return ErrorCode::success;
}

ErrorCode HostBackend::graph_exec_update(GraphExecHandle handle, GraphHandle graph_handle, UpdateInfo* info) {
  return enter(Call::graph_exec_update, [&](Lock&) -> HostResult {
    HostExec* const exec = runtime_.find(handle);
    HostGraph* const graph = runtime_.find(graph_handle);
    if (exec == nullptr) return no_such("executable graph");
    if (graph == nullptr) return no_such("graph");
    const auto refuse = [&](UpdateResult result, HostNode* node, const char* why) {
      *info = {result, reinterpret_cast<GraphNodeHandle>(node)};
      return fail(ErrorCode::graph_exec_update_failure, why);
    };
    HostExec fresh(device_, *graph, exec->flags);
    if (fresh.types.size() != exec->types.size())
      return refuse(UpdateResult::topology_changed, nullptr, "the graph has another number of nodes");
    for (std::size_t i = 0; i < fresh.types.size(); ++i) {
      HostNode* const node = graph->nodes[i].get();
      if (fresh.types[i] != exec->types[i])
        return refuse(UpdateResult::node_type_changed, node, "a node is of another type");
      if (fresh.dependencies[i] != exec->dependencies[i])
        return refuse(UpdateResult::topology_changed, node, "a node has other dependencies");
      if (!keeps_memory_kinds(runtime_, exec->plan->work(i), node->work))
        return refuse(UpdateResult::parameters_changed, node, "a copy is between other kinds of memory");
    }
    for (std::size_t i = 0; i < fresh.types.size(); ++i) fresh.plan->set_enabled(i, exec->plan->enabled(i));
    exec->plan = std::move(fresh.plan);
    exec->accesses.reset();
    *info = {};
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::graph_exec_node_set_params(GraphExecHandle handle, GraphNodeHandle node_handle,
                                                  const NodeParams& params) {
  return enter(Call::graph_exec_node_set_params, [&](Lock&) -> HostResult {
    HostExec* const exec = runtime_.find(handle);
    if (exec == nullptr) return no_such("executable graph");
    const HostNode* const node = runtime_.find(node_handle);
    const auto index = node == nullptr ? exec->index_of_node.end() : exec->index_of_node.find(node->id);
    if (index == exec->index_of_node.end())
      return fail(ErrorCode::invalid_value,
                  "the node is not in the template that the executable was made from, or the template was destroyed");
    if (node->type != node_type(params)) return fail(ErrorCode::invalid_value, "the node is of another type");
    if (HostResult good = check_node(params); good.failed()) return good;
    Work work = make_work(params);
    if (!keeps_memory_kinds(runtime_, exec->plan->work(index->second), work))
      return fail(ErrorCode::invalid_value, "the copy would be between other kinds of memory");
    exec->changeable_plan().set_work(index->second, std::move(work));
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::graph_node_set_enabled(GraphExecHandle handle, GraphNodeHandle node_handle, bool enabled) {
  return enter(Call::graph_node_set_enabled, [&](Lock&) -> HostResult {
    HostExec* const exec = runtime_.find(handle);
    if (exec == nullptr) return no_such("executable graph");
    const HostNode* const node = runtime_.find(node_handle);
    const auto index = node == nullptr ? exec->index_of_node.end() : exec->index_of_node.find(node->id);
    if (index == exec->index_of_node.end() || !can_be_disabled(node->type))
      return fail(ErrorCode::invalid_value,
                  "only kernel, memcpy and memset nodes of the executable's template can be switched");
    exec->changeable_plan().set_enabled(index->second, enabled);
    return ErrorCode::success;
  });
}

ErrorCode HostBackend::graph_node_enabled(GraphExecHandle handle, GraphNodeHandle node_handle, bool* enabled) {
  return enter(Call::graph_node_enabled, [&](Lock&) -> HostResult {
    const HostExec* const exec = runtime_.find(handle);
    if (exec == nullptr) return no_such("executable graph");
    const HostNode* const node = runtime_.find(node_handle);
    const auto index = node == nullptr ? exec->index_of_node.end() : exec->index_of_node.find(node->id);
    if (index == exec->index_of_node.end() || !can_be_disabled(node->type))
      return fail(ErrorCode::invalid_value,
                  "only kernel, memcpy and memset nodes of the executable's template can be switched");
    *enabled = exec->plan->enabled(index->second);
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
