// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/annotation_listener.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "backend/check.h"
#include "backend/monitor.h"
#include "graph/cuda_graph_impl.h"
#include "inspect/annotations/annotation_text.h"
#include "inspect/annotations/capture_annotations.h"
#include "inspect/annotations/nvtx_ranges.h"
#include "inspect/annotations/progress_listener.h"
#include "inspect/liveness/graph_walk.h"

namespace reprise::inspect {

using backend::Checked;

namespace {

constexpr std::size_t longest_name = 120;  // characters, of the range around a replay

std::string replay_name(const AnnotationLog& log) {
  std::string text = "replay: ";
  const char* separator = "";
  for (const std::size_t outermost : log.outermost) {
    text += separator + annotation_text(log.annotations[outermost]);
    separator = "; ";
    if (text.size() <= longest_name) continue;
    text.resize(longest_name);
    return text + "...";
  }
  return text;
}

}  // namespace

AnnotationListener::~AnnotationListener() {
  reset();
}

void AnnotationListener::begin(captures::Capture& capture) {
  if (capture.options().enable_annotations) ranges_are_taken();  // a tool is opened before the capture
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

void AnnotationListener::describe(const backend::CaptureFindings& /*findings*/, CaptureReport& report) {
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
  for (auto& [node, annotation] : underway_->take_body_nodes()) in_bodies_.emplace(node, std::move(annotation));
  if (!which_.empty()) {
    if (ranges_are_taken()) {
      replay_name_ = replay_name(log);
      graph.in_replays.push_back(this);
    }
    graph.of_executables.push_back(this);
    order_ = std::move(log.listed);
    annotations_ = std::move(log.annotations);
  }
  underway_.reset();
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
  for (std::size_t i = 0; i < order_.size(); ++i) places.emplace(order_[i], i);
  std::size_t next = 0;  // no survivor is before it
  for (const GraphNodeHandle node : now) {
    const auto place = places.find(node);
    if (place == places.end() || place->second < next) continue;
    next = place->second + 1;
    if (const auto known = which_.find(node); known != which_.end()) left.insert(*known);
  }
  which_ = std::move(left);
  order_ = std::move(now);
} catch (...) {
  warn("There was no memory to bring the annotations of a graph up to date; they are those of the executable before.");
}

std::function<void()> AnnotationListener::adopt(const graphs::CaptureListener& other, graphs::Adoption& adoption) {
  const auto& theirs = dynamic_cast<const AnnotationListener&>(other);
  std::vector<GraphNodeHandle> order;
  std::unordered_map<GraphNodeHandle, std::size_t> which;
  for (const GraphNodeHandle node : theirs.order_) {
    const auto own = adoption.nodes.find(node);
    if (own == adoption.nodes.end()) continue;  // removed from the template by other code
    order.push_back(own->second);
    if (const auto known = theirs.which_.find(node); known != theirs.which_.end())
      which.emplace(own->second, known->second);
  }
  return [this, order, which, annotations = theirs.annotations_, name = theirs.replay_name_,
          runtime = theirs.runtime_]() mutable {
    order_.swap(order);
    which_.swap(which);
    annotations_.swap(annotations);
    replay_name_.swap(name);
    runtime_ = runtime;
  };
}

void AnnotationListener::before_replay(const StreamRef& /*stream*/) {
  push_range(replay_name_);
}

void AnnotationListener::replayed(const StreamRef& /*stream*/) noexcept {
  pop_range();
}

void AnnotationListener::replay_failed() noexcept {
  pop_range();
}

void AnnotationListener::reset() noexcept {
  if (underway_ != nullptr) underway_->finish();
  underway_.reset();
  order_.clear();
  annotations_.clear();
  which_.clear();
  replay_name_.clear();
  in_bodies_.clear();
}

std::vector<AnnotatedNode> AnnotationListener::nodes() const {
  std::vector<AnnotatedNode> found;
  found.reserve(which_.size());
  for (std::size_t i = 0; i < order_.size(); ++i)
    if (const Annotation* const annotation = annotation_of(order_[i]))
      found.push_back({.node = order_[i], .index = i, .annotation = *annotation});
  return found;
}

const Annotation* AnnotationListener::annotation_of(GraphNodeHandle node) const noexcept {
  if (const auto found = which_.find(node); found != which_.end()) return &annotations_[found->second];
  const auto inner = in_bodies_.find(node);
  return inner != in_bodies_.end() ? &inner->second : nullptr;
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
