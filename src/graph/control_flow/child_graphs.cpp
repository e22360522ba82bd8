// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/check.h"
#include "backend/objects/outside_work.h"
#include "captures/child_node.h"
#include "captures/edges.h"
#include "graph/capture/active_capture.h"
#include "graph/capture/kept_objects.h"
#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "graph/listeners/child_listener.h"
#include "graph/listeners/pool_listener.h"
#include "reprise/child_graph.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

namespace reprise {
namespace graphs {

using backend::Checked;
using backend::NodeType;

namespace {

constinit captures::Slot<CaptureChildren> children_of_capture;

/// Where CUDA refuses the type within a child graph, the reason; else null.
const char* refusal_of(NodeType type) {
  switch (type) {
    case NodeType::conditional:
      return "has a body that depends on a condition, and CUDA does not take conditional nodes in child graphs (801); "
             "call the control flow in the capture of the parent, or replay the graph by itself";
    case NodeType::memory_allocate:
    case NodeType::memory_free:
      return "allocates or frees memory in the order of a stream, and CUDA does not take such nodes in child graphs; "
             "allocate it before the capture, or from the CachingAllocator";
    default:
      return nullptr;
  }
}

// CUDA names none of them, and some only when the parent is instantiated.
void require_fit_nodes(const GraphAccess::Impl& child, const Checked& runtime, GraphHandle graph,
                       const std::string& text, const std::string& prefix, GraphNodeHandle top) {
  const std::vector<GraphNodeHandle> nodes = runtime.nodes_of(graph);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeType type = runtime.type_of(nodes[i]);
    const std::string number = prefix + std::to_string(i);
    if (const char* const why = refusal_of(type))
      throw UsageError(text::format(
          "{}: {} {}. The capture continues without the child.", text,
          child.listeners.node_text(child.backend(), nodes[i], top != nullptr ? top : nodes[i], number), why));
    if (graph == child.template_graph && !child.changes.enabled(nodes[i]))
      throw UsageError(text::format(
          "{}: node {} is disabled, which a copy of the graph would not keep: enable it first. The capture "
          "continues without the child.",
          text, number));
    if (type != NodeType::child_graph) continue;
    backend::NodeParams params;
    runtime.graph_node_params(nodes[i], &params);
    require_fit_nodes(child, runtime, std::get<backend::ChildGraphNodeParams>(params).graph, text, number + ".",
                      top != nullptr ? top : nodes[i]);
  }
}

void require_fit(const GraphAccess::Impl& child, const char* call, const StreamRef& stream) {
  const std::string text = call + of_graph(child.options.name);
  if (stream.device() != *child.device)
    throw UsageError(text::format("{}: the stream is of device {}, but the graph was captured on {}.", text,
                                  stream.device().str(), child.device->str()));
  child.require_template(call);
  require_fit_nodes(child, Checked(child.backend()), child.template_graph, text, "", nullptr);
}

/// An edge between nodes that are there already.
struct Connection {
  GraphHandle graph;
  GraphNodeHandle from, to;
};

// What is added next to the graph that was found comes after `before`, which may lie in another body, or around this
// one; `dependencies` and `edges` are those of the next node. `connections` are to be made when nothing was refused:
// they all lead to the node around the next one, so that none makes another one a cycle.
void order_after(const std::string& call, captures::PlacedNode before, const captures::Found& found,
                 std::vector<Connection>& connections, std::vector<GraphNodeHandle>& dependencies,
                 std::vector<backend::EdgeData>& edges) {
  if (before.node == nullptr) return;
  captures::PlacedNode next{nullptr, found.info.graph, found.body};
  captures::raise_to_common_graph(before, next);
  if (before.node == next.node) return;  // bodies of one node, of which one runs, or the same body
  if (next.node != nullptr) {
    const Checked runtime(found.capture->device().backend());
    if (captures::with_nodes_before(runtime.edges_of(next.graph), {before.node}).contains(next.node))
      throw UsageError(text::format(
          "{}: expected each copy of a graph after the one that was added before; the last one comes after the whole "
          "conditional node that this body belongs to, so no copy in the body can follow it. Add the last copy in the "
          "body too, or this one after the body. The capture continues without the child.",
          call));
    connections.push_back({next.graph, before.node, next.node});
  } else if (std::ranges::find(dependencies, before.node) == dependencies.end()) {
    dependencies.push_back(before.node);
    if (!edges.empty()) edges.emplace_back();
  }
}

}  // namespace

std::shared_ptr<CaptureChildren> CaptureChildren::of(captures::Capture& capture) {
  return capture.get_or_attach(children_of_capture);
}

std::shared_ptr<CaptureChildren> CaptureChildren::end(captures::Capture& capture) noexcept {
  return capture.detach(children_of_capture);
}

namespace {

// Adds a copy of `child`, whose launch mutex the caller holds, to the capture that the stream takes part in, and makes
// the stream depend on it. `found`: what the stream takes part in, a capture of this library.
void add_child(GraphAccess::Impl& child, const char* call, const StreamRef& stream, const captures::Found& found) {
  require_fit(child, call, stream);
  backend::Backend& backend = child.backend();
  const Checked runtime(backend);
  captures::Capture& capture = *found.capture;
  const auto children = CaptureChildren::of(capture);
  const auto kept = KeptObjects::of(capture);
  std::vector<GraphNodeHandle> dependencies(found.info.dependencies.begin(), found.info.dependencies.end());
  std::vector<backend::EdgeData> edges(found.info.edges.begin(), found.info.edges.end());
  std::vector<std::uint64_t> graph_ids = child.listeners.children().graph_ids();
  graph_ids.push_back(child.graph_id);
  if (children != nullptr && kept != nullptr) {
    // The copies use the same memory: like launches of one executable, they run one after another.
    std::vector<Connection> connections;
    for (const std::uint64_t id : graph_ids)
      order_after(call + of_graph(child.options.name), children->last_copy(id), found, connections, dependencies,
                  edges);
    for (const Connection& each : connections)
      children->connect(found.capture->device(), each.graph, each.from, each.to);
    auto resources = child.resources.share();
    if (child.values_of != nullptr) resources.push_back(child.values_of);  // share() leaves it out
    child.listeners.replace_by_copies(resources);
    for (const auto& resource : resources) kept->keep(resource);
    children->add_memory(child.listeners.pool().allocations());
    children->add_memory(child.listeners.children().memory());
    if (child.parameters.can_be_set() || child.listeners.children().have_parameters()) children->note_parameters();
  }
  capture.add_pools(child.listeners.children().pools());
  capture.add_pools({child.pool});
  // The runtime's copy of the template may hold what the graph attached to it.
  child.in_use_elsewhere = true;

  const ActiveCapture::Use active(capture);
  if (!active) throw UsageError(text::format("{}: the capture is over: call it before its end.", call));
  backend::NodeParams params = backend::ChildGraphNodeParams{child.template_graph};
  GraphNodeHandle node = nullptr;
  runtime.graph_add_node(&node, found.info.graph, {dependencies, edges}, params);
  active->bodies().begin_addition();  // the runtime removes no node while the capture is underway (401)
  runtime.graph_node_params(node, &params);
  GraphHandle const copy = std::get<backend::ChildGraphNodeParams>(params).graph;
  const captures::ChildNode as_child{capture, stream, found.info.graph,    found.body, dependencies,
                                     node,    copy,   child.template_graph};
  for (CaptureListener* const listener : child.listeners.in_order()) listener->added_as_child(as_child);
  runtime.stream_update_capture_dependencies(stream.native(), {&node, 1}, backend::UpdateDependencies::set);
  if (children != nullptr) children->added(graph_ids, {node, found.info.graph, found.body});
  active->bodies().end_addition();
  active->add_inner_nodes(child.counted.counts().nodes);
}

}  // namespace
}  // namespace graphs

