// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "backend/check.h"
#include "graph/cuda_graph_impl.h"
#include "graph/nodes/template_pairs.h"
#include "text/format.h"

// A CUDAGraph that takes over another capture: CUDAGraph::update() and recapture().

namespace reprise {

using backend::Call;
using graphs::CaptureListener;
using graphs::UpdateRefusal;

namespace {

/// The listeners of one graph that are of the kinds that these ones of another graph are. Others, such as a timer, are
/// no listeners of captures.
std::vector<CaptureListener*> of_same_kinds(const std::vector<CaptureListener*>& theirs,
                                            std::span<CaptureListener* const> their_order,
                                            std::span<CaptureListener* const> order) {
  std::vector<CaptureListener*> found;
  for (const CaptureListener* const listener : theirs) {
    const auto place = std::ranges::find(their_order, listener);
    if (place != their_order.end()) found.push_back(order[static_cast<std::size_t>(place - their_order.begin())]);
  }
  return found;
}

const char* reason_of(UpdateResult result) {
  switch (result) {
    case UpdateResult::topology_changed:
      return "CUDA finds other nodes or dependencies";
    case UpdateResult::node_type_changed:
      return "CUDA finds a node of another type";
    case UpdateResult::function_changed:
      return "this driver does not change the kernel of a node";
    case UpdateResult::parameters_changed:
      return "a parameter differs that CUDA does not change in an executable: copies, sets and events stay on their "
             "device, and some copies in their kind of memory (docs/changing-graphs.md, What CUDA changes)";
    case UpdateResult::not_supported:
      return "CUDA does not update a node of this kind, or such a change of it";
    case UpdateResult::unsupported_function_change:
      return "the kernel is another one, which CUDA does not put in the place of this one: one of both launches "
             "kernels itself, or belongs to another context";
    case UpdateResult::attributes_changed:
      return "an attribute of the kernel differs, such as its cluster or whether it is cooperative, which CUDA does "
             "not change in an executable";
    default:
      return "CUDA gives no reason";
  }
}

/// The node of the other template that a node is paired with; null for null.
GraphNodeHandle other_node(const std::unordered_map<GraphNodeHandle, GraphNodeHandle>& own_nodes, GraphNodeHandle own) {
  for (const auto& [theirs, ours] : own_nodes)
    if (ours == own) return theirs;
  return nullptr;
}

/// What CUDA's refusal of an update leaves the change of the template with.
struct ExecRefused {
  backend::UpdateInfo info;
};

}  // namespace

std::optional<UpdateRefusal> CUDAGraph::Impl::update_from(Impl& other) {
  const std::span<CaptureListener*const> mine = listeners.in_order(), theirs = other.listeners.in_order();
  if (mine.size() != theirs.size())
    return UpdateRefusal{UpdateResult::error, nullptr,
                         "a framework that takes part in captures was installed between the two captures"};
  graphs::TemplatePairs pairs(backend(), changes, other.changes, exec != nullptr);
  if (auto refusal = pairs.run(template_graph, other.template_graph)) return refusal;

  std::vector<graphs::NodeChange> values = pairs.take_changes();
  graphs::Adoption adoption{exec, pairs.take_own_nodes(), other.resources.share(), &values};
  std::shared_ptr<graphs::SharedTemplate> source = other.values_of;
  if (source == nullptr) {
    if (other.shared_template == nullptr)
      other.shared_template = std::make_shared<graphs::SharedTemplate>(*other.device, other.template_graph);
    source = other.shared_template;
  }
  if (source == shared_template) source = nullptr;  // the values come back
  auto held_source = std::make_unique<memory::ReleaseQueue::Resources>();
  if (source != nullptr) held_source->push_back(source);
  std::vector<std::function<void()>> adopted;
  for (std::size_t i = 0; i < mine.size(); ++i) adopted.push_back(mine[i]->adopt(*theirs[i], adoption));
  std::vector<CaptureListener*> next_in_replays = of_same_kinds(other.in_replays, theirs, mine);
  if (timer != nullptr) next_in_replays.insert(next_in_replays.begin(), timer);
  next_in_replays.reserve(next_in_replays.size() + 1);
  std::vector<CaptureListener*> next_of_executables = of_same_kinds(other.of_executables, theirs, mine);
  std::optional<CaptureReport> report = other.last_report;
  graphs::Parameters their_parameters = other.parameters.adopted(adoption.nodes);

  try {
    const auto update = [&] {
      if (exec == nullptr) return;
      backend::UpdateInfo info;
      const backend::Result result = backend().graph_exec_update(exec, template_graph, &info);
      if (result == ErrorCode::graph_exec_update_failure) throw ExecRefused{info};
      require_success(Call::graph_exec_update, result);
    };
    changes.apply(
        backend(), nullptr, values, [this](GraphNodeHandle node) { return node_text(node); },
        [&] { resources.exchange(backend(), template_graph, std::move(adoption.resources), update); });
  } catch (const ExecRefused& refused) {
    return UpdateRefusal{refused.info.result, other_node(adoption.nodes, refused.info.node),
                         reason_of(refused.info.result)};
  }
  resources.hold_source(std::move(held_source));
  values_of = std::move(source);
  for (const auto& commit : adopted)
    if (commit) commit();
  in_replays = std::move(next_in_replays);
  of_executables = std::move(next_of_executables);
  replays_notify = takes_part_in_replays();
  parameters = std::move(their_parameters);
  pool = other.pool;
  last_report = std::move(report);
  return std::nullopt;
}

void CUDAGraph::Impl::exchange_captured(Impl& other) noexcept {
  for (Impl* const each : {this, &other}) {
    if (each->timer == nullptr) continue;
    std::erase(each->in_replays, each->timer);
    std::exchange(each->timer, nullptr)->reset();
  }
  std::swap(keep, other.keep);
  may_be_edited = other.may_be_edited.exchange(may_be_edited);
  state = other.state.exchange(state);
  in_use_elsewhere = other.in_use_elsewhere.exchange(in_use_elsewhere);
  std::swap(exec, other.exec);
  std::swap(device, other.device);
  std::swap(resources, other.resources);
  listeners.swap(other.listeners);
  of_executables.swap(other.of_executables);
  in_replays.swap(other.in_replays);
  std::swap(options, other.options);
  std::swap(pool, other.pool);
  std::swap(template_graph, other.template_graph);
  shared_template.swap(other.shared_template);
  values_of.swap(other.values_of);
  std::swap(counted, other.counted);
  changes.swap(other.changes);
  std::swap(parameters, other.parameters);
  node_link.swap(other.node_link);
  if (node_link != nullptr) node_link->graph = this;
  if (other.node_link != nullptr) other.node_link->graph = &other;
  std::swap(may_discard, other.may_discard);
  last_report.swap(other.last_report);
  replays_notify = takes_part_in_replays();
  other.replays_notify = other.takes_part_in_replays();
}

}  // namespace reprise
