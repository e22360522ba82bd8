// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdio>

#include "backend/host/host_backend.h"
#include "text/format.h"

// Template graphs and user objects.

namespace reprise::backend::host {
namespace {

GraphNodeHandle handle_of(HostNode& node) {
  return reinterpret_cast<GraphNodeHandle>(&node);
}

Result check_edges(std::span<const Edge> edges) {
  return std::all_of(edges.begin(), edges.end(), [](const Edge& edge) { return edge.data == EdgeData{}; })
             ? Result::success
             : Result::not_supported;
}

}  // namespace

Result HostBackend::graph_create(GraphHandle* graph) {
  return enter(Call::graph_create, [&](Lock&) {
    auto made = std::make_unique<HostGraph>();
    made->device = &device_;
    made->id = next_id();
    *graph = runtime_.adopt(std::move(made));
    return Result::success;
  });
}

Result HostBackend::graph_destroy(GraphHandle handle) {
  return enter(Call::graph_destroy, [&](Lock&) {
    HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    for (const auto& capture : runtime_.captures)
      if (capture->graph == graph)
        return fail(Result::invalid_value, "the graph is being captured to; end the capture first");
    runtime_.destroy(*graph);
    return Result::success;
  });
}

Result HostBackend::graph_clone(GraphHandle* clone, GraphHandle handle) {
  return enter(Call::graph_clone, [&](Lock&) {
    const HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    *clone = runtime_.adopt(graph->clone());
    return Result::success;
  });
}

Result HostBackend::graph_node_find_in_clone(GraphNodeHandle* found, GraphNodeHandle original, GraphHandle handle) {
  return enter(Call::graph_node_find_in_clone, [&](Lock&) {
    const HostGraph* const clone = runtime_.find(handle);
    const HostNode* const node = runtime_.find(original);
    if (clone == nullptr || node == nullptr) return fail(Result::invalid_value, "there is no such graph or node");
    for (const auto& candidate : clone->nodes) {
      if (candidate->origin_id != node->id || candidate->id == node->id) continue;
      *found = handle_of(*candidate);
      return Result::success;
    }
    return fail(Result::invalid_value, "the graph was not cloned from the graph of this node");
  });
}

Result HostBackend::check_node(const NodeParams& params) const {
  const NodeType type = node_type(params);
  if (!has_node_type(type))
    return fail(Result::not_supported, text::format("the host device has no {} nodes yet", node_type_name(type)));
  MemoryKind destination, source;
  switch (type) {
    case NodeType::kernel: {
      const auto& kernel = std::get<KernelNodeParams>(params);
      const Result bad = check_kernel(kernel);
      return bad != Result::success ? bad : check_launch_config(kernel);
    }
    case NodeType::memcpy:
      if (std::get<MemcpyNodeParams>(params).bytes == 0)
        return fail(Result::invalid_value, "a node copies at least 1 byte");
      return check_memcpy(std::get<MemcpyNodeParams>(params), &destination, &source);
    case NodeType::memset:
      if (std::get<MemsetNodeParams>(params).count == 0)
        return fail(Result::invalid_value, "a node sets at least one element");
      return check_memset(std::get<MemsetNodeParams>(params));
    case NodeType::host:
      if (std::get<HostNodeParams>(params).function == nullptr)
        return fail(Result::invalid_value, "the function is null");
      return Result::success;
    case NodeType::event_record:
      return runtime_.find(std::get<EventRecordNodeParams>(params).event) != nullptr
                 ? Result::success
                 : fail(Result::invalid_value, "there is no such event");
    case NodeType::event_wait:
      return runtime_.find(std::get<EventWaitNodeParams>(params).event) != nullptr
                 ? Result::success
                 : fail(Result::invalid_value, "there is no such event");
    default:
      return Result::success;
  }
}

Result HostBackend::graph_add_node(GraphNodeHandle* node, GraphHandle handle,
                                   std::span<const GraphNodeHandle> dependencies, NodeParams& params) {
  return enter(Call::graph_add_node, [&](Lock&) {
    HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    std::vector<HostNode*> before;
    if (const Result found = find_nodes(dependencies, graph, &before); found != Result::success) return found;
    for (auto repeated = before.begin(); repeated != before.end(); ++repeated)
      if (std::find(before.begin(), repeated, *repeated) != repeated)
        return fail(Result::invalid_value, "a node can depend on another one only once");
    if (const Result good = check_node(params); good != Result::success) return good;
    HostNode& added = graph->add(device_, node_type(params), make_work(params), before);
    runtime_.nodes.insert(&added);
    *node = handle_of(added);
    return Result::success;
  });
}

Result HostBackend::graph_destroy_node(GraphNodeHandle handle) {
  return enter(Call::graph_destroy_node, [&](Lock&) {
    HostNode* const node = runtime_.find(handle);
    if (node == nullptr) return fail(Result::invalid_value, "there is no such node");
    for (const auto& capture : runtime_.captures)
      if (capture->graph == node->graph)
        return fail(Result::illegal_state, "the graph is being captured to; end the capture first");
    while (!node->dependencies.empty()) disconnect(*node->dependencies.front(), *node);
    while (!node->dependents.empty()) disconnect(*node, *node->dependents.front());
    runtime_.nodes.erase(node);
    std::erase_if(node->graph->nodes, [&](const auto& owned) { return owned.get() == node; });
    return Result::success;
  });
}

Result HostBackend::graph_nodes(GraphHandle handle, std::vector<GraphNodeHandle>* nodes) {
  return enter(Call::graph_nodes, [&](Lock&) {
    const HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    nodes->clear();
    for (const auto& node : graph->nodes) nodes->push_back(handle_of(*node));
    return Result::success;
  });
}

Result HostBackend::graph_edges(GraphHandle handle, std::vector<Edge>* edges) {
  return enter(Call::graph_edges, [&](Lock&) {
    const HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    edges->clear();
    for (const auto& node : graph->nodes)
      for (HostNode* dependency : node->dependencies) edges->push_back({handle_of(*dependency), handle_of(*node), {}});
    return Result::success;
  });
}

Result HostBackend::graph_add_dependencies(GraphHandle handle, std::span<const Edge> edges) {
  return enter(Call::graph_add_dependencies, [&](Lock&) {
    const HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    if (check_edges(edges) != Result::success)
      return fail(Result::not_supported, "the host device has no programmatic edges");
    std::vector<std::pair<HostNode*, HostNode*>> added;
    for (const Edge& edge : edges) {
      std::vector<HostNode*> ends;
      const GraphNodeHandle handles[] = {edge.from, edge.to};
      Result result = find_nodes(handles, graph, &ends);
      if (result == Result::success && !connect(*ends[0], *ends[1]))
        result = fail(Result::invalid_value, "the edge is there already, or leads from a node to itself");
      if (result == Result::success) {
        added.emplace_back(ends[0], ends[1]);
        continue;
      }
      for (const auto& [from, to] : added) disconnect(*from, *to);
      return result;
    }
    return Result::success;
  });
}

Result HostBackend::graph_remove_dependencies(GraphHandle handle, std::span<const Edge> edges) {
  return enter(Call::graph_remove_dependencies, [&](Lock&) {
    const HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    std::vector<std::pair<HostNode*, HostNode*>> removed;
    for (const Edge& edge : edges) {
      std::vector<HostNode*> ends;
      const GraphNodeHandle handles[] = {edge.from, edge.to};
      Result result = find_nodes(handles, graph, &ends);
      if (result == Result::success && !disconnect(*ends[0], *ends[1]))
        result = fail(Result::invalid_value, "there is no such edge");
      if (result == Result::success) {
        removed.emplace_back(ends[0], ends[1]);
        continue;
      }
      for (const auto& [from, to] : removed) connect(*from, *to);
      return result;
    }
    return Result::success;
  });
}

Result HostBackend::graph_node_type(GraphNodeHandle handle, NodeType* type) {
  return enter(Call::graph_node_type, [&](Lock&) {
    const HostNode* const node = runtime_.find(handle);
    if (node == nullptr) return fail(Result::invalid_value, "there is no such node");
    *type = node->type;
    return Result::success;
  });
}

Result HostBackend::graph_node_params(GraphNodeHandle handle, NodeParams* params) {
  return enter(Call::graph_node_params, [&](Lock&) {
    const HostNode* const node = runtime_.find(handle);
    if (node == nullptr) return fail(Result::invalid_value, "there is no such node");
    *params = params_of(node->work);
    return Result::success;
  });
}

Result HostBackend::graph_node_set_params(GraphNodeHandle handle, const NodeParams& params) {
  return enter(Call::graph_node_set_params, [&](Lock&) {
    HostNode* const node = runtime_.find(handle);
    if (node == nullptr) return fail(Result::invalid_value, "there is no such node");
    if (node->type != node_type(params)) return fail(Result::invalid_value, "the node is of another type");
    if (const Result good = check_node(params); good != Result::success) return good;
    node->work = make_work(params);
    return Result::success;
  });
}

Result HostBackend::graph_conditional_handle_create(ConditionalHandle*, GraphHandle handle, unsigned) {
  return enter(Call::graph_conditional_handle_create, [&](Lock&) {
    if (runtime_.find(handle) == nullptr) return no_such("graph");
    return fail(Result::not_supported, "the host device has no conditional nodes yet");
  });
}

Result HostBackend::graph_debug_dot_print(GraphHandle handle, const char* path, DotFlags flags) {
  return enter(Call::graph_debug_dot_print, [&](Lock&) {
    const HostGraph* const graph = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    const std::string text = to_dot(*graph, flags);
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr)
      return fail(Result::invalid_value, text::format("the file {} cannot be opened for writing", path));
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = std::fclose(file) == 0;
    return written && closed ? Result::success
                             : fail(Result::invalid_value, text::format("the file {} could not be written", path));
  });
}