bool CUDAGraph::Impl::become_child(const char* call, const StreamRef& stream) {
  const captures::Found found = captures::find(stream);
  if (found.part != captures::Part::own) {
    backend::OutsideWork::require_none(stream, call);
    return false;
  }
  const detail::PublicCall public_call(call);
  graphs::add_child(*this, call, stream, found);
  return true;
}

void add_child(const CUDAGraph& child, const StreamRef& stream) {
  constexpr const char* call = "add_child";
  const detail::PublicCall public_call(call);
  auto& impl = graphs::GraphAccess::of(child, call);
  impl.refuse_in_own_hook(call);
  impl.refuse_reserved(call);
  const std::lock_guard lock(impl.launch_mutex);
  impl.require_captured(call);
  const captures::Found found = captures::find(stream);
  if (found.part == captures::Part::invalidated) captures::refuse_broken("a child graph for");
  if (found.part != captures::Part::own)
    throw UsageError(text::format(
        "{}: the stream takes part in no capture that this library began, and only there a graph can become a "
        "child. Call it within capture() or the scope graph; CUDAGraph::replay() launches a graph.",
        call));
  graphs::add_child(impl, call, stream, found);
}

void add_child(const CUDAGraph& child) {
  constexpr const char* call = "add_child";
  graphs::GraphAccess::of(child, call).require_captured(call);
  add_child(child, current_stream(child.device()));
}

}  // namespace reprise
