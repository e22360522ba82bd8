// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <utility>

#include "tests/conformance/recorder/recorder_calls.h"

// The calls of the recorder: child graphs, allocation nodes, conditional nodes, and updates and changes of graphs that
// have them.

namespace reprise::backend::test {
namespace {

/// A graph with one node of such a type, made before the capture, and what the calls make of it.
struct NodeThings {
  GraphHandle parent = nullptr;  ///< has `node`
  GraphNodeHandle node = nullptr;
  GraphNodeHandle other = nullptr;  ///< after `node`; of an allocation, what frees it
  GraphHandle inside = nullptr;     ///< the child graph, or the body
  GraphNodeHandle inner = nullptr;  ///< a node in it
  GraphHandle twin = nullptr;       ///< of the same shape
  GraphExecHandle exec = nullptr;   ///< of `parent`
  void* address = nullptr;          ///< of an allocation node
};

NodeThings& things(State& x) {
  return *static_cast<NodeThings*>(x.further.get());
}

/// \param after null: the node depends on no other one.
void add_memset(State& x, GraphHandle graph, GraphNodeHandle* node, GraphNodeHandle after = nullptr) {
  NodeParams params = memset_of(x, 5);
  (void)x.backend.graph_add_node(node, graph, {&after, after != nullptr ? 1U : 0U}, params);
}

/// A graph of a child graph and a memset node.
void make_with_child(State& x, GraphHandle* graph, GraphNodeHandle* node, GraphNodeHandle* other, GraphHandle* inside) {
  (void)x.backend.graph_create(graph);
  NodeParams params = ChildGraphNodeParams{x.graph};
  (void)x.backend.graph_add_node(node, *graph, {}, params);
  (void)x.backend.graph_node_params(*node, &params);
  if (const auto* const child = std::get_if<ChildGraphNodeParams>(&params)) *inside = child->graph;
  add_memset(x, *graph, other, *node);
}
void make_with_allocation(State& x, GraphHandle* graph, GraphNodeHandle* node, GraphNodeHandle* other, void** address) {
  (void)x.backend.graph_create(graph);
  NodeParams params = MemoryAllocateNodeParams{4096};
  (void)x.backend.graph_add_node(node, *graph, {}, params);
  if (const auto* const made = std::get_if<MemoryAllocateNodeParams>(&params)) *address = made->address;
  params = MemoryFreeNodeParams{*address};
  (void)x.backend.graph_add_node(other, *graph, {node, 1}, params);
}
void make_with_condition(State& x, GraphHandle* graph, GraphNodeHandle* node, GraphHandle* inside) {
  (void)x.backend.graph_create(graph);
  ConditionalHandle handle = 0;
  (void)x.backend.graph_conditional_handle_create(&handle, *graph, 1);
  NodeParams params = ConditionalNodeParams{handle, ConditionalType::if_, 1};
  (void)x.backend.graph_add_node(node, *graph, {}, params);
  const auto* const made = std::get_if<ConditionalNodeParams>(&params);
  if (made != nullptr && !made->bodies.empty()) *inside = made->bodies.front();
}

void instantiate(State& x) {
  (void)x.backend.graph_instantiate(&things(x).exec, things(x).parent, InstantiateFlags::none, nullptr);
}
void prepare_child(State& x) {
  x.further = std::make_shared<NodeThings>();
  NodeThings& made = things(x);
  make_with_child(x, &made.parent, &made.node, &made.other, &made.inside);
  std::vector<GraphNodeHandle> nodes;
  (void)x.backend.graph_nodes(made.inside, &nodes);
  if (!nodes.empty()) made.inner = nodes.front();
  NodeThings unused;
  make_with_child(x, &made.twin, &unused.node, &unused.other, &unused.inside);
  instantiate(x);
}
void prepare_allocation(State& x) {
  x.further = std::make_shared<NodeThings>();
  NodeThings& made = things(x);
  make_with_allocation(x, &made.parent, &made.node, &made.other, &made.address);
  NodeThings unused;
  make_with_allocation(x, &made.twin, &unused.node, &unused.other, &unused.address);
  instantiate(x);
}
void prepare_condition(State& x) {
  x.further = std::make_shared<NodeThings>();
  NodeThings& made = things(x);
  make_with_condition(x, &made.parent, &made.node, &made.inside);
  add_memset(x, made.inside, &made.inner);
  NodeThings unused;
  make_with_condition(x, &made.twin, &unused.node, &unused.inside);
  add_memset(x, unused.inside, &unused.inner);
  instantiate(x);
}
/// A body that copies pageable memory, in a graph without an executable.
void prepare_pageable_body(State& x) {
  x.further = std::make_shared<NodeThings>();
  NodeThings& made = things(x);
  make_with_condition(x, &made.parent, &made.node, &made.inside);
  NodeParams params = MemcpyNodeParams{x.device, x.pageable, 64};
  (void)x.backend.graph_add_node(&made.inner, made.inside, {}, params);
}
void release(State& x) {
  if (x.further == nullptr) return;
  const NodeThings made = things(x);
  if (made.exec != nullptr) (void)x.backend.graph_exec_destroy(made.exec);
  for (const GraphHandle graph : {made.parent, made.twin})
    if (graph != nullptr) (void)x.backend.graph_destroy(graph);
  x.further.reset();
}

using Make = std::function<Result(State&, NodeThings&)>;

RecordedCall node_call(std::string name, void (*prepare)(State&), const Make& make) {
  return {std::move(name), [make](State& x) { return make(x, things(x)); }, prepare, &release};
}

Result instantiate_again(State& x, GraphHandle graph) {
  GraphExecHandle made = nullptr;
  return then(x.backend.graph_instantiate(&made, graph, InstantiateFlags::none, nullptr), x,
              [&] { (void)x.backend.graph_exec_destroy(made); });
}
Result update(State& x, const NodeThings& made) {
  UpdateInfo info;
  return x.backend.graph_exec_update(made.exec, made.twin, &info);
}
Result clone(State& x, const NodeThings& made) {
  GraphHandle copy = nullptr;
  return then(x.backend.graph_clone(&copy, made.parent), x, [&] { (void)x.backend.graph_destroy(copy); });
}
Result params_of(State& x, GraphNodeHandle node) {
  NodeParams params = EmptyNodeParams{};
  return x.backend.graph_node_params(node, &params);
}
Result add_to(State& x, GraphHandle graph, NodeParams params) {
  GraphNodeHandle node = nullptr;
  return x.backend.graph_add_node(&node, graph, {}, params);
}

/// What is done alike with nodes of each type.
void add_common_calls(Calls& calls, const std::string& of, void (*prepare)(State&)) {
  calls.push_back(node_call("graph_node_params " + of, prepare,
                            [](State& x, NodeThings& made) { return params_of(x, made.node); }));
  calls.push_back(node_call("graph_instantiate with " + of + " again", prepare,
                            [](State& x, NodeThings& made) { return instantiate_again(x, made.parent); }));
  calls.push_back(
      node_call("graph_clone with " + of, prepare, [](State& x, NodeThings& made) { return clone(x, made); }));
  calls.push_back(
      node_call("graph_exec_update with " + of, prepare, [](State& x, NodeThings& made) { return update(x, made); }));
  calls.push_back(node_call("graph_add_node child with " + of, prepare, [](State& x, NodeThings& made) {
    return add_to(x, x.graph, ChildGraphNodeParams{made.parent});
  }));
  calls.push_back(node_call("graph_destroy_node " + of, prepare,
                            [](State& x, NodeThings& made) { return x.backend.graph_destroy_node(made.node); }));
  calls.push_back(node_call("graph_launch nb with " + of, prepare,
                            [](State& x, NodeThings& made) { return x.backend.graph_launch(made.exec, x.nb); }));
}

void add_child_calls(Calls& calls) {
  add_common_calls(calls, "child", &prepare_child);
  // Not to itself: where a graph is added to itself, CUDA's driver (580) crashes.
  calls.push_back(node_call("graph_add_node child", &prepare_child, [](State& x, NodeThings& made) {
    return add_to(x, made.twin, ChildGraphNodeParams{x.graph});
  }));
  calls.push_back(
      {"graph_add_node child to the capture of s", [](State& x) {
         CaptureInfo info;
         Result known = x.backend.stream_capture_info(x.s, &info);
         if (known != ErrorCode::success || info.graph == nullptr) return known;
         NodeParams params = ChildGraphNodeParams{x.graph};
         GraphNodeHandle node = nullptr;
         Result added = x.backend.graph_add_node(&node, info.graph, {info.dependencies, info.edges}, params);
         if (added != ErrorCode::success) return added;
         return x.backend.stream_update_capture_dependencies(x.s, {&node, 1}, UpdateDependencies::set);
       }});
  calls.push_back(node_call("graph_node_set_params in a child", &prepare_child, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_params(made.inner, memset_of(x, 6));
  }));
  calls.push_back(node_call("graph_exec_node_set_params in a child", &prepare_child, [](State& x, NodeThings& made) {
    return x.backend.graph_exec_node_set_params(made.exec, made.inner, memset_of(x, 7));
  }));
  calls.push_back(node_call("graph_exec_node_set_params child", &prepare_child, [](State& x, NodeThings& made) {
    return x.backend.graph_exec_node_set_params(made.exec, made.node, ChildGraphNodeParams{x.graph});
  }));
  calls.push_back(node_call("graph_node_set_enabled in a child", &prepare_child, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_enabled(made.exec, made.inner, false);
  }));
}

