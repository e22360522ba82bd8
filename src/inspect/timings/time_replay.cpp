// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "backend/check.h"
#include "backend/monitor.h"
#include "captures/registry.h"
#include "graph/cuda_graph_impl.h"
#include "graph/nodes/inner_nodes.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/timings/replay_timing.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// Times of one replay, node by node.

namespace reprise {

using backend::Checked;

namespace {

// A sentence on the number of nodes without a time, by kind; empty if there are none.
void note_nodes_without_time(const std::map<backend::NodeType, std::size_t>& counts, const ReplayTiming& timing,
                             std::vector<std::string>& notes) {
  if (counts.empty()) return;
  std::string kinds;
  for (const auto& [type, count] : counts)
    kinds += text::format("{}{} {}", kinds.empty() ? "" : ", ", count, backend::node_type_name(type));
  const bool all_numbered = std::all_of(timing.nodes.begin(), timing.nodes.end(),
                                        [](const NodeTiming& node) { return node.index.has_value(); });
  notes.push_back(
      text::format("Nodes of the template that have no time: {}. The device does not time their kind, or they did not "
                   "run.{}",
                   kinds, all_numbered ? "" : " Some of them may be those in the list that have no number."));
}

ReplayTiming timing_of(backend::Backend& runtime, GraphHandle template_graph,
                       const inspect::AnnotationListener& annotations, std::vector<backend::NodeTime> times,
                       std::vector<std::string> notes) {
  const std::vector<graphs::NumberedNode> nodes = graphs::numbered_nodes(runtime, template_graph);
  std::unordered_map<GraphNodeHandle, std::size_t> places;
  for (const graphs::NumberedNode& node : nodes) places.emplace(node.handle, places.size());
  std::uint64_t origin = times.empty() ? 0 : times.front().start_ns;
  for (const backend::NodeTime& time : times) origin = std::min(origin, time.start_ns);
  ReplayTiming timing;
  std::vector<bool> timed(nodes.size());
  for (backend::NodeTime& time : times) {
    NodeTiming& node = timing.nodes.emplace_back();
    node.node = time.node;
    if (const auto place = places.find(time.node); place != places.end()) {
      const graphs::NumberedNode& known = nodes[place->second];
      node.index = known.top_index;
      node.number = known.number;
      timed[place->second] = true;
      const Annotation* annotation = annotations.annotation_of(known.handle);
      if (annotation == nullptr) annotation = annotations.annotation_of(known.top);
      if (annotation != nullptr) node.annotation = *annotation;
    }
    node.name = std::move(time.name);
    node.start_us = static_cast<double>(time.start_ns - origin) / 1000;
    node.span_us = static_cast<double>(time.end_ns - time.start_ns) / 1000;
    node.runs = time.runs;
    node.duration_us = time.sum_ns != 0 ? static_cast<double>(time.sum_ns) / 1000 : node.span_us;
  }
  inspect::sum_up(timing);
  timing.notes = std::move(notes);
  std::map<backend::NodeType, std::size_t> without;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!timed[i]) ++without[nodes[i].type];
  note_nodes_without_time(without, timing, timing.notes);
  return timing;
}

// The registry has the captures of this library.
void refuse_captures_underway(const char* call) {
  if (captures::any_underway())
    throw UsageError(
        text::format("{} waits for the replay, which might break the capture underway in this process. Call it "
                     "when none is underway. The capture continues.",
                     call));
}

// The runtime has all captures that the stream takes part in.
void refuse_captures(const char* call, const StreamRef& stream) {
  if (stream.capture_status() != CaptureStatus::none)
    throw UsageError(
        text::format("{}: the stream is being captured, and a replay there cannot be waited for. Time the replay on "
                     "another stream, when no capture is underway. The capture continues.",
                     call));
  refuse_captures_underway(call);
}

void refuse_second_timer(const char* call, const graphs::GraphAccess::Impl& graph) {
  if (graph.timer != nullptr)
    throw UsageError(text::format(
        "{}: a ReplayTimer times the next replay of this graph already. Call its take() or destroy it first.", call));
}

}  // namespace

namespace inspect {

/// Times the first launch of a graph after its construction. While it lives, it is the first of the listeners in the
/// graph's replays, which is called last before the launch.
///
///     armed -> launched -> collected     armed again if the launch fails
///                 \-----> lost           if no event can be recorded behind the launch
///
/// The event says when the launch has completed: its stream may have ended by then, or take part in a capture.
///
/// Constructor, destructor and take() need the graph's launch mutex.
class TimedReplay final : public graphs::CaptureListener {
 public:
  /// \param purpose begins the error of a replay that cannot be timed.
  TimedReplay(const char* purpose, graphs::GraphAccess::Impl& graph) : purpose_(purpose), graph_(&graph) {
    graph.in_replays.insert(graph.in_replays.begin(), this);
    graph.timer = this;
    graph.replays_notify = true;
  }
  ~TimedReplay() override {
    // The watch must outlive the launch.
    if (state_ == State::launched) {
      backend::Backend& runtime = event_->device().backend();
      const backend::RelaxedCaptureMode relaxed(runtime);
      backend::WarnOnError(runtime).event_synchronize(event_->native());
    }
    if (state_ == State::lost) warn_if_untaken();
    if (graph_ == nullptr) return;
    std::erase(graph_->in_replays, this);
    graph_->timer = nullptr;
    graph_->replays_notify = !graph_->in_replays.empty() || graph_->hooks.take_part_in_replays();
  }
  TimedReplay(const TimedReplay&) = delete;
  TimedReplay& operator=(const TimedReplay&) = delete;

