// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/annotation_listener.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backend/check.h"
#include "backend/monitor.h"
#include "graph/cuda_graph_impl.h"
#include "graph/nodes/inner_nodes.h"
#include "inspect/annotations/capture_annotations.h"
#include "inspect/annotations/progress_listener.h"
#include "inspect/nodes/graph_walk.h"

namespace reprise::inspect {

using backend::Checked;

AnnotationListener::~AnnotationListener() {
  reset();
}

void AnnotationListener::started(captures::Capture& capture) {
  if (capture.options().enable_annotations) underway_ = CaptureAnnotations::open(capture, progress_.marks());
}

void AnnotationListener::body_began(captures::Capture& capture, const captures::Body& body) {
  if (underway_ != nullptr) underway_->begin_body(capture, body);
}

void AnnotationListener::body_ends(captures::Capture& /*capture*/, const captures::Body& body) {
  if (underway_ != nullptr) underway_->end_body(body);
}

void AnnotationListener::body_abandoned(captures::Capture& /*capture*/, const captures::Body& body) noexcept {
  if (underway_ != nullptr) underway_->abandon_body(body);
}

void AnnotationListener::describe(const captures::Capture& /*capture*/, const backend::CaptureFindings& /*findings*/,
                                  CaptureReport& report) {
  if (underway_ != nullptr) report.annotation = underway_->broke_in(report);
}

void AnnotationListener::ended(captures::Capture& capture, graphs::CapturedGraph& graph) {
  if (underway_ == nullptr) return;
  AnnotationLog log = underway_->take_log();
  runtime_ = &capture.device().backend();
  std::vector<backend::Edge> edges;
  if (needs_edges(log)) Checked(*runtime_).graph_edges(graph.template_graph, &edges);
  const std::vector<std::size_t> annotation_of_node = assign_annotations(log, edges);
  for (std::size_t i = 0; i < log.nodes.size(); ++i)
    if (annotation_of_node[i] != 0) which_.emplace(log.nodes[i], annotation_of_node[i]);
  note_inner_nodes(graph.template_graph, log);
  annotations_ = std::move(log.annotations);
  if (!which_.empty()) {
    graph.of_executables.push_back(this);
    order_ = std::move(log.listed);
    if (order_.empty()) Checked(*runtime_).graph_nodes(graph.template_graph, &order_);
  }
  underway_.reset();
}

// Nodes of bodies have whole annotations; those of a child have its own within that of the node that runs it.
void AnnotationListener::note_inner_nodes(GraphHandle template_graph, AnnotationLog& log) {
  const auto [whole, own, has_children] = underway_->take_inner_nodes();
  if (whole.empty() && !has_children) return;
  std::string top_number;
  for (const graphs::NumberedNode& node : graphs::numbered_nodes(*runtime_, template_graph)) {
    if (node.parent == nullptr) {
      top_number = node.number;
      continue;
    }
    const auto around = which_.find(node.parent);
    std::size_t which = around != which_.end() ? around->second : 0;
    if (const auto known = whole.find(node.handle); known != whole.end()) {
      which = log.number_of(known->second);
    } else if (const auto added = own.find(node.handle); added != own.end()) {
      Annotation merged = log.annotations[which];
      for (const auto& [key, value] : added->second) merged.insert_or_assign(key, value);
      which = log.number_of(merged);
    }
    if (which == 0) continue;
    which_.emplace(node.handle, which);
    inner_.push_back({node.handle, node.top, node.number.substr(top_number.size())});
  }
}

void AnnotationListener::added_as_child(const captures::ChildNode& child) {
  const auto parent = CaptureAnnotations::of(child.capture);
  if (parent == nullptr) return;
  NodeAnnotations nodes;
  if (!which_.empty()) {
    const std::vector<graphs::NumberedNode> original = graphs::numbered_nodes(*runtime_, child.original),
                                            copy = graphs::numbered_nodes(*runtime_, child.copy);
    const auto same = [](const graphs::NumberedNode& a, const graphs::NumberedNode& b) {
      return a.type == b.type && a.number == b.number;
    };
    if (std::ranges::equal(original, copy, same))
      for (std::size_t i = 0; i < copy.size(); ++i)
        if (const Annotation* const annotation = annotation_of(original[i].handle))
          nodes.emplace(copy[i].handle, *annotation);
  }
  parent->add_child(std::move(nodes));
}

void AnnotationListener::abandoned(captures::Capture& /*capture*/) noexcept {
  if (underway_ != nullptr) {
    underway_->finish();
    underway_->give_up();
  }
  reset();
}

// Nodes keep their order, and new ones come after them: a node that is out of order is a new one at the address of a
// removed one.
void AnnotationListener::instantiated(GraphHandle template_graph, GraphExecHandle /*exec*/) noexcept try {
  std::vector<GraphNodeHandle> now;
  if (!backend::WarnOnError(*runtime_).graph_nodes(template_graph, &now)) return;
  if (now == order_) return;
  std::unordered_map<GraphNodeHandle, std::size_t> places, left;
  std::unordered_set<GraphNodeHandle> survivors;
  for (std::size_t i = 0; i < order_.size(); ++i) places.emplace(order_[i], i);
  std::size_t next = 0;  // no survivor is before it
  for (const GraphNodeHandle node : now) {
    const auto place = places.find(node);
    if (place == places.end() || place->second < next) continue;
    next = place->second + 1;
    survivors.insert(node);
    if (const auto known = which_.find(node); known != which_.end()) left.insert(*known);
  }
  std::erase_if(inner_, [&](const InnerNode& inner) { return !survivors.contains(inner.top); });
  for (const InnerNode& inner : inner_) left.insert(*which_.find(inner.node));
  which_ = std::move(left);
  order_ = std::move(now);
} catch (...) {
  warn("There was no memory to update the annotations of a graph; they are those of the previous executable.");
}

std::function<void()> AnnotationListener::adopt_from(const AnnotationListener& theirs, graphs::Adoption& adoption) {
  std::vector<GraphNodeHandle> order;
  std::unordered_map<GraphNodeHandle, std::size_t> which;
  std::vector<InnerNode> inner;
  for (const GraphNodeHandle node : theirs.order_)
    if (const auto own = adoption.nodes.find(node); own != adoption.nodes.end())  // else removed by other code
      order.push_back(own->second);
  for (const auto& [node, annotation] : theirs.which_)
    if (const auto own = adoption.nodes.find(node); own != adoption.nodes.end()) which.emplace(own->second, annotation);
  for (const InnerNode& each : theirs.inner_)
    if (adoption.nodes.contains(each.node) && adoption.nodes.contains(each.top))
      inner.push_back({adoption.nodes.at(each.node), adoption.nodes.at(each.top), each.number_in_top});
  return [this, order, which, inner, annotations = theirs.annotations_, runtime = theirs.runtime_]() mutable {
    order_.swap(order);
    which_.swap(which);
    inner_.swap(inner);
    annotations_.swap(annotations);
    runtime_ = runtime;
  };
}

void AnnotationListener::reset() noexcept {
  if (underway_ != nullptr) underway_->finish();
  underway_.reset();
  order_.clear();
  annotations_.clear();
  which_.clear();
  inner_.clear();
}

std::vector<AnnotatedNode> AnnotationListener::nodes() const {
  std::vector<AnnotatedNode> found;
  found.reserve(which_.size());
  auto inner = inner_.begin();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::string number = std::to_string(i);
    if (const Annotation* const annotation = annotation_of(order_[i]))
      found.push_back({.node = order_[i], .index = i, .number = number, .annotation = *annotation});
    for (; inner != inner_.end() && inner->top == order_[i]; ++inner)
      found.push_back({.node = inner->node,
                       .index = i,
                       .number = number + inner->number_in_top,
                       .annotation = *annotation_of(inner->node)});
  }
  return found;
}

