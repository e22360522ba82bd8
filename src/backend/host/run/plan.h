// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "backend/host/capture/host_graph.h"
#include "backend/host/run/condition.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/node_times.h"
#include "backend/host/run/plan_shape.h"
#include "backend/types.h"

namespace reprise::backend::host {

class Plan;

/// A launch of an executable graph: one operation of a stream, complete when all nodes are.
class LaunchOperation final : public Operation {
 public:
  /// `times`: receives the times of the nodes; may be null.
  LaunchOperation(Executor& executor, StreamHandle stream, std::shared_ptr<Plan> plan,
                  std::vector<OperationRef> event_points, std::shared_ptr<NodeTimes> times)
      : executor_(executor),
        stream_(stream),
        plan_(std::move(plan)),
        event_points_(std::move(event_points)),
        times_(std::move(times)) {}

  Task* run() override;
  /// The record point that an event node sets or waits for in this launch; determined at the launch.
  const OperationRef& event_point(std::size_t slot) const { return event_points_[slot]; }
  NodeTimes* times() const noexcept { return times_.get(); }
  Executor& executor() const noexcept { return executor_; }
  StreamHandle stream() const noexcept { return stream_; }
  /// Called when the last node is done.
  Task* finish();

 private:
  Executor& executor_;
  const StreamHandle stream_;
  std::shared_ptr<Plan> plan_;
  std::vector<OperationRef> event_points_;
  std::shared_ptr<NodeTimes> times_;
};

/// The plan of an executable graph: its nodes with their work and edges, and those of the graphs in its nodes, which
/// are run when their node is reached. Launches of one executable never overlap, so the counters of a launch are in the
/// plan: a launch allocates nothing for its nodes, and neither does an iteration of a `while` node.
///
/// Work is changed only while no launch of this plan is underway; otherwise the executable copies the plan.
class Plan {
 public:
  explicit Plan(const HostGraph& graph);
  Plan(const Plan& other);
  Plan& operator=(const Plan&) = delete;

  const PlanShape& shape() const noexcept { return *shape_; }
  std::size_t size() const noexcept { return nodes_.size(); }
  const Work& work(std::size_t node) const { return nodes_[node]->work; }
  const HostDevice* device(std::size_t node) const { return nodes_[node]->device; }  ///< that runs it
  void set_work(std::size_t node, Work work) { nodes_[node]->work = std::move(work); }
  bool enabled(std::size_t node) const { return nodes_[node]->enabled; }
  void set_enabled(std::size_t node, bool enabled) { nodes_[node]->enabled = enabled; }
  /// The event nodes, in order of their slots.
  const std::vector<std::size_t>& event_nodes() const noexcept { return event_nodes_; }
  /// The allocation and free nodes.
  const std::vector<std::size_t>& memory_nodes() const noexcept { return memory_nodes_; }
  std::vector<UserObjectRef>& user_objects() noexcept { return user_objects_; }
  const std::vector<UserObjectRef>& user_objects() const noexcept { return user_objects_; }

  /// Begins a launch whose dependencies are complete. Returns a node to run.
  Task* start(LaunchOperation& launch);

  /// The last submitted launch; null if none.
  OperationRef last_launch;

 private:
  struct Node;

  /// One graph of the plan, while it runs.
  struct Level {
    Node* owner = nullptr;  // null: the outermost graph
    std::vector<Node*> roots;
    std::size_t size = 0;
    std::atomic<std::size_t> remaining{0};  // nodes that are not done

    /// Starts its nodes, of which there must be some. Returns one to run.
    Task* start(Executor& executor);
  };

  struct Node final : Task {
    Plan* plan = nullptr;
    Level* level = nullptr;
    HostDevice* device = nullptr;
    Work work;
    bool enabled = true;
    bool resumed = false;  // an event wait whose event is complete; a node with graphs that has begun
    std::size_t place = 0;
    std::size_t event_slot = 0;
    int dependencies = 0;
    std::atomic<int> pending{0};  // of this run of its level
    std::vector<Node*> successors;
    std::vector<Level*> inner;  // child, or bodies
    HostCondition* condition = nullptr;

    Task* run() override;
    bool do_event_work();  // false: the node runs again when its event is complete
    Task* run_inner();     // a child, or the body that the condition names
    Level* chosen() const;
    Task* inner_done();
    Task* finish();
  };

  void make_nodes();  // of shape_, without work

  std::shared_ptr<const PlanShape> shape_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Level>> levels_;
  std::vector<std::size_t> event_nodes_;
  std::vector<std::size_t> memory_nodes_;
  std::vector<UserObjectRef> user_objects_;
  std::vector<std::shared_ptr<HostCondition>> conditions_;
  LaunchOperation* launch_ = nullptr;  // underway
  NodeTimes* times_ = nullptr;         // of this launch; may be null
};

}  // namespace reprise::backend::host