Result HostBackend::user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                                       unsigned references) {
  return enter(Call::user_object_create, [&](Lock&) {
    if (destroy == nullptr || references == 0)
      return fail(Result::invalid_value, "a user object needs a destructor and at least one reference");
    auto made = std::make_unique<UserObject>(object, destroy, references);
    UserObject* const raw = made.get();
    runtime_.user_objects.emplace(raw, std::move(made));
    *handle = reinterpret_cast<UserObjectHandle>(raw);
    return Result::success;
  });
}

Result HostBackend::user_object_retain(UserObjectHandle handle, unsigned references) {
  return enter(Call::user_object_retain, [&](Lock&) {
    UserObject* const object = runtime_.find(handle);
    if (references == 0) return fail(Result::invalid_value, "at least one reference is needed");
    if (object == nullptr || !object->try_retain(references)) return no_such("user object");
    return Result::success;
  });
}

Result HostBackend::user_object_release(UserObjectHandle handle, unsigned references) {
  return enter(Call::user_object_release, [&](Lock&) {
    UserObject* const object = runtime_.find(handle);
    if (object == nullptr) return no_such("user object");
    return object->release(references) ? Result::success
                                       : fail(Result::invalid_value, "the object has fewer references");
  });
}

Result HostBackend::graph_retain_user_object(GraphHandle graph_handle, UserObjectHandle handle, unsigned references,
                                             RetainFlags flags) {
  return enter(Call::graph_retain_user_object, [&](Lock&) {
    HostGraph* const graph = runtime_.find(graph_handle);
    UserObject* const object = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    if (object == nullptr) return no_such("user object");
    if (references == 0) return fail(Result::invalid_value, "at least one reference is needed");
    if (flags == RetainFlags::add && !object->try_retain(references)) return no_such("user object");
    for (unsigned i = 0; i < references; ++i) graph->user_objects.emplace_back(object);
    return Result::success;
  });
}

Result HostBackend::graph_release_user_object(GraphHandle graph_handle, UserObjectHandle handle, unsigned references) {
  return enter(Call::graph_release_user_object, [&](Lock&) {
    HostGraph* const graph = runtime_.find(graph_handle);
    const UserObject* const object = runtime_.find(handle);
    if (graph == nullptr) return no_such("graph");
    if (object == nullptr) return no_such("user object");
    auto& held = graph->user_objects;
    const auto is_it = [&](const UserObjectRef& ref) { return ref.get() == object; };
    if (std::count_if(held.begin(), held.end(), is_it) < static_cast<std::ptrdiff_t>(references))
      return fail(Result::invalid_value, "the graph holds fewer references to it");
    for (unsigned i = 0; i < references; ++i) held.erase(std::find_if(held.begin(), held.end(), is_it));
    return Result::success;
  });
}

}  // namespace reprise::backend::host