bool AnnotationListener::have_name(std::string_view name) const {
  return std::ranges::any_of(annotations_, [&](const Annotation& annotation) {
    const auto found = annotation.find("name");
    return found != annotation.end() && found->second == name;
  });
}

const Annotation* AnnotationListener::annotation_of(GraphNodeHandle node) const noexcept {
  const auto found = which_.find(node);
  return found != which_.end() ? &annotations_[found->second] : nullptr;
}

const Annotation* AnnotationListener::annotation_of(const ScannedNode& node) const noexcept {
  const Annotation* const own = annotation_of(node.handle);
  return own != nullptr ? own : annotation_of(node.top);
}

}  // namespace reprise::inspect

namespace reprise {

std::vector<AnnotatedNode> CUDAGraph::annotations() const {
  constexpr const char* call = "CUDAGraph::annotations";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);  // a replay may make the executable meanwhile
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  std::vector<AnnotatedNode> nodes = impl.listeners.annotations().nodes();
  if (nodes.empty()) return nodes;
  impl.give_out_template();
  std::string why;
  std::unordered_map<GraphNodeHandle, std::uint64_t> ids;
  if (impl.exec == nullptr)
    why = "There is no executable, which profilers would name: instantiate the graph, or replay it once.";
  else if (impl.template_graph == nullptr)
    why = "The template was discarded, as GraphOptions::discard_template requests, and its nodes have no ids any more.";
  else
    ids = impl.backend().monitor().profiler_ids(impl.template_graph, impl.exec, &why);
  if (why.empty()) why = "The node was removed from the template.";
  for (AnnotatedNode& node : nodes) {
    const auto found = ids.find(node.node);
    if (found != ids.end())
      node.profiler_id = found->second;
    else
      node.no_profiler_id = why;
  }
  return nodes;
}

}  // namespace reprise