void add_allocation_calls(Calls& calls) {
  add_common_calls(calls, "allocation", &prepare_allocation);
  calls.push_back(
      {"graph_add_node allocation", [](State& x) { return add_to(x, x.graph, MemoryAllocateNodeParams{4096}); }});
  calls.push_back(node_call("graph_node_params free", &prepare_allocation,
                            [](State& x, NodeThings& made) { return params_of(x, made.other); }));
  calls.push_back(node_call("graph_node_set_params allocation", &prepare_allocation, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_params(made.node, MemoryAllocateNodeParams{8192});
  }));
  calls.push_back(
      node_call("graph_exec_node_set_params allocation", &prepare_allocation, [](State& x, NodeThings& made) {
        return x.backend.graph_exec_node_set_params(made.exec, made.node, MemoryAllocateNodeParams{8192});
      }));
  calls.push_back(node_call("graph_node_set_params free", &prepare_allocation, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_params(made.other, MemoryFreeNodeParams{made.address});
  }));
  calls.push_back(node_call("graph_node_set_enabled allocation", &prepare_allocation, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_enabled(made.exec, made.node, false);
  }));
  calls.push_back(
      node_call("graph_remove_dependencies with allocation", &prepare_allocation, [](State& x, NodeThings& made) {
        const Edge edge{made.node, made.other};
        return x.backend.graph_remove_dependencies(made.parent, {&edge, 1});
      }));
}

