// SPDX-License-Identifier: Apache-2.0
#include "reprise/graph_diff.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "graph/nodes/inner_nodes.h"
#include "inspect/diff/graph_differences.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/capture.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// CUDAGraph::update() and recapture(), which say what differs.

namespace reprise {

using GraphImpl = graphs::GraphAccess::Impl;
using graphs::UpdateRefusal;

namespace {

const char* driver_name(UpdateResult result) {
  switch (result) {
    case UpdateResult::topology_changed:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED";
    case UpdateResult::node_type_changed:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED";
    case UpdateResult::function_changed:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED";
    case UpdateResult::parameters_changed:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED";
    case UpdateResult::not_supported:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED";
    case UpdateResult::unsupported_function_change:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE";
    case UpdateResult::attributes_changed:
      return "CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED";
    default:
      return "CU_GRAPH_EXEC_UPDATE_ERROR";
  }
}

// Describes what was refused, with the node: "CU_... (2): the node has other dependencies: memset (node 3) in forward".
std::string refusal_text(const GraphImpl& other, const UpdateRefusal& refusal) {
  const std::string node = refusal.node != nullptr ? ": " + other.node_text(refusal.node) : "";
  return text::format("{} ({}): {}{}", driver_name(refusal.result), static_cast<int>(refusal.result), refusal.why,
                      node);
}

// Differences of the refused node, and of the nodes in it, come first.
std::vector<GraphDifference> differences_of(GraphImpl& graph, GraphImpl& other, const UpdateRefusal& refusal) {
  std::vector<GraphDifference> differences = inspect::graph_differences(graph, other);
  if (refusal.node == nullptr) return differences;
  const std::vector<graphs::NumberedNode> all = graphs::numbered_nodes(other.backend(), other.template_graph);
  const auto refused = std::ranges::find(all, refusal.node, &graphs::NumberedNode::handle);
  if (refused == all.end()) return differences;
  std::stable_partition(differences.begin(), differences.end(), [&](const GraphDifference& each) {
    const std::string& number = each.second ? each.second->number : each.first->number;
    return (each.second && number == refused->number) || number.starts_with(refused->number + ".");
  });
  return differences;
}

[[noreturn]] void refuse_update(const char* call, GraphImpl& graph, GraphImpl& other, const UpdateRefusal& refusal) {
  std::vector<GraphDifference> differences = differences_of(graph, other, refusal);
  const std::string text = text::format(
      "{}{}: expected a graph to which CUDA can update the executable; found {}. "
      "Nothing has changed. Instantiate the other graph, or use recapture(), which does that where no update is "
      "possible.{}{}",
      call, graphs::of_graph(graph.options.name), refusal_text(other, refusal),
      differences.empty() ? "" : "\nThe graphs differ:\n", inspect::differences_text(differences));
  throw GraphUpdateError(text, refusal.result, std::move(differences));
}

}  // namespace

void CUDAGraph::update(const CUDAGraph& other) {
  constexpr const char* call = "CUDAGraph::update";
  const detail::PublicCall public_call(call);
  Impl& impl = Impl::of(*this, call);
  Impl& from = Impl::of(other, call);
  const Impl::Use use(impl), use_of_other(from);
  for (const Impl* const each : {&impl, &from}) {
    each->refuse_in_own_hook(call);
    each->refuse_reserved(call);
  }
  if (&impl == &from)
    throw UsageError(text::format("{}{} was called with the graph itself: pass another graph, or use recapture().",
                                  call, graphs::of_graph(impl.options.name)));
  {
    const Impl::LockBoth lock(impl, from);
    impl.require_template(call);
    from.require_template(call);
    impl.forget_editable();
    from.forget_editable();
    if (*impl.device != *from.device)
      throw UsageError(
          text::format("{}{}: expected a graph of {}; found one of {}. Capture it on this device: an executable stays "
                       "on its device.",
                       call, graphs::of_graph(impl.options.name), impl.device->str(), from.device->str()));
    if (const auto refusal = impl.update_from(from)) refuse_update(call, impl, from, *refusal);
  }
  memory::ReleaseQueue::drain();
}

namespace {

/// One recapture: the capture is made in a stand-in for the graph, which then is what the graph takes over.
///
///     capture() -> take_over()
class Replacement {
 public:
  Replacement(GraphImpl& graph, const GraphOptions& options)
      : graph_(graph),
        options_(options),
        stand_in_(graph.made_with),
        recaptured_(*graphs::GraphAccess::impl(stand_in_)) {
    recaptured_.graph_id = graph.graph_id;
    recaptured_.debug = graph.debug;
    recaptured_.without_executable = true;
    recaptured_.listeners.inherit(graph.listeners);
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() { recaptured_.hooks.leave_out_global(); }  // no graph of the user's ends

  void capture(const CaptureBody& body) {
    try {
      const WithHooks hooks(graph_, recaptured_);
      const GraphImpl::ExchangedImpls exchanged(graph_, recaptured_);
      recaptured_.capture_body(call, options_, body);
    } catch (...) {
      graph_.last_report = std::move(recaptured_.last_report);
      throw;
    }
    graph_.refuse_destroyed(call);
  }

  Recapture take_over() {
    Recapture result;
    const GraphImpl::LockBoth lock(graph_, recaptured_);
    graph_.forget_editable();
    result.reason = update(result);
    result.in_place = result.reason.empty();
    if (result.in_place)
      graph_.options = std::move(recaptured_.options);
    else
      replace();
    return result;
  }

  static constexpr const char* call = "CUDAGraph::recapture";

 private:
  /// Hooks are called for the user's graph, whatever Impl it has.
  struct WithHooks {
    WithHooks(GraphImpl& one, GraphImpl& other) : a(one), b(other) { a.hooks.swap(b.hooks); }
    ~WithHooks() { a.hooks.swap(b.hooks); }
    WithHooks(const WithHooks&) = delete;
    WithHooks& operator=(const WithHooks&) = delete;
    GraphImpl& a;
    GraphImpl& b;
  };

  /// Updates in place, or finds what differs; returns why it did not update.
  std::string update(Recapture& result) {
    if (graph_.template_graph == nullptr)
      return "The template of the capture before was discarded (GraphOptions::discard_template), and an update needs "
             "it.";
    std::string why = obstacle();
    if (why.empty()) {
      std::vector<ComparedNode> disabled = inspect::disabled_nodes(graph_, recaptured_);
      const auto refusal = graph_.update_from(recaptured_);
      if (!refusal) {
        result.disabled = std::move(disabled);
        return "";
      }
      why = text::format("An update is not possible, {}.", refusal_text(recaptured_, *refusal));
    }
    result.differences = inspect::graph_differences(graph_, recaptured_);
    return why;
  }

  /// Why no update is tried; empty if it is.
  std::string obstacle() const {
    if (graph_.exec == nullptr) return "There was no executable to update.";
    if (recaptured_.may_discard)
      return "GraphOptions::discard_template is set for this capture, and an update needs the template.";
    if (graph_.keep != recaptured_.keep || graph_.options.instantiate_flags != recaptured_.options.instantiate_flags)
      return "GraphOptions::keep_graph or instantiate_flags are others than those of the capture before.";
    return "";
  }

  void replace() {
    const bool instantiates = graph_.exec != nullptr || recaptured_.keep == KeepGraph::no;
    if (instantiates) recaptured_.make_ready();
    graph_.exchange_captured(recaptured_);
    if (instantiates) graph_.notify_instantiated(call);
    if (graph_.may_discard) graph_.discard_template();
  }

  GraphImpl& graph_;
  GraphOptions options_;
  CUDAGraph stand_in_;
  GraphImpl& recaptured_;
  const GraphImpl::Use use_of_recaptured_{recaptured_};
};

Recapture capture_again(GraphImpl& graph, const GraphOptions& options, const CaptureBody& body) {
  constexpr const char* call = Replacement::call;
  if (options.stream && options.stream->device() != *graph.device)
    throw UsageError(
        text::format("{}{}: GraphOptions::stream expected a stream of {}, as of the capture before; found one of {}. "
                     "Capture another CUDAGraph there.",
                     call, graphs::of_graph(graph.options.name), graph.device->str(), options.stream->device().str()));
  Recapture result;
  {
    const DeviceGuard device(*graph.device);
    Replacement replacement(graph, options);
    replacement.capture(body);
    result = replacement.take_over();
  }
  memory::ReleaseQueue::drain();
  graph.refuse_destroyed(call);
  return result;
}

GraphImpl& require_recapturable(const CUDAGraph& graph) {
  constexpr const char* call = Replacement::call;
  GraphImpl& impl = graphs::GraphAccess::of(graph, call);
  impl.refuse_in_own_hook(call);
  impl.refuse_reserved(call);
  impl.require(call, {graphs::GraphState::captured, graphs::GraphState::ready});
  return impl;
}

/// The options of the last capture, as far as they count for another one.
GraphOptions options_of_last_capture(const GraphImpl& graph) {
  GraphOptions options = graph.options;
  options.stream.reset();
  options.warmup = 0;
  return options;
}

}  // namespace

Recapture CUDAGraph::recapture(CaptureBody body) {
  const detail::PublicCall public_call(Replacement::call);
  Impl& impl = require_recapturable(*this);
  const Impl::Use use(impl);
  return capture_again(impl, options_of_last_capture(impl), body);
}

Recapture CUDAGraph::recapture(const StreamRef& stream, CaptureBody body) {
  const detail::PublicCall public_call(Replacement::call);
  Impl& impl = require_recapturable(*this);
  const Impl::Use use(impl);
  GraphOptions options = options_of_last_capture(impl);
  options.stream = stream;
  return capture_again(impl, options, body);
}

Recapture CUDAGraph::recapture(const GraphOptions& options, CaptureBody body) {
  const detail::PublicCall public_call(Replacement::call);
  Impl& impl = require_recapturable(*this);
  const Impl::Use use(impl);
  const GraphHooks& hooks = options.hooks;
  if (hooks.captured || hooks.instantiated || hooks.before_replay || hooks.after_replay || hooks.reset)
    throw UsageError(
        text::format("{}{}: expected GraphOptions without hooks, because a recapture keeps those of the graph. Add "
                     "hooks with add_hooks().",
                     Replacement::call, graphs::of_graph(impl.options.name)));
  return capture_again(impl, options, body);
}

}  // namespace reprise
