// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/host_exec.h"

#include <algorithm>

#include "backend/host/host_device.h"
#include "backend/host/run/running.h"

namespace reprise::backend::host {
namespace {

bool is_event_work(const Work& work) {
  return std::holds_alternative<EventRecordNodeParams>(work) || std::holds_alternative<EventWaitNodeParams>(work);
}

}  // namespace

Task* LaunchOperation::run() {
  return plan_->start(*this);
}

Task* LaunchOperation::finish() {
  // The stream keeps this operation while it is the last one; the plan must be released now.
  event_points_.clear();
  times_.reset();
  plan_.reset();
  return executor_.complete(*this);
}

Plan::Plan(const HostGraph& graph) : user_objects_(graph.user_objects) {
  std::unordered_map<const HostNode*, Node*> made;
  nodes_.reserve(graph.nodes.size());
  for (const auto& source : graph.nodes) {
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.plan = this;
    node.place = nodes_.size() - 1;
    node.device = source->device;
    node.work = source->work;
    node.dependencies = static_cast<int>(source->dependencies.size());
    made.emplace(source.get(), &node);
    if (node.dependencies == 0) roots_.push_back(&node);
    if (is_event_work(node.work)) {
      node.event_slot = event_nodes_.size();
      event_nodes_.push_back(nodes_.size() - 1);
    }
  }
  for (const auto& source : graph.nodes)
    for (const HostNode* dependent : source->dependents)
      made.at(source.get())->successors.push_back(made.at(dependent));
  for (const auto& node : nodes_) node->pending.store(node->dependencies, std::memory_order_relaxed);
}

Plan::Plan(const Plan& other) : event_nodes_(other.event_nodes_), user_objects_(other.user_objects_) {
  std::unordered_map<const Node*, Node*> made;
  nodes_.reserve(other.nodes_.size());
  for (const auto& source : other.nodes_) {
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.plan = this;
    node.place = nodes_.size() - 1;
    node.device = source->device;
    node.work = source->work;
    node.enabled = source->enabled;
    node.event_slot = source->event_slot;
    node.dependencies = source->dependencies;
    node.pending.store(node.dependencies, std::memory_order_relaxed);
    made.emplace(source.get(), &node);
    if (node.dependencies == 0) roots_.push_back(&node);
  }
  for (const auto& source : other.nodes_)
    for (const Node* successor : source->successors) made.at(source.get())->successors.push_back(made.at(successor));
}

Task* Plan::start(LaunchOperation& launch) {
  if (nodes_.empty()) return launch.finish();
  launch_ = &launch;
  times_ = launch.times();
  if (times_ != nullptr) [[unlikely]]
    times_->launched();
  remaining_.store(nodes_.size(), std::memory_order_relaxed);
  // Posting publishes the counters; the roots of this launch run after that.
  for (std::size_t i = 1; i < roots_.size(); ++i) launch.executor().post(*roots_[i]);
  return roots_.front();
}

Task* Plan::Node::run() {
  NodeTimes* const times = enabled ? plan->times_ : nullptr;
  if (times != nullptr && !resumed) [[unlikely]]
    times->begins(place);
  if (is_event_work(work)) {
    if (!do_event_work()) return nullptr;
  } else if (enabled) {
    execute(*device, work, {plan->launch_->stream(), place});
  }
  if (times != nullptr) [[unlikely]]
    times->ends(place);
  return pass_on();
}

bool Plan::Node::do_event_work() {
  const OperationRef& point = plan->launch_->event_point(event_slot);
  Executor& executor = plan->launch_->executor();
  if (std::holds_alternative<EventRecordNodeParams>(work)) {
    if (Task* next = executor.complete(*point.get())) executor.post(*next);
    return true;
  }
  if (!resumed && point) {
    resumed = true;  // before run_after: another worker may run this node at once
    if (executor.run_after(point, *this)) return false;
  }
  resumed = false;
  return true;
}

Task* Plan::Node::pass_on() {
  pending.store(dependencies, std::memory_order_relaxed);  // for the next launch
  Task* next = nullptr;
  for (Node* successor : successors) {
    if (successor->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    if (next == nullptr)
      next = successor;
    else
      plan->launch_->executor().post(*successor);
  }
  // The last access: once the counter is zero, the launch may end and the plan be destroyed.
  LaunchOperation* launch = plan->launch_;
  if (plan->remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) return launch->finish();
  return next;
}

HostExec::HostExec(HostDevice& exec_device, const HostGraph& graph, InstantiateFlags exec_flags)
    : device(&exec_device), id(next_id()), flags(exec_flags), plan(std::make_shared<Plan>(graph)) {
  for (const auto& node : graph.nodes) {
    const std::size_t index = types.size();
    index_of_node.emplace(node->id, index);
    types.push_back(node->type);
  }
  for (const auto& node : graph.nodes) {
    std::vector<std::size_t>& indices = dependencies.emplace_back();
    for (const HostNode* dependency : node->dependencies) indices.push_back(index_of_node.at(dependency->id));
    std::sort(indices.begin(), indices.end());
  }
}

Plan& HostExec::changeable_plan() {
  accesses.reset();
  if (!plan->last_launch.done()) plan = std::make_shared<Plan>(*plan);
  return *plan;
}

std::vector<std::size_t> HostExec::topological_order() const {
  std::vector<std::vector<std::size_t>> dependents(dependencies.size());
  std::vector<std::size_t> waiting(dependencies.size());
  std::vector<std::size_t> order;
  for (std::size_t node = 0; node < dependencies.size(); ++node) {
    waiting[node] = dependencies[node].size();
    if (waiting[node] == 0) order.push_back(node);
    for (const std::size_t dependency : dependencies[node]) dependents[dependency].push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const std::size_t dependent : dependents[order[i]])
      if (--waiting[dependent] == 0) order.push_back(dependent);
  return order;
}

}  // namespace reprise::backend::host
