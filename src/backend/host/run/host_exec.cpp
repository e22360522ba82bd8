// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/host_exec.h"

namespace reprise::backend::host {

HostExec::HostExec(HostDevice& exec_device, const HostGraph& graph, InstantiateFlags exec_flags)
    : device(&exec_device), id(next_id()), flags(exec_flags), plan(std::make_shared<Plan>(graph)) {
  for (const PlanShape::Node& node : plan->shape().nodes) index_of_node.emplace(node.id, index_of_node.size());
}

Plan& HostExec::changeable_plan() {
  accesses.reset();
  if (!plan->last_launch.done()) plan = std::make_shared<Plan>(*plan);
  return *plan;
}

}  // namespace reprise::backend::host
