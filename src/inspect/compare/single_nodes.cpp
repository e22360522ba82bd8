// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/single_nodes.h"

#include <variant>

#include "backend/check.h"
#include "inspect/compare/condition_copy.h"
#include "reprise/error.h"
#include "support/room.h"
#include "text/format.h"

namespace reprise::inspect {

using backend::Checked;
using backend::NodeType;

namespace {

[[noreturn]] void refuse(const std::string& node, const char* why) {
  throw UsageError(
      text::format("compare: {} {}. Nothing was executed. diff() compares the parameters of such graphs.", node, why));
}

/// True if a node with these parameters does in another graph what it does in its own.
bool can_be_added(const backend::NodeParams& params) {
  const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params);
  if (kernel != nullptr) return kernel->params != nullptr || kernel->extra != nullptr;
  return !backend::is_pitched(params);
}

}  // namespace

SingleNodes::~SingleNodes() {
  const backend::WarnOnError runtime(backend_);
  for (GraphExecHandle const exec : execs_) runtime.graph_exec_destroy(exec);
  for (GraphHandle const graph : graphs_) runtime.graph_destroy(graph);
}

GraphExecHandle SingleNodes::make(const ScannedNode& node, const std::function<std::string()>& describe) {
  GraphHandle const graph = graph_of(node, describe);
  support::make_room(execs_, 1);
  GraphExecHandle exec = nullptr;
  Checked(backend_).graph_instantiate(&exec, graph, InstantiateFlags::none, nullptr);
  execs_.push_back(exec);
  return exec;
}

GraphHandle SingleNodes::made_graph() {
  support::make_room(graphs_, 1);
  GraphHandle graph = nullptr;
  Checked(backend_).graph_create(&graph);
  graphs_.push_back(graph);
  return graph;
}

GraphHandle SingleNodes::graph_of(const ScannedNode& node, const std::function<std::string()>& describe) {
  if (node.type == NodeType::memory_allocate || node.type == NodeType::memory_free)
    refuse(describe(),
           "allocates or frees memory in the order of a stream, which exists only while the whole graph runs, so that "
           "nodes cannot be executed one by one: allocate from the CachingAllocator, or before the capture");
  const Checked runtime(backend_);
  backend::NodeParams params;
  if (!runtime.allowing(ErrorCode::not_supported).graph_node_params(node.handle, &params)) {
    if (node.type == NodeType::conditional)
      refuse(describe(), "was not made by this library, so that its condition cannot be set without the whole graph");
    return cloned(node, describe);
  }
  if (!can_be_added(params)) return cloned(node, describe);
  GraphHandle const graph = made_graph();
  if (node.type == NodeType::conditional) {
    ConditionCopy(backend_).run(node.graph, node.handle, graph);
  } else {
    GraphNodeHandle added = nullptr;
    runtime.graph_add_node(&added, graph, {}, params);
  }
  return graph;
}

GraphHandle SingleNodes::cloned(const ScannedNode& node, const std::function<std::string()>& describe) {
  const Checked runtime(backend_);
  support::make_room(graphs_, 1);
  GraphHandle clone = nullptr;
  if (!runtime.allowing(ErrorCode::not_supported).graph_clone(&clone, node.graph))
    refuse(describe(),
           "has parameters that the driver does not provide, and CUDA does not clone its graph, which has conditional, "
           "allocation or free nodes");
  graphs_.push_back(clone);
  GraphNodeHandle kept = nullptr;
  runtime.graph_node_find_in_clone(&kept, node.handle, clone);
  for (GraphNodeHandle const each : runtime.nodes_of(clone))
    if (each != kept) runtime.graph_destroy_node(each);
  return clone;
}

}  // namespace reprise::inspect