void add_conditional_calls(Calls& calls) {
  add_common_calls(calls, "conditional", &prepare_condition);
  calls.push_back({"graph_add_node conditional", [](State& x) {
                     ConditionalHandle handle = 0;
                     Result made = x.backend.graph_conditional_handle_create(&handle, x.graph, 0);
                     if (made != ErrorCode::success) return made;
                     return add_to(x, x.graph, ConditionalNodeParams{handle, ConditionalType::while_, 1});
                   }});
  calls.push_back(node_call("graph_node_set_params conditional", &prepare_condition, [](State& x, NodeThings& made) {
    NodeParams params = EmptyNodeParams{};
    Result known = x.backend.graph_node_params(made.node, &params);
    if (known.failed()) return known;
    return x.backend.graph_node_set_params(made.node, params);
  }));
  calls.push_back(node_call("graph_node_set_params in a body", &prepare_condition, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_params(made.inner, memset_of(x, 6));
  }));
  calls.push_back(node_call("graph_exec_node_set_params in a body", &prepare_condition, [](State& x, NodeThings& made) {
    return x.backend.graph_exec_node_set_params(made.exec, made.inner, memset_of(x, 7));
  }));
  calls.push_back(node_call("graph_node_set_enabled in a body", &prepare_condition, [](State& x, NodeThings& made) {
    return x.backend.graph_node_set_enabled(made.exec, made.inner, false);
  }));
  calls.push_back(node_call("graph_add_node allocation to a body", &prepare_condition, [](State& x, NodeThings& made) {
    return add_to(x, made.inside, MemoryAllocateNodeParams{4096});
  }));
  calls.push_back(node_call("graph_instantiate with a body that copies pageable memory", &prepare_pageable_body,
                            [](State& x, NodeThings& made) { return instantiate_again(x, made.parent); }));
}

}  // namespace

const std::vector<RecordedCall>& node_calls() {
  static const Calls all = [] {
    Calls calls;
    add_child_calls(calls);
    add_allocation_calls(calls);
    add_conditional_calls(calls);
    // The last ones: a driver that does not refuse them has lost a graph.
    calls.push_back(node_call("graph_destroy of a child", &prepare_child,
                              [](State& x, NodeThings& made) { return x.backend.graph_destroy(made.inside); }));
    calls.push_back(node_call("graph_destroy of a body", &prepare_condition,
                              [](State& x, NodeThings& made) { return x.backend.graph_destroy(made.inside); }));
    return calls;
  }();
  return all;
}

}  // namespace reprise::backend::test
