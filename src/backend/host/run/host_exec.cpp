// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/host_exec.h"

namespace reprise::backend::host {

HostExec::HostExec(const HostGraph& graph, InstantiateFlags exec_flags)
    : id(next_id()), flags(exec_flags), plan(std::make_shared<Plan>(graph)) {
  for (const PlanShape::Node& node : plan->shape().nodes) index_of_node.emplace(node.id, index_of_node.size());
}

std::optional<std::size_t> HostExec::place_of(const HostNode* node) const {
  const auto found = node == nullptr ? index_of_node.end() : index_of_node.find(node->id);
  return found == index_of_node.end() ? std::nullopt : std::optional(found->second);
}

Plan& HostExec::changeable_plan() {
  accesses.reset();
  if (!plan->last_launch.done()) plan = std::make_shared<Plan>(*plan);
  return *plan;
}

}  // namespace reprise::backend::host
