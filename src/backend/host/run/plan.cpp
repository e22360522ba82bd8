// SPDX-License-Identifier: Apache-2.0
#include "backend/host/run/plan.h"

#include "backend/host/host_device.h"
#include "backend/host/run/running.h"

namespace reprise::backend::host {
namespace {

bool is_event_work(const Work& work) {
  return std::holds_alternative<EventRecordNodeParams>(work) || std::holds_alternative<EventWaitNodeParams>(work);
}

bool is_memory_work(const Work& work) {
  return std::holds_alternative<GraphAllocation>(work) || std::holds_alternative<GraphFree>(work);
}

// The user objects and conditions of a graph and of those in its nodes.
void collect(const HostGraph& graph, std::vector<UserObjectRef>* user_objects,
             std::vector<std::shared_ptr<HostCondition>>* conditions) {
  user_objects->insert(user_objects->end(), graph.user_objects.begin(), graph.user_objects.end());
  conditions->insert(conditions->end(), graph.conditions.begin(), graph.conditions.end());
  for (const auto& node : graph.nodes)
    for (const auto& inner : node->graphs) collect(*inner, user_objects, conditions);
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

Plan::Plan(const HostGraph& graph) {
  std::vector<HostNode*> sources;
  shape_ = std::make_shared<const PlanShape>(graph, &sources);
  make_nodes();
  collect(graph, &user_objects_, &conditions_);
  std::unordered_map<ConditionalHandle, HostCondition*> by_handle;
  for (const auto& condition : conditions_) by_handle.emplace(condition->handle, condition.get());
  for (std::size_t place = 0; place < nodes_.size(); ++place) {
    Node& node = *nodes_[place];
    node.device = sources[place]->device;
    node.work = sources[place]->work;
    if (const auto* const conditional = std::get_if<ConditionalNodeParams>(&node.work))
      node.condition = by_handle.at(conditional->handle);
    if (is_memory_work(node.work)) memory_nodes_.push_back(place);
    if (is_event_work(node.work)) {
      node.event_slot = event_nodes_.size();
      event_nodes_.push_back(place);
    }
  }
}

Plan::Plan(const Plan& other)
    : shape_(other.shape_),
      event_nodes_(other.event_nodes_),
      memory_nodes_(other.memory_nodes_),
      user_objects_(other.user_objects_),
      conditions_(other.conditions_) {
  make_nodes();
  for (std::size_t place = 0; place < nodes_.size(); ++place) {
    Node& node = *nodes_[place];
    const Node& source = *other.nodes_[place];
    node.device = source.device;
    node.work = source.work;
    node.enabled = source.enabled;
    node.event_slot = source.event_slot;
    node.condition = source.condition;
  }
}

void Plan::make_nodes() {
  for (const PlanShape::Level& shape : shape_->levels) {
    levels_.push_back(std::make_unique<Level>());
    levels_.back()->size = shape.count;
  }
  nodes_.reserve(shape_->nodes.size());
  for (const PlanShape::Node& shape : shape_->nodes) {
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.plan = this;
    node.place = nodes_.size() - 1;
    node.level = levels_[shape.level].get();
    node.dependencies = static_cast<int>(shape.dependencies.size());
    node.pending.store(node.dependencies, std::memory_order_relaxed);
    if (node.dependencies == 0) node.level->roots.push_back(&node);
    for (const std::size_t level : shape.inner) {
      node.inner.push_back(levels_[level].get());
      levels_[level]->owner = &node;
    }
  }
  for (const auto& node : nodes_)
    for (const PlanShape::Edge& edge : shape_->nodes[node->place].dependencies)
      nodes_[edge.from]->successors.push_back(node.get());
}

Task* Plan::start(LaunchOperation& launch) {
  Level& outermost = *levels_.front();
  if (outermost.size == 0) return launch.finish();
  launch_ = &launch;
  times_ = launch.times();
  if (times_ != nullptr) [[unlikely]]
    times_->launched();
  for (const auto& condition : conditions_) condition->value.store(condition->default_value, std::memory_order_relaxed);
  return outermost.start(launch.executor());
}

Task* Plan::Level::start(Executor& executor) {
  remaining.store(size, std::memory_order_relaxed);
  // Posting publishes the counters; the roots of this run are run after that.
  for (std::size_t i = 1; i < roots.size(); ++i) executor.post(*roots[i]);
  return roots.front();
}

Task* Plan::Node::run() {
  NodeTimes* const times = enabled ? plan->times_ : nullptr;
  if (times != nullptr && !resumed) [[unlikely]]
    times->begins(place);
  if (!inner.empty()) return run_inner();
  if (is_event_work(work)) {
    if (!do_event_work()) return nullptr;
  } else if (enabled) {
    execute(*device, work, {plan->launch_->stream(), plan->shape_->nodes[place].number.c_str()});
  }
  return finish();
}

Task* Plan::Node::finish() {
  NodeTimes* const times = enabled ? plan->times_ : nullptr;
  if (times != nullptr) [[unlikely]]
    times->ends(place);
  pending.store(dependencies, std::memory_order_relaxed);  // for the next run of its level
  Task* next = nullptr;
  for (Node* successor : successors) {
    if (successor->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    if (next == nullptr)
      next = successor;
    else
      plan->launch_->executor().post(*successor);
  }
  // The last access: once the counter is zero, the launch may end and the plan be destroyed.
  LaunchOperation* const launch = plan->launch_;
  Level& mine = *level;
  if (mine.remaining.fetch_sub(1, std::memory_order_acq_rel) == 1)
    return mine.owner != nullptr ? mine.owner->inner_done() : launch->finish();
  return next;
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

Plan::Level* Plan::Node::chosen() const {
  if (condition == nullptr) return inner.front();
  const unsigned value = condition->value.load(std::memory_order_relaxed);
  switch (plan->shape_->nodes[place].condition) {
    case ConditionalType::while_:
      return value != 0 ? inner.front() : nullptr;
    case ConditionalType::if_:
      if (value != 0) return inner.front();
      return inner.size() > 1 ? inner[1] : nullptr;
    case ConditionalType::switch_:
      return value < inner.size() ? inner[value] : nullptr;
  }
  return nullptr;
}

// After an iteration of a loop the node runs again, as a task: nothing grows with the number of iterations.
Task* Plan::Node::run_inner() {
  resumed = true;
  Level* const next = chosen();
  if (next == nullptr) {
    resumed = false;
    return finish();
  }
  return next->size == 0 ? inner_done() : next->start(plan->launch_->executor());
}

Task* Plan::Node::inner_done() {
  if (plan->shape_->nodes[place].condition == ConditionalType::while_) return this;
  resumed = false;
  return finish();
}

}  // namespace reprise::backend::host
