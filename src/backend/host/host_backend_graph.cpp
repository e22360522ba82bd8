// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdio>

#include "backend/host/host_backend.h"
#include "support/room.h"
#include "text/format.h"

// The shape of template graphs, and user objects. Their nodes: host_backend_node.cpp.

namespace reprise::backend::host {
Result HostBackend::graph_create(GraphHandle* graph) {
  return enter(Call::graph_create, [&](Lock&) -> Result {
    *graph = runtime_.adopt(std::make_unique<HostGraph>());
    return ErrorCode::success;
  });
}

Result HostBackend::graph_destroy(GraphHandle handle) {
  return enter_on(Call::graph_destroy, handle, "graph", [&](HostGraph& graph) -> Result {
    if (graph.owner != nullptr)
      return fail(ErrorCode::invalid_value, "the graph belongs to a node, and is destroyed with it");
    if (is_captured_to(graph))
      return fail(ErrorCode::invalid_value, "the graph is being captured to; end the capture first");
    runtime_.destroy(graph);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_clone(GraphHandle* clone, GraphHandle handle) {
  return enter_on(Call::graph_clone, handle, "graph", [&](const HostGraph& graph) -> Result {
    if (Result bad = check_copy(graph); bad.failed()) return bad;
    *clone = runtime_.adopt(graph.clone());
    return ErrorCode::success;
  });
}

Result HostBackend::graph_node_find_in_clone(GraphNodeHandle* found, GraphNodeHandle original, GraphHandle handle) {
  return enter(Call::graph_node_find_in_clone, [&](Lock&) -> Result {
    const HostGraph* const clone = runtime_.find(handle);
    const HostNode* const node = runtime_.find(original);
    if (clone == nullptr || node == nullptr) return fail(ErrorCode::invalid_value, "there is no such graph or node");
    for (const auto& candidate : clone->nodes) {
      if (candidate->origin_id != node->id || candidate->id == node->id) continue;
      *found = handle_of(*candidate);
      return ErrorCode::success;
    }
    return fail(ErrorCode::invalid_value, "the graph was not cloned from the graph of this node");
  });
}

Result HostBackend::graph_nodes(GraphHandle handle, std::vector<GraphNodeHandle>* nodes) {
  return enter_on(Call::graph_nodes, handle, "graph", [&](const HostGraph& graph) {
    nodes->clear();
    for (const auto& node : graph.nodes) nodes->push_back(handle_of(*node));
    return ErrorCode::success;
  });
}

Result HostBackend::graph_edges(GraphHandle handle, std::vector<Edge>* edges) {
  return enter_on(Call::graph_edges, handle, "graph", [&](const HostGraph& graph) {
    edges->clear();
    for (const auto& node : graph.nodes)
      for (const Dependency& dependency : node->dependencies)
        edges->push_back({handle_of(*dependency.node), handle_of(*node), dependency.data});
    return ErrorCode::success;
  });
}

template <class Change>
Result HostBackend::change_edges(const HostGraph& graph, std::span<const Edge> edges, const Change& change,
                                 bool (*undo)(const Dependency&, HostNode&)) const {
  std::vector<std::pair<Dependency, HostNode*>> changed;
  changed.reserve(edges.size());
  for (const Edge& edge : edges) {
    std::vector<Dependency> ends;
    const GraphNodeHandle handles[] = {edge.from, edge.to};
    Result result = find_nodes(handles, &graph, &ends);
    if (!result.failed()) result = change(Dependency{ends[0].node, edge.data}, *ends[1].node);
    if (result.failed()) {
      for (const auto& [from, to] : changed) undo(from, *to);
      return result;
    }
    changed.emplace_back(Dependency{ends[0].node, edge.data}, ends[1].node);
  }
  return ErrorCode::success;
}

Result HostBackend::graph_add_dependencies(GraphHandle handle, std::span<const Edge> edges) {
  return enter_on(Call::graph_add_dependencies, handle, "graph", [&](const HostGraph& graph) {
    const auto add = [](const Dependency& from, HostNode& to) -> Result {
      if (Result bad = check_edge(*from.node, &to.type, from.data); bad.failed()) return bad;
      if (connect(from, to)) return ErrorCode::success;
      return fail(ErrorCode::invalid_value, "the edge is there already, or leads from a node to itself");
    };
    return change_edges(graph, edges, add, disconnect);
  });
}

Result HostBackend::graph_remove_dependencies(GraphHandle handle, std::span<const Edge> edges) {
  return enter_on(Call::graph_remove_dependencies, handle, "graph", [&](const HostGraph& graph) -> Result {
    if (Result bad = check_removal(graph); bad.failed()) return bad;
    const auto remove = [](const Dependency& from, HostNode& to) -> Result {
      if (disconnect(from, to)) return ErrorCode::success;
      return fail(ErrorCode::invalid_value, "there is no such edge");
    };
    return change_edges(graph, edges, remove, connect);
  });
}

Result HostBackend::graph_debug_dot_print(GraphHandle handle, const char* path, DotFlags flags) {
  return enter_on(Call::graph_debug_dot_print, handle, "graph", [&](const HostGraph& graph) -> Result {
    const std::string text = to_dot(graph, flags);
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr)
      return fail(ErrorCode::invalid_value, text::format("the file \"{}\" cannot be opened for writing", path));
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = std::fclose(file) == 0;
    return written && closed
               ? ErrorCode::success
               : fail(ErrorCode::invalid_value, text::format("the file \"{}\" could not be written", path));
  });
}

Result HostBackend::user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                                       unsigned references) {
  return enter(Call::user_object_create, [&](Lock&) -> Result {
    if (destroy == nullptr || references == 0)
      return fail(ErrorCode::invalid_value, "a user object needs a destructor and at least one reference");
    auto made = std::make_unique<UserObject>(runtime_, object, destroy, references);
    UserObject* const raw = made.get();
    runtime_.user_objects.emplace(raw, std::move(made));
    *handle = reinterpret_cast<UserObjectHandle>(raw);
    return ErrorCode::success;
  });
}

Result HostBackend::user_object_retain(UserObjectHandle handle, unsigned references) {
  return enter(Call::user_object_retain, [&](Lock&) -> Result {
    UserObject* const object = runtime_.find(handle);
    if (references == 0) return fail(ErrorCode::invalid_value, "at least one reference is needed");
    if (object == nullptr || !object->try_retain(references)) return no_such("user object");
    return ErrorCode::success;
  });
}

Result HostBackend::user_object_release(UserObjectHandle handle, unsigned references) {
  return enter_on(Call::user_object_release, handle, "user object", [&](UserObject& object) {
    return object.release(references) ? Result(ErrorCode::success)
                                      : fail(ErrorCode::invalid_value, "the object has fewer references");
  });
}

Result HostBackend::graph_retain_user_object(GraphHandle graph_handle, UserObjectHandle handle, unsigned references,
                                             RetainFlags flags) {
  return enter_on(Call::graph_retain_user_object, graph_handle, "graph", [&](HostGraph& graph) -> Result {
    UserObject* const object = runtime_.find(handle);
    if (object == nullptr) return no_such("user object");
    if (references == 0) return fail(ErrorCode::invalid_value, "at least one reference is needed");
    support::make_room(graph.user_objects, references);
    if (flags == RetainFlags::add && !object->try_retain(references)) return no_such("user object");
    for (unsigned i = 0; i < references; ++i) graph.user_objects.emplace_back(object);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_release_user_object(GraphHandle graph_handle, UserObjectHandle handle, unsigned references) {
  return enter_on(Call::graph_release_user_object, graph_handle, "graph", [&](HostGraph& graph) -> Result {
    const UserObject* const object = runtime_.find(handle);
    if (object == nullptr) return no_such("user object");
    auto& held = graph.user_objects;
    const auto is_it = [&](const UserObjectRef& ref) { return ref.get() == object; };
    if (std::count_if(held.begin(), held.end(), is_it) < static_cast<std::ptrdiff_t>(references))
      return fail(ErrorCode::invalid_value, "the graph holds fewer references to it");
    for (unsigned i = 0; i < references; ++i) held.erase(std::find_if(held.begin(), held.end(), is_it));
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
