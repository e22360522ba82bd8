// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "backend/host/host_backend.h"

// The times of the nodes in an executable's launches.

namespace reprise::backend::host {
namespace {

class HostNodeWatch final : public NodeWatch {
 public:
  HostNodeWatch(HostRuntime& runtime, GraphHandle template_graph, GraphExecHandle exec,
                std::shared_ptr<NodeTimes> times)
      : runtime_(runtime), template_graph_(template_graph), exec_(exec), times_(std::move(times)) {}

  std::vector<NodeTime> take(std::vector<std::string>*) override {
    std::vector<NodeTime> taken;
    const std::lock_guard lock(runtime_.mutex);
    const HostExec* const exec = runtime_.find(exec_);
    if (exec == nullptr) return taken;
    std::vector<GraphNodeHandle> nodes(exec->plan->size());
    if (const HostGraph* const graph = runtime_.find(template_graph_); graph != nullptr)
      find_node(*graph, [&](HostNode& node) {
        if (const auto place = exec->place_of(&node)) nodes[*place] = handle_of(node);
        return false;  // go on to the next one
      });
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (times_->runs(i) == 0) continue;
      const auto* const kernel = std::get_if<KernelWork>(&exec->plan->work(i));
      taken.push_back({nodes[i],
                       kernel != nullptr ? kernel->kernel().name : node_type_name(exec->plan->shape().nodes[i].type),
                       times_->start(i), times_->end(i), times_->runs(i), times_->sum(i)});
    }
    return taken;
  }

 private:
  HostRuntime& runtime_;
  const GraphHandle template_graph_;
  const GraphExecHandle exec_;
  const std::shared_ptr<NodeTimes> times_;
};

}  // namespace

std::shared_ptr<NodeWatch> HostBackend::watch_nodes(GraphHandle template_graph, GraphExecHandle handle,
                                                    std::string* why) {
  const std::lock_guard lock(runtime_.mutex);
  HostExec* const exec = runtime_.find(handle);
  if (exec == nullptr) {
    *why = "There is no such executable graph: it was never made, or was destroyed.";
    return nullptr;
  }
  std::shared_ptr<NodeTimes> times = exec->times.lock();
  if (times == nullptr) exec->times = times = std::make_shared<NodeTimes>(exec->plan->size());
  return std::make_shared<HostNodeWatch>(runtime_, template_graph, handle, std::move(times));
}

std::unordered_map<GraphNodeHandle, std::uint64_t> HostBackend::profiler_ids(GraphHandle, GraphExecHandle,
                                                                             std::string* why) {
  *why = "A simulated device has no profiler that would name its nodes.";
  return {};
}

}  // namespace reprise::backend::host
