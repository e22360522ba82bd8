// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backend/host/host_backend.h"
#include "text/format.h"

// The nodes of template graphs.

namespace reprise::backend::host {
namespace {

bool is_memory_node(const HostNode& node) {
  return node.type == NodeType::memory_allocate || node.type == NodeType::memory_free;
}

// With such a node a graph can neither be cloned nor be the child of another.
bool is_sole(const HostNode& node) {
  return node.type == NodeType::conditional || is_memory_node(node);
}

HostCondition* condition_of(const HostGraph& graph, ConditionalHandle handle) {
  for (const auto& condition : graph.conditions)
    if (condition->handle == handle) return condition.get();
  return nullptr;
}

bool is_number_of_bodies(ConditionalType type, unsigned count) {
  switch (type) {
    case ConditionalType::if_:
      return count == 1 || count == 2;
    case ConditionalType::while_:
      return count == 1;
    case ConditionalType::switch_:
      return count > 0;
  }
  return false;
}

}  // namespace

bool HostBackend::is_captured_to(const HostGraph& graph) const {
  return std::any_of(runtime_.captures.begin(), runtime_.captures.end(), [&](const auto& capture) {
    return capture->graph != nullptr && &outermost(*capture->graph) == &outermost(graph);
  });
}

Result HostBackend::check_copy(const HostGraph& graph) {
  const HostNode* const sole = find_node(graph, is_sole);
  if (sole == nullptr) return ErrorCode::success;
  return fail(
      ErrorCode::not_supported,
      text::format("a graph with a {} node cannot be cloned, nor be the child of another", node_type_name(sole->type)));
}

Result HostBackend::check_removal(const HostGraph& graph) {
  return find_node(graph, is_memory_node) != nullptr
             ? fail(ErrorCode::not_supported, "nodes and edges of a graph with allocation or free nodes stay in it")
             : Result(ErrorCode::success);
}

Result HostBackend::check_edge(const HostNode& from, const NodeType* to, const EdgeData& data) {
  const auto refuse = [](const char* why) { return fail(ErrorCode::invalid_value, why); };
  if (data == EdgeData{}) return ErrorCode::success;
  if (data.type > 1 || data.from_port > 2 || data.to_port != 0) return refuse("there is no such type or port of edges");
  if (from.type != NodeType::kernel) return refuse("only kernel nodes have other ports than 0");
  if (data.from_port == 0) return refuse("a programmatic edge comes from port 1 or 2");
  if (data.type == 0 && data.from_port == 1) return refuse("an edge from port 1 is programmatic");
  if (is_programmatic(data) && to != nullptr && *to != NodeType::kernel)
    return refuse("a programmatic edge leads from a kernel node to a kernel node");
  return ErrorCode::success;
}

Result HostBackend::check_node(const NodeParams& params) const {
  if (is_pitched(params)) return fail(ErrorCode::not_supported, pitched_refused);
  MemoryKind destination, source;
  switch (node_type(params)) {
    case NodeType::kernel: {
      const auto& kernel = std::get<KernelNodeParams>(params);
      if (kernel.config.programmatic)
        return fail(
            ErrorCode::not_supported,
            "in a graph, programmatic dependent launch is not a property of the kernel node: give the edge that "
            "leads to it type 1 and the port that it comes from");
      if (Result bad = check_kernel(kernel); bad.failed()) return bad;
      return check_launch_config(kernel);
    }
    case NodeType::memcpy:
      if (std::get<MemcpyNodeParams>(params).bytes == 0)
        return fail(ErrorCode::invalid_value, "a node copies at least 1 byte");
      return check_memcpy(std::get<MemcpyNodeParams>(params), &destination, &source);
    case NodeType::memset:
      if (std::get<MemsetNodeParams>(params).count == 0)
        return fail(ErrorCode::invalid_value, "a node sets at least one element");
      return check_memset(std::get<MemsetNodeParams>(params));
    case NodeType::host:
      if (std::get<HostNodeParams>(params).function == nullptr)
        return fail(ErrorCode::invalid_value, "the function is null");
      return ErrorCode::success;
    case NodeType::event_record:
      return runtime_.find(std::get<EventRecordNodeParams>(params).event) != nullptr
                 ? ErrorCode::success
                 : fail(ErrorCode::invalid_value, "there is no such event");
    case NodeType::event_wait:
      return runtime_.find(std::get<EventWaitNodeParams>(params).event) != nullptr
                 ? ErrorCode::success
                 : fail(ErrorCode::invalid_value, "there is no such event");
    case NodeType::child_graph: {
      const HostGraph* const child = runtime_.find(std::get<ChildGraphNodeParams>(params).graph);
      if (child == nullptr) return no_such("graph");
      if (lies_in(NodeType::conditional, *child))
        return fail(ErrorCode::not_supported,
                    "a graph in the body of a conditional node cannot be the child of another");
      return check_copy(*child);
    }
    case NodeType::memory_allocate:
    case NodeType::memory_free:  // check_memory()
    case NodeType::conditional:  // check_conditional()
    case NodeType::empty:
      return ErrorCode::success;
  }
  return fail(ErrorCode::invalid_value, "there is no such type of nodes");
}

Result HostBackend::check_conditional(const HostGraph& graph, const ConditionalNodeParams& params) {
  if (lies_in(NodeType::child_graph, graph))
    return fail(ErrorCode::not_supported, "a graph with a conditional node cannot be the child of another");
  const HostCondition* const condition = condition_of(graph, params.handle);
  if (condition == nullptr)
    return fail(ErrorCode::invalid_value,
                "the conditional handle is not one of this graph: a body has its own handles");
  if (condition->has_node)
    return fail(ErrorCode::invalid_value, "the conditional handle belongs to another conditional node");
  if (!is_number_of_bodies(params.type, params.body_count))
    return fail(ErrorCode::invalid_value,
                text::format("a conditional node of this type cannot have {} bodies", params.body_count));
  return ErrorCode::success;
}

HostNode& HostBackend::add_with_graphs(HostGraph& graph, NodeParams& params, std::span<const Dependency> before) {
  std::vector<std::unique_ptr<HostGraph>> inner;
  auto* const conditional = std::get_if<ConditionalNodeParams>(&params);
  Work work;
  if (conditional == nullptr) {
    inner.push_back(runtime_.find(std::get<ChildGraphNodeParams>(params).graph)->clone());
    work = ChildGraphNodeParams{handle_of(*inner.front())};
  } else {
    ConditionalNodeParams made = *conditional;
    made.bodies.clear();
    for (unsigned i = 0; i < made.body_count; ++i) {
      inner.push_back(std::make_unique<HostGraph>());
      made.bodies.push_back(handle_of(*inner.back()));
    }
    work = made;
  }
  HostNode& node = runtime_.add_node(graph, device_, node_type(params), std::move(work), before);
  try {
    std::vector<GraphHandle> bodies;
    if (conditional != nullptr) bodies = std::get<ConditionalNodeParams>(node.work).bodies;
    runtime_.adopt(node, std::move(inner));
    if (conditional == nullptr) return node;
    conditional->bodies = std::move(bodies);
    condition_of(graph, conditional->handle)->has_node = true;
  } catch (...) {
    runtime_.destroy(node);
    throw;
  }
  return node;
}

Result HostBackend::graph_add_node(GraphNodeHandle* node, GraphHandle handle, const Dependencies& dependencies,
                                   NodeParams& params) {
  return enter_on(Call::graph_add_node, handle, "graph", [&](HostGraph& graph) -> Result {
    const NodeType type = node_type(params);
    std::vector<Dependency> before;
    if (Result found = find_nodes(dependencies, &graph, &before); found.failed()) return found;
    for (auto each = before.begin(); each != before.end(); ++each) {
      if (std::find(before.begin(), each, *each) != each)
        return fail(ErrorCode::invalid_value, "a node can depend on another one only once");
      if (Result bad = check_edge(*each->node, &type, each->data); bad.failed()) return bad;
    }
    if (Result bad = check_node(params); bad.failed()) return bad;
    if (const auto* const child = std::get_if<ChildGraphNodeParams>(&params))
      if (runtime_.find(child->graph) == &graph) crash_as_driver("a graph becomes its own child");
    if (const auto* const conditional = std::get_if<ConditionalNodeParams>(&params))
      if (Result bad = check_conditional(graph, *conditional); bad.failed()) return bad;
    if (type == NodeType::child_graph || type == NodeType::conditional) {
      *node = handle_of(add_with_graphs(graph, params, before));
      return ErrorCode::success;
    }
    Work work;
    if (Result bad = make_node_work(graph, device_, params, &work); bad.failed()) return bad;
    const HostNode& made = runtime_.add_node(graph, device_, type, std::move(work), before);
    if (std::holds_alternative<GraphFree>(made.work)) note_free(made);
    if (const auto* const allocation = std::get_if<GraphAllocation>(&made.work))
      std::get<MemoryAllocateNodeParams>(params).address = allocation->memory->address();
    *node = handle_of(made);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_destroy_node(GraphNodeHandle handle) {
  return enter_on(Call::graph_destroy_node, handle, "node", [&](HostNode& node) -> Result {
    if (is_captured_to(*node.graph))
      return fail(ErrorCode::illegal_state, "the graph is being captured to; end the capture first");
    if (Result bad = check_removal(*node.graph); bad.failed()) return bad;
    if (const auto* const conditional = std::get_if<ConditionalNodeParams>(&node.work))
      condition_of(*node.graph, conditional->handle)->has_node = false;
    runtime_.destroy(node);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_node_type(GraphNodeHandle handle, NodeType* type) {
  return enter_on(Call::graph_node_type, handle, "node", [&](const HostNode& node) {
    *type = node.type;
    return ErrorCode::success;
  });
}

Result HostBackend::graph_node_params(GraphNodeHandle handle, NodeParams* params) {
  return enter_on(Call::graph_node_params, handle, "node", [&](const HostNode& node) {
    *params = params_of(node.work);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_node_set_params(GraphNodeHandle handle, const NodeParams& params) {
  return enter_on(Call::graph_node_set_params, handle, "node", [&](HostNode& node) -> Result {
    if (node.type != node_type(params)) return fail(ErrorCode::invalid_value, "the node is of another type");
    if (!node.graphs.empty())
      return fail(ErrorCode::not_supported,
                  "the graphs in a node cannot be exchanged; change the nodes of these graphs, or make another node");
    if (is_memory_node(node)) return fail(ErrorCode::not_supported, "an allocation or free node cannot be changed");
    if (Result good = check_node(params); good.failed()) return good;
    node.work = make_work(params);
    return ErrorCode::success;
  });
}

Result HostBackend::graph_conditional_handle_create(ConditionalHandle* made, GraphHandle handle,
                                                    unsigned default_value) {
  return enter_on(Call::graph_conditional_handle_create, handle, "graph", [&](HostGraph& graph) {
    graph.conditions.push_back(std::make_shared<HostCondition>(default_value));
    *made = graph.conditions.back()->handle;
    return ErrorCode::success;
  });
}

}  // namespace reprise::backend::host