  /// Null once the graph is empty.
  graphs::GraphAccess::Impl* graph() const noexcept { return graph_; }

  ReplayTiming take(const char* call) {
    if (state_ == State::armed) {
      throw UsageError(text::format(
          "{} expected a replay of the graph after the construction of the ReplayTimer; found none. Replay the graph, "
          "or call its graphed callable, first.",
          call));
    }
    if (state_ == State::lost) {
      taken_ = true;
      std::rethrow_exception(failure_);
    }
    collect(call);
    graph_->give_out_template();
    return timing_of(graph_->backend(), graph_->template_graph, graph_->listeners.annotations(), times_, notes_);
  }

  void before_replay(const StreamRef& stream) override {
    if (state_ != State::armed) return collect("CUDAGraph::replay (a ReplayTimer times the graph)");
    event_.emplace(stream.device(), EventOptions{.timing = false});
    std::string why;
    watch_ = graph_->backend().monitor().watch_nodes(graph_->template_graph, graph_->exec, &why);
    if (watch_ == nullptr) throw Error(text::format("{}: {}", purpose_, why));
  }
  void replayed(const StreamRef& stream) noexcept override {
    if (state_ != State::armed) return;
    backend::Backend& runtime = stream.device().backend();
    try {
      Checked(runtime).event_record(event_->native(), stream.native(), backend::EventUseFlags::ordering);
      state_ = State::launched;
    } catch (...) {
      failure_ = std::current_exception();
      state_ = State::lost;
      const backend::RelaxedCaptureMode relaxed(runtime);
      backend::WarnOnError(runtime).stream_synchronize(stream.native());  // now, while the stream exists
      watch_ = nullptr;
    }
  }
  void replay_failed() noexcept override { watch_ = nullptr; }
  void reset() noexcept override { graph_ = nullptr; }

 private:
  enum class State { armed, launched, collected, lost };

  /// Waits for the launch. Nothing else is watched from now on.
  void collect(const char* call) {
    if (state_ != State::launched) return;
    refuse_captures_underway(call);
    event_->synchronize();
    times_ = watch_->take(&notes_);
    watch_ = nullptr;
    state_ = State::collected;
  }
  void warn_if_untaken() const noexcept {
    if (taken_) return;
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  const char* const purpose_;
  graphs::GraphAccess::Impl* graph_;
  State state_ = State::armed;
  std::shared_ptr<backend::NodeWatch> watch_;  // from before the launch to collect()
  std::optional<Event> event_;                 // from before the launch; recorded behind it
  std::exception_ptr failure_;                 // of a lost launch
  bool taken_ = false;                         // the failure was thrown
  std::vector<backend::NodeTime> times_;
  std::vector<std::string> notes_;
};

}  // namespace inspect

using GraphImpl = graphs::GraphAccess::Impl;

ReplayTimer::ReplayTimer(CUDAGraph& graph) {
  constexpr const char* call = "ReplayTimer";
  GraphImpl& impl = graphs::GraphAccess::of(graph, call);
  impl.refuse_in_own_hook(call);
  const GraphImpl::LaunchLock lock(impl);
  impl.require_template(call);
  refuse_second_timer(call, impl);
  timed_ = std::make_unique<inspect::TimedReplay>(call, impl);
}

ReplayTimer::~ReplayTimer() {
  GraphImpl* const graph = timed_ != nullptr ? timed_->graph() : nullptr;
  if (graph == nullptr) return;
  const GraphImpl::LaunchLock lock(*graph);
  timed_ = nullptr;
}

ReplayTiming ReplayTimer::take() {
  constexpr const char* call = "ReplayTimer::take";
  const detail::PublicCall public_call(call);
  if (timed_ == nullptr)
    throw UsageError(
        text::format("{} returns the times of one replay, once; found a second call. Construct another "
                     "ReplayTimer for another replay.",
                     call));
  GraphImpl* const graph = timed_->graph();
  if (graph == nullptr)
    throw UsageError(
        text::format("{} expected the captured graph; found it reset or destroyed. Take the times before.", call));
  graph->refuse_in_own_hook(call);
  const GraphImpl::LaunchLock lock(*graph);
  ReplayTiming timing = timed_->take(call);
  timed_ = nullptr;
  return timing;
}

ReplayTiming time_replay(CUDAGraph& graph, const StreamRef& stream) {
  constexpr const char* call = "time_replay";
  const detail::PublicCall public_call(call);
  GraphImpl& impl = graphs::GraphAccess::of(graph, call);
  const GraphImpl::Use use(impl);
  impl.refuse_in_own_hook(call);
  impl.refuse_reserved(call);
  const std::lock_guard lock(impl.launch_mutex);
  impl.require_template(call);
  refuse_second_timer(call, impl);
  refuse_captures(call, stream);
  impl.prepare_launch(call, stream);
  inspect::TimedReplay timed(call, impl);
  impl.replay_with_listeners(call, stream);
  return timed.take(call);
}

}  // namespace reprise
