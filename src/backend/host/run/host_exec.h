// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/host/capture/host_graph.h"
#include "backend/host/races/race_shadow.h"
#include "backend/host/run/executor.h"
#include "backend/host/run/node_times.h"
#include "backend/types.h"

namespace reprise::backend::host {

struct HostEvent;
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

/// The plan of an executable graph: its nodes with their work and edges. Launches of one executable never overlap, so
/// the counters of a launch are in the plan: a launch allocates nothing for its nodes.
///
/// Work is changed only while no launch of this plan is underway; otherwise the executable copies the plan.
class Plan {
 public:
  explicit Plan(const HostGraph& graph);
  Plan(const Plan& other);
  Plan& operator=(const Plan&) = delete;

  std::size_t size() const noexcept { return nodes_.size(); }
  const Work& work(std::size_t node) const { return nodes_[node]->work; }
  void set_work(std::size_t node, Work work) { nodes_[node]->work = std::move(work); }
  bool enabled(std::size_t node) const { return nodes_[node]->enabled; }
  void set_enabled(std::size_t node, bool enabled) { nodes_[node]->enabled = enabled; }
  /// The event nodes, in order of their slots.
  const std::vector<std::size_t>& event_nodes() const noexcept { return event_nodes_; }
  std::vector<UserObjectRef>& user_objects() noexcept { return user_objects_; }

  /// Begins a launch whose dependencies are complete. Returns a node to run.
  Task* start(LaunchOperation& launch);

  /// The last submitted launch; null if none.
  OperationRef last_launch;

 private:
  struct Node final : Task {
    Plan* plan = nullptr;
    HostDevice* device = nullptr;
    Work work;
    bool enabled = true;
    bool resumed = false;  // an event wait whose event is complete
    std::size_t place = 0;
    std::size_t event_slot = 0;
    int dependencies = 0;
    std::atomic<int> pending{0};  // of this launch
    std::vector<Node*> successors;

    Task* run() override;
    bool do_event_work();  // false: the node runs again when its event is complete
    Task* pass_on();
  };

  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node*> roots_;
  std::vector<std::size_t> event_nodes_;
  std::vector<UserObjectRef> user_objects_;
  std::atomic<std::size_t> remaining_{0};  // nodes of this launch that are not done
  LaunchOperation* launch_ = nullptr;      // underway
  NodeTimes* times_ = nullptr;             // of this launch; may be null
};

/// An executable graph. Guarded by the runtime's mutex.
struct HostExec {
  HostDevice* device;
  std::uint64_t id;
  InstantiateFlags flags;
  std::shared_ptr<Plan> plan;
  std::unordered_map<std::uint64_t, std::size_t> index_of_node;  ///< template node's id -> place in the plan
  std::vector<NodeType> types;
  std::vector<std::vector<std::size_t>> dependencies;  ///< the edges, for comparison in an update
  OperationRef last_launch;
  std::optional<std::vector<Access>> accesses;  ///< for the race check; reset when the plan changes
  std::weak_ptr<NodeTimes> times;               ///< for its launches, while nodes are timed

  HostExec(HostDevice& exec_device, const HostGraph& graph, InstantiateFlags exec_flags);
  /// The plan, for changes: a copy of it if an incomplete launch uses it.
  Plan& changeable_plan();
  /// Places in the plan, in topological order.
  std::vector<std::size_t> topological_order() const;
};

}  // namespace reprise::backend::host
