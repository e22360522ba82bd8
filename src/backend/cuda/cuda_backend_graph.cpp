// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "backend/cuda/conditional_nodes.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/node_params.h"

// The shape of template graphs, and user objects.

namespace reprise::backend::cuda {
namespace {

static_assert(static_cast<unsigned>(DotFlags::verbose) == CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
static_assert(static_cast<unsigned>(RetainFlags::move) == CU_GRAPH_USER_OBJECT_MOVE);

/// Edges in the form of the driver: one array for each part.
struct EdgeArrays {
  explicit EdgeArrays(std::size_t count) : from(count), to(count), data(count) {}
  explicit EdgeArrays(std::span<const Edge> edges) : EdgeArrays(edges.size()) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      from[i] = edges[i].from;
      to[i] = edges[i].to;
      data[i] = edges[i].data;
    }
  }
  const CUgraphEdgeData* driver_data() const { return to_driver(data); }

  std::vector<CUgraphNode> from, to;
  std::vector<EdgeData> data;
};

/// Edges, those of one kind behind each other.
std::vector<Edge> by_kind(std::span<const Edge> edges) {
  std::vector<Edge> sorted(edges.begin(), edges.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Edge& a, const Edge& b) { return a.data < b.data; });
  return sorted;
}

/// Calls `f` with each run of edges of the same kind: drivers 13.0 to 13.4 give all edges of one call of
/// cuGraphAddDependencies the data of the first edge.
template <class F>
CUresult for_each_kind(std::span<const Edge> sorted, F&& f) {
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && sorted[end].data == sorted[begin].data) ++end;
    if (const CUresult result = f(sorted.subspan(begin, end - begin)); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

Result CudaBackend::graph_create(GraphHandle* graph) {
  return enter_for<CUgraph>(Call::graph_create, graph, [&](CUgraph* made) { return driver_.cuGraphCreate(made, 0); });
}

Result CudaBackend::graph_destroy(GraphHandle graph) {
  return enter(Call::graph_destroy, [&] {
    const CUresult result = driver_.cuGraphDestroy(graph);
    if (result == CUDA_SUCCESS) ConditionalNodes::instance().destroyed(graph);
    return result;
  });
}

Result CudaBackend::graph_clone(GraphHandle* clone, GraphHandle graph) {
  return enter_for<CUgraph>(Call::graph_clone, clone, [&](CUgraph* made) { return driver_.cuGraphClone(made, graph); });
}

Result CudaBackend::graph_node_find_in_clone(GraphNodeHandle* found, GraphNodeHandle original, GraphHandle clone) {
  return enter_for<CUgraphNode>(Call::graph_node_find_in_clone, found, [&](CUgraphNode* node) {
    return driver_.cuGraphNodeFindInClone(node, original, clone);
  });
}

Result CudaBackend::graph_nodes(GraphHandle graph, std::vector<GraphNodeHandle>* nodes) {
  return enter(Call::graph_nodes, [&] {
    // One call for a small graph: the driver returns as many as there is room for.
    std::array<CUgraphNode, 32> few{};
    std::size_t count = few.size();
    CUresult result = driver_.cuGraphGetNodes(graph, few.data(), &count);
    if (result != CUDA_SUCCESS) return result;
    if (count < few.size()) {
      nodes->assign(few.begin(), few.begin() + count);
      return result;
    }
    result = driver_.cuGraphGetNodes(graph, nullptr, &count);
    if (result != CUDA_SUCCESS) return result;
    std::vector<CUgraphNode> found(count);
    result = driver_.cuGraphGetNodes(graph, found.data(), &count);
    if (result == CUDA_SUCCESS) *nodes = std::move(found);
    return result;
  });
}

Result CudaBackend::graph_edges(GraphHandle graph, std::vector<Edge>* edges) {
  return enter(Call::graph_edges, [&] {
    std::size_t count = 0;
    CUresult result = driver_.cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
    if (result != CUDA_SUCCESS) return result;
    EdgeArrays found(count);
    if (count != 0)
      result = driver_.cuGraphGetEdges(graph, found.from.data(), found.to.data(),
                                       reinterpret_cast<CUgraphEdgeData*>(found.data.data()), &count);
    if (result != CUDA_SUCCESS) return result;
    edges->clear();
    for (std::size_t i = 0; i < count; ++i) edges->push_back({found.from[i], found.to[i], found.data[i]});
    return result;
  });
}

Result CudaBackend::graph_add_dependencies(GraphHandle graph, std::span<const Edge> edges) {
  return enter(Call::graph_add_dependencies, [&] {
    const std::vector<Edge> sorted = by_kind(edges);
    std::size_t added = 0;
    const CUresult result = for_each_kind(sorted, [&](std::span<const Edge> kind) {
      const EdgeArrays arrays(kind);
      const CUresult one = driver_.cuGraphAddDependencies(graph, arrays.from.data(), arrays.to.data(),
                                                          arrays.driver_data(), kind.size());
      if (one == CUDA_SUCCESS) added += kind.size();
      return one;
    });
    // All or none, as of one call.
    if (result != CUDA_SUCCESS && added > 0) {
      const EdgeArrays arrays(std::span<const Edge>(sorted).first(added));
      (void)driver_.cuGraphRemoveDependencies(graph, arrays.from.data(), arrays.to.data(), arrays.driver_data(), added);
    }
    return result;
  });
}

Result CudaBackend::graph_remove_dependencies(GraphHandle graph, std::span<const Edge> edges) {
  return enter(Call::graph_remove_dependencies, [&] {
    const EdgeArrays arrays(edges);
    return driver_.cuGraphRemoveDependencies(graph, arrays.from.data(), arrays.to.data(), arrays.driver_data(),
                                             edges.size());
  });
}

Result CudaBackend::graph_conditional_handle_create(ConditionalHandle* handle, GraphHandle graph,
                                                    unsigned default_value) {
  return enter_for<CUgraphConditionalHandle>(
      Call::graph_conditional_handle_create, handle, [&](CUgraphConditionalHandle* made) {
        return driver_.cuGraphConditionalHandleCreate(made, graph, primary_.load(std::memory_order_relaxed),
                                                      default_value, CU_GRAPH_COND_ASSIGN_DEFAULT);
      });
}

Result CudaBackend::graph_debug_dot_print(GraphHandle graph, const char* path, DotFlags flags) {
  return enter(Call::graph_debug_dot_print,
               [&] { return driver_.cuGraphDebugDotPrint(graph, path, static_cast<unsigned>(flags)); });
}

Result CudaBackend::user_object_create(UserObjectHandle* handle, void* object, void (*destroy)(void*),
                                       unsigned references) {
  return enter_for<CUuserObject>(Call::user_object_create, handle, [&](CUuserObject* made) {
    return driver_.cuUserObjectCreate(made, object, destroy, references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  });
}

Result CudaBackend::user_object_retain(UserObjectHandle handle, unsigned references) {
  return enter(Call::user_object_retain, [&] { return driver_.cuUserObjectRetain(handle, references); });
}

Result CudaBackend::user_object_release(UserObjectHandle handle, unsigned references) {
  return enter(Call::user_object_release, [&] { return driver_.cuUserObjectRelease(handle, references); });
}

Result CudaBackend::graph_retain_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references,
                                             RetainFlags flags) {
  return enter(Call::graph_retain_user_object, [&] {
    return driver_.cuGraphRetainUserObject(graph, handle, references, static_cast<unsigned>(flags));
  });
}

Result CudaBackend::graph_release_user_object(GraphHandle graph, UserObjectHandle handle, unsigned references) {
  return enter(Call::graph_release_user_object,
               [&] { return driver_.cuGraphReleaseUserObject(graph, handle, references); });
}

}  // namespace reprise::backend::cuda
