// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/host/host_backend.h"
#include "text/format.h"

// Executable graphs.

namespace reprise::backend::host {
namespace {

/// A record point inside a running graph.
class RecordPoint final : public Operation {
 public:
  Task* run() override { return nullptr; }  // never run: the graph's node completes it
};

bool can_be_in_body(NodeType type) {
  return type == NodeType::kernel || type == NodeType::memcpy || type == NodeType::memset || type == NodeType::empty ||
         type == NodeType::child_graph || type == NodeType::conditional;
}

/// True of any address of a device, whether it is allocated or not.
bool is_device_memory(HostRuntime& runtime, const void* pointer) {
  return std::ranges::any_of(runtime.devices, [&](const auto& each) { return each->memory().contains(pointer); });
}

bool can_be_disabled(NodeType type) {
  return type == NodeType::kernel || type == NodeType::memcpy || type == NodeType::memset;
}

/// Place of memory: its kind, and for device memory, which device.
struct MemoryPlace {
  MemoryKind kind;
  int device_index = -1;
  friend bool operator==(const MemoryPlace&, const MemoryPlace&) = default;
};

MemoryPlace place_of(HostRuntime& runtime, const void* pointer) {
  const PointerInfo info = pointer_info(runtime, pointer);
  return {info.kind, info.kind == MemoryKind::device ? info.device_index : -1};
}

/// The memory may have been freed since the instantiation.
MemoryPlace place_at_instantiation(HostRuntime& runtime, const void* pointer) {
  const auto found =
      std::ranges::find_if(runtime.devices, [&](const auto& device) { return device->memory().contains(pointer); });
  if (found == runtime.devices.end()) return place_of(runtime, pointer);
  return {MemoryKind::device, (*found)->index()};
}

/// True if both are nodes of an event, and the events belong to different devices.
bool changes_device_of_event(HostRuntime& runtime, const Work& before, const Work& after) {
  const auto event_of = [&](const Work& work) -> const HostEvent* {
    if (const auto* const record = std::get_if<EventRecordNodeParams>(&work)) return runtime.find(record->event);
    const auto* const wait = std::get_if<EventWaitNodeParams>(&work);
    return wait != nullptr ? runtime.find(wait->event) : nullptr;
  };
  const HostEvent *const old_event = event_of(before), *const event = event_of(after);
  return old_event != nullptr && event != nullptr && old_event->device != event->device;
}

/// Returns why a node of an executable cannot have this work; null if it can. An event stays on its device, and so do
/// copies and sets; a copy does not move from memory of a device to pageable memory.
const char* refused_change(HostRuntime& runtime, const Work& before, const Work& after) {
  if (changes_device_of_event(runtime, before, after)) return "the event is one of another device";
  if (const auto* const old_copy = std::get_if<MemcpyNodeParams>(&before)) {
    const auto* const copy = std::get_if<MemcpyNodeParams>(&after);
    if (copy == nullptr) return nullptr;
    const auto takes = [&](const void* old_address, const void* address) {
      const MemoryPlace from = place_at_instantiation(runtime, old_address), to = place_of(runtime, address);
      return from == to || from.kind != MemoryKind::device || to.kind == MemoryKind::pinned;
    };
    return takes(old_copy->destination, copy->destination) && takes(old_copy->source, copy->source)
               ? nullptr
               : "the source or destination of a copy is on another device, or has moved from a device to pageable "
                 "memory";
  }
  const auto* const old_set = std::get_if<MemsetNodeParams>(&before);
  const auto* const set = std::get_if<MemsetNodeParams>(&after);
  if (old_set == nullptr || set == nullptr) return nullptr;
  const MemoryPlace from = place_at_instantiation(runtime, old_set->destination);
  const MemoryPlace to = place_of(runtime, set->destination);
  const bool both_on_devices = from.kind == MemoryKind::device && to.kind == MemoryKind::device;
  return both_on_devices && from != to ? "the memory of a set is on another device" : nullptr;
}

/// Returns why a kernel of an executable cannot be launched like this; null if it can. It keeps its cluster, of which
/// the grid must be a multiple.
const char* refused_grid(const Work& before, const Work& after) {
  const auto* const old_kernel = std::get_if<KernelWork>(&before);
  const auto* const kernel = std::get_if<KernelWork>(&after);
  if (old_kernel == nullptr || kernel == nullptr) return nullptr;
  const Dim3 &cluster = old_kernel->config().cluster, &grid = kernel->config().grid;
  return grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0
             ? nullptr
             : "the grid is no multiple of the cluster that the kernel was instantiated with";
}

/// The same of an update: the kernel also stays cooperative or not.
const char* refused_launch(const Work& before, const Work& after) {
  const auto* const old_kernel = std::get_if<KernelWork>(&before);
  const auto* const kernel = std::get_if<KernelWork>(&after);
  if (old_kernel != nullptr && kernel != nullptr && old_kernel->config().cooperative != kernel->config().cooperative)
    return "a kernel has another `cooperative`";
  return refused_grid(before, after);
}

}  // namespace

Result HostBackend::check_bodies(const HostGraph& graph, bool in_body) const {
  for (const auto& condition : graph.conditions)
    if (!condition->has_node)
      return fail(ErrorCode::invalid_value, "a conditional handle of the graph belongs to no conditional node");
  for (const auto& node : graph.nodes) {
    if (in_body && !can_be_in_body(node->type))
      return fail(ErrorCode::invalid_value,
                  text::format("the body of a conditional node has a {} node, which it cannot have",
                               node_type_name(node->type)));
    const auto* const copy = std::get_if<MemcpyNodeParams>(&node->work);
    if (in_body && copy != nullptr)
      for (const void* const address :
           {static_cast<const void*>(copy->source), static_cast<const void*>(copy->destination)})
        if (host::pointer_info(runtime_, address).kind == MemoryKind::unregistered)
          return fail(ErrorCode::invalid_value,
                      is_device_memory(runtime_, address)
                          ? "the body of a conditional node copies memory of the device that was freed since; keep "
                            "what a graph uses until it is instantiated, or capture again"
                          : "the body of a conditional node copies pageable memory; use pinned memory");
    for (const auto& inner : node->graphs)
      if (Result bad = check_bodies(*inner, in_body || node->type == NodeType::conditional); bad.failed()) return bad;
  }
  return ErrorCode::success;
}

Result HostBackend::graph_instantiate(GraphExecHandle* handle, GraphHandle graph_handle, InstantiateFlags flags,
                                      StreamHandle upload_stream) {
  return enter(Call::graph_instantiate, [&](Lock&) -> Result {
    if (Result rule = check(Call::graph_instantiate); rule.failed()) return rule;
    HostGraph* const graph = runtime_.find(graph_handle);
    if (graph == nullptr) return no_such("graph");
    if ((flags & InstantiateFlags::device_launch) != InstantiateFlags::none)
      return fail(ErrorCode::not_supported, "on the host device a graph cannot be launched from the device");
    if ((flags & InstantiateFlags::upload) != InstantiateFlags::none && find(upload_stream) == nullptr)
      return bad_handle("stream");
    if (Result bad = check_bodies(*graph, false); bad.failed()) return bad;
    if (!graph->exec.expired())
      return fail(ErrorCode::not_supported,
                  "a graph with conditional, allocation or free nodes has one executable at a time; destroy the first "
                  "one");
    auto exec = std::make_unique<HostExec>(*graph, flags);
    if (exec->plan->shape().has_cycle()) return fail(ErrorCode::invalid_value, "the edges of the graph form a cycle");
    if (check_copy(*graph).failed()) exec->sole = std::make_shared<const int>();
    HostExec* const raw = exec.get();
    runtime_.execs.emplace(raw, std::move(exec));
    graph->exec = raw->sole;
    *handle = reinterpret_cast<GraphExecHandle>(raw);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_exec_destroy(GraphExecHandle handle) {
  return enter(Call::graph_exec_destroy, [&](Lock&) -> Result {
    if (Result rule = check(Call::graph_exec_destroy); rule.failed()) return rule;
    return runtime_.execs.erase(handle) == 1 ? ErrorCode::success : no_such("executable graph");
  });
}

Result HostBackend::graph_upload(GraphExecHandle handle, StreamHandle stream_handle) {
  return enter(Call::graph_upload, [&](Lock&) -> Result {
    HostStream* const stream = find(stream_handle);
    if (stream == nullptr) return bad_handle("stream");
    if (runtime_.find(handle) == nullptr) return no_such("executable graph");
    // Nothing to upload: the plan is in host memory.
    return check(Call::graph_upload, stream);
  });
}

Result HostBackend::graph_launch(GraphExecHandle handle, StreamHandle stream_handle) {
  return enter(Call::graph_launch, [&](Lock&) -> Result {
    HostStream* const stream = find(stream_handle);
    if (stream == nullptr) return bad_handle("stream");
    HostExec* const exec = runtime_.find(handle);
    if (exec == nullptr) return no_such("executable graph");
    if (Result rule = check(Call::graph_launch, stream); rule.failed()) return rule;
    return launch_on(*stream, *exec);
  });
}

namespace {

struct MemoryOfLaunch {
  std::vector<std::shared_ptr<GraphMemory>> allocated, freed;

  explicit MemoryOfLaunch(const Plan& plan) {
    for (const std::size_t place : plan.memory_nodes()) {
      if (const auto* const allocation = std::get_if<GraphAllocation>(&plan.work(place)))
        allocated.push_back(allocation->memory);
      else
        freed.push_back(std::get<GraphFree>(plan.work(place)).memory);
    }
  }
  bool allocates(const std::shared_ptr<GraphMemory>& memory) const {
    return std::find(allocated.begin(), allocated.end(), memory) != allocated.end();
  }
};

}  // namespace

Result HostBackend::check_launch_memory(const HostExec& exec) const {
  if (exec.plan->memory_nodes().empty()) return ErrorCode::success;
  const MemoryOfLaunch memory(*exec.plan);
  const bool frees_first = (exec.flags & InstantiateFlags::auto_free_on_launch) != InstantiateFlags::none;
  for (const auto& each : memory.allocated)
    if (each->allocated() && !frees_first)
      return fail(ErrorCode::invalid_value,
                  "memory that an earlier launch of the graph allocated is not freed; free it, or instantiate with "
                  "auto_free_on_launch");
  for (const auto& each : memory.freed)
    if (!memory.allocates(each) && !each->allocated())
      return fail(ErrorCode::invalid_value, "the graph frees memory of another graph that is not allocated");
  for (const auto& each : memory.allocated)
    if (!each->back())
      return fail(ErrorCode::out_of_memory,
                  text::format("an allocation node of the graph needs {} bytes", each->bytes()));
  return ErrorCode::success;
}

void HostBackend::note_launch_memory(const Plan& plan) noexcept {
  for (const std::size_t place : plan.memory_nodes())
    if (const auto* const allocation = std::get_if<GraphAllocation>(&plan.work(place)))
      GraphMemory::set_allocated(allocation->memory);
  for (const std::size_t place : plan.memory_nodes())
    if (const auto* const free = std::get_if<GraphFree>(&plan.work(place))) free->memory->set_freed();
}

Result HostBackend::launch_on(HostStream& stream, HostExec& exec) {
  if (Result bad = check_launch_memory(exec); bad.failed()) return bad;
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
  for (auto& [event, point] : records) event->set_recorded(std::move(point));
  if (runtime_.races != nullptr) [[unlikely]]
    runtime_.races->launched(stream, *launch.get(), all_points, exec);
  exec.last_launch = launch;
  plan.last_launch = launch;
  note_launch_memory(plan);
  return ErrorCode::success;
}

Result HostBackend::graph_exec_update(GraphExecHandle handle, GraphHandle graph_handle, UpdateInfo* info) {
  return enter_on(Call::graph_exec_update, handle, "executable graph", [&](HostExec& exec) -> Result {
    HostGraph* const graph = runtime_.find(graph_handle);
    if (graph == nullptr) return no_such("graph");
    std::vector<HostNode*> nodes;
    const PlanShape shape(*graph, &nodes);
    const auto refuse = [&](UpdateResult result, std::size_t place, const char* why) {
      *info = {result, place == PlanShape::none ? nullptr : handle_of(*nodes[place])};
      return fail(ErrorCode::graph_exec_update_failure, why);
    };
    const PlanShape& before = exec.plan->shape();
    const ShapeDifference found = difference(before, before.levels_from(0), shape);
    if (found.result != UpdateResult::success) return refuse(found.result, found.place, found.why);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i]->type == NodeType::kernel && nodes[i]->device != exec.plan->device(i))
        return refuse(UpdateResult::unsupported_function_change, i, "a kernel is one of another device");
      if (const char* const why = refused_change(runtime_, exec.plan->work(i), nodes[i]->work))
        return refuse(UpdateResult::parameters_changed, i, why);
    }
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (const char* const why = refused_launch(exec.plan->work(i), nodes[i]->work))
        return refuse(UpdateResult::attributes_changed, i, why);
    auto fresh = std::make_shared<Plan>(*graph);
    for (std::size_t i = 0; i < nodes.size(); ++i) fresh->set_enabled(i, exec.plan->enabled(i));
    exec.plan = std::move(fresh);
    exec.accesses.reset();
    *info = {};
    return ErrorCode::success;
  });
}

Result HostBackend::set_child(HostExec& exec, std::size_t place, const HostGraph& child) {
  const PlanShape& shape = exec.plan->shape();
  const std::vector<std::size_t> levels = shape.levels_from(shape.nodes[place].inner.front());
  const Plan fresh(child);
  const ShapeDifference found = difference(shape, levels, fresh.shape());
  if (found.result != UpdateResult::success) return fail(ErrorCode::graph_exec_update_failure, found.why);
  std::vector<std::pair<std::size_t, std::size_t>> places;  // in the executable, in the child
  for (std::size_t i = 0; i < levels.size(); ++i)
    for (std::size_t node = 0; node < shape.levels[levels[i]].count; ++node)
      places.emplace_back(shape.levels[levels[i]].first + node, fresh.shape().levels[i].first + node);
  for (const auto& [ours, theirs] : places) {
    if (std::holds_alternative<KernelWork>(fresh.work(theirs)) && fresh.device(theirs) != exec.plan->device(ours))
      return fail(ErrorCode::graph_exec_update_failure, "a kernel is one of another device");
    if (const char* const why = refused_change(runtime_, exec.plan->work(ours), fresh.work(theirs)))
      return fail(ErrorCode::graph_exec_update_failure, why);
  }
  Plan& plan = exec.changeable_plan();
  plan.user_objects().insert(plan.user_objects().end(), fresh.user_objects().begin(), fresh.user_objects().end());
  for (const auto& [ours, theirs] : places) plan.set_work(ours, fresh.work(theirs));
  return ErrorCode::success;
}

Result HostBackend::graph_exec_node_set_params(GraphExecHandle handle, GraphNodeHandle node_handle,
                                               const NodeParams& params) {
  return enter_on(Call::graph_exec_node_set_params, handle, "executable graph", [&](HostExec& exec) -> Result {
    const HostNode* const node = runtime_.find(node_handle);
    const std::optional<std::size_t> place = exec.place_of(node);
    if (!place)
      return fail(ErrorCode::invalid_value,
                  "the node is not in the template that the executable was made from, or the template was destroyed");
    if (node->type != node_type(params)) return fail(ErrorCode::invalid_value, "the node is of another type");
    if (node->type == NodeType::conditional)
      return fail(ErrorCode::not_supported, "a conditional node cannot be changed; the nodes of its bodies can");
    if (node->type == NodeType::memory_allocate || node->type == NodeType::memory_free)
      return fail(ErrorCode::not_supported, "an allocation or free node cannot be changed");
    if (Result good = check_node(params); good.failed()) return good;
    if (const auto* const child = std::get_if<ChildGraphNodeParams>(&params))
      return set_child(exec, *place, *runtime_.find(child->graph));
    Work work = make_work(params);
    const Work& before = exec.plan->work(*place);
    for (const char* const why : {refused_change(runtime_, before, work), refused_grid(before, work)})
      if (why != nullptr) return fail(ErrorCode::invalid_value, why);
    exec.changeable_plan().set_work(*place, std::move(work));
    return ErrorCode::success;
  });
}

Result HostBackend::find_switchable(const HostExec& exec, GraphNodeHandle handle, std::size_t* place) const {
  const HostNode* const node = runtime_.find(handle);
  const std::optional<std::size_t> found = exec.place_of(node);
  if (!found || !can_be_disabled(node->type))
    return fail(ErrorCode::invalid_value,
                "only kernel, memcpy and memset nodes of the executable's template can be switched");
  *place = *found;
  return ErrorCode::success;
}

Result HostBackend::graph_node_set_enabled(GraphExecHandle handle, GraphNodeHandle node, bool enabled) {
  return enter_on(Call::graph_node_set_enabled, handle, "executable graph", [&](HostExec& exec) {
    std::size_t place = 0;
    Result found = find_switchable(exec, node, &place);
    if (!found.failed()) exec.changeable_plan().set_enabled(place, enabled);
    return found;
  });
}

Result HostBackend::graph_node_enabled(GraphExecHandle handle, GraphNodeHandle node, bool* enabled) {
  return enter_on(Call::graph_node_enabled, handle, "executable graph", [&](const HostExec& exec) {
    std::size_t place = 0;
    Result found = find_switchable(exec, node, &place);
    if (!found.failed()) *enabled = exec.plan->enabled(place);
    return found;
  });
}

}  // namespace reprise::backend::host
