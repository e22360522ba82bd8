// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/condition_copy.h"

#include <utility>
#include <variant>
#include <vector>

#include "backend/check.h"
#include "backend/condition_record.h"
#include "backend/own_records.h"
#include "support/room.h"

namespace reprise::inspect {

using backend::Checked;

namespace {

/// The condition that a kernel sets; null if it is no such kernel. Valid as the parameters.
const backend::ConditionalHandle* condition_set_by(const backend::Backend& backend, const backend::NodeParams& params) {
  const auto* const kernel = std::get_if<backend::KernelNodeParams>(&params);
  if (kernel == nullptr || backend::own_record(backend, kernel->function) != &backend::condition_record())
    return nullptr;
  return static_cast<const backend::ConditionalHandle*>(kernel->params[0]);
}

}  // namespace

ConditionCopy::~ConditionCopy() {
  const backend::WarnOnError runtime(backend_);
  for (GraphHandle const child : children_) runtime.graph_destroy(child);
}

void ConditionCopy::run(GraphHandle from, GraphNodeHandle node, GraphHandle to) {
  const Checked runtime(backend_);
  backend::NodeParams params;
  runtime.graph_node_params(node, &params);
  const backend::ConditionalHandle condition = std::get<backend::ConditionalNodeParams>(params).handle;
  std::vector<GraphNodeHandle> all, wanted;
  runtime.graph_nodes(from, &all);
  for (GraphNodeHandle const each : all)
    if (each == node || sets(each, condition)) wanted.push_back(each);
  copy(from, wanted, to);
}

bool ConditionCopy::sets(GraphNodeHandle node, backend::ConditionalHandle condition) const {
  const Checked runtime(backend_);
  const backend::NodeType type = runtime.type_of(node);
  if (type != backend::NodeType::kernel) return false;
  backend::NodeParams params;
  runtime.graph_node_params(node, &params);
  const backend::ConditionalHandle* const set = condition_set_by(backend_, params);
  return set != nullptr && *set == condition;
}

void ConditionCopy::copy(GraphHandle from, std::span<const GraphNodeHandle> nodes, GraphHandle to) {
  const Checked runtime(backend_);
  // Kernels that set a condition may come before its node.
  for (GraphNodeHandle const node : nodes) {
    backend::NodeParams params;
    runtime.graph_node_params(node, &params);
    const auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&params);
    if (conditional != nullptr) runtime.graph_conditional_handle_create(&conditions_[conditional->handle], to, 0);
  }
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> copies;
  for (GraphNodeHandle const node : nodes) copies.emplace(node, add(node, to));
  std::vector<backend::Edge> edges, of_copies;
  runtime.graph_edges(from, &edges);
  for (const backend::Edge& edge : edges) {
    const auto begin = copies.find(edge.from), end = copies.find(edge.to);
    if (begin != copies.end() && end != copies.end()) of_copies.push_back({begin->second, end->second, edge.data});
  }
  if (!of_copies.empty()) runtime.graph_add_dependencies(to, of_copies);
}

GraphNodeHandle ConditionCopy::add(GraphNodeHandle node, GraphHandle to) {
  const Checked runtime(backend_);
  backend::NodeParams params;
  runtime.graph_node_params(node, &params);
  GraphNodeHandle made = nullptr;
  std::vector<void*> arguments;
  if (const backend::ConditionalHandle* const set = condition_set_by(backend_, params)) {
    auto& kernel = std::get<backend::KernelNodeParams>(params);
    arguments.assign(kernel.params, kernel.params + backend::condition_record().params.size());
    arguments[0] = &conditions_.at(*set);
    kernel.params = arguments.data();
  }
  if (auto* const child = std::get_if<backend::ChildGraphNodeParams>(&params))
    child->graph = copy_of_child(child->graph);
  auto* const conditional = std::get_if<backend::ConditionalNodeParams>(&params);
  if (conditional == nullptr) {
    runtime.graph_add_node(&made, to, {}, params);
    return made;
  }
  const std::vector<GraphHandle> bodies = std::exchange(conditional->bodies, {});
  conditional->handle = conditions_.at(conditional->handle);
  runtime.graph_add_node(&made, to, {}, params);
  for (std::size_t i = 0; i < bodies.size(); ++i)
    copy(bodies[i], runtime.nodes_of(bodies[i]), std::get<backend::ConditionalNodeParams>(params).bodies.at(i));
  return made;
}

// The driver (580) takes no graph that lies in a body as the child of another node.
GraphHandle ConditionCopy::copy_of_child(GraphHandle child) {
  const Checked runtime(backend_);
  support::make_room(children_, 1);
  GraphHandle made = nullptr;
  runtime.graph_create(&made);
  children_.push_back(made);
  copy(child, runtime.nodes_of(child), made);
  return made;
}

}  // namespace reprise::inspect
