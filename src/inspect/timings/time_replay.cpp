// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backend/check.h"
#include "backend/monitor.h"
#include "captures/registry.h"
#include "graph/cuda_graph_impl.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/timings/replay_timing.h"
#include "text/format.h"

// One replay, timed node by node.

namespace reprise {

using backend::Checked;

namespace {

constexpr const char* this_call = "time_replay";

// The registry has the captures of this library, the runtime all captures that the stream takes part in.
void refuse_captures(const StreamRef& stream) {
  if (stream.capture_status() != CaptureStatus::none)
    throw UsageError(
        text::format("{}: the stream is being captured, and a replay there cannot be waited for. Time the replay on a "
                     "stream that takes no part in a capture, when no capture is underway. The capture goes on.",
                     this_call));
  if (captures::any_underway())
    throw UsageError(
        text::format("{} waits for the replay, which might break the capture that is underway in this process. Call it "
                     "when no capture is. The capture goes on.",
                     this_call));
}

// A sentence on the number of nodes without a time, by kind; empty if there are none.
void note_nodes_without_time(backend::Backend& runtime, const std::vector<GraphNodeHandle>& without,
                             const ReplayTiming& timing, std::vector<std::string>& notes) {
  if (without.empty()) return;
  std::map<backend::NodeType, std::size_t> counts;
  for (const GraphNodeHandle node : without) {
    backend::NodeType type{};
    Checked(runtime).graph_node_type(node, &type);
    ++counts[type];
  }
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
  std::vector<GraphNodeHandle> nodes;
  Checked(runtime).graph_nodes(template_graph, &nodes);
  std::unordered_map<GraphNodeHandle, std::size_t> places;
  for (const GraphNodeHandle node : nodes) places.emplace(node, places.size());
  std::uint64_t origin = times.empty() ? 0 : times.front().start_ns;
  for (const backend::NodeTime& time : times) origin = std::min(origin, time.start_ns);
  ReplayTiming timing;
  std::vector<bool> timed(nodes.size());
  for (backend::NodeTime& time : times) {
    NodeTiming& node = timing.nodes.emplace_back();
    node.node = time.node;
    if (const auto place = places.find(time.node); place != places.end()) {
      node.index = place->second;
      timed[place->second] = true;
    }
    node.name = std::move(time.name);
    if (const Annotation* const annotation = annotations.annotation_of(time.node)) node.annotation = *annotation;
    node.start_us = static_cast<double>(time.start_ns - origin) / 1000;
    node.duration_us = static_cast<double>(time.end_ns - time.start_ns) / 1000;
  }
  inspect::sum_up(timing);
  timing.notes = std::move(notes);
  std::vector<GraphNodeHandle> without;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (!timed[i]) without.push_back(nodes[i]);
  note_nodes_without_time(runtime, without, timing, timing.notes);
  return timing;
}

}  // namespace

ReplayTiming time_replay(CUDAGraph& graph, const StreamRef& stream) {
  graphs::GraphAccess::Impl& impl = graphs::GraphAccess::of(graph, this_call);
  const graphs::GraphAccess::Impl::Use use(impl);
  impl.refuse_in_own_hook(this_call);
  impl.refuse_reserved(this_call);
  const std::lock_guard lock(impl.launch_mutex);
  impl.require_template(this_call);
  refuse_captures(stream);
  impl.prepare_launch(this_call, stream);
  backend::Backend& runtime = impl.backend();
  std::string why;
  const std::shared_ptr<backend::NodeWatch> watch = runtime.monitor().watch_nodes(impl.template_graph, impl.exec, &why);
  if (watch == nullptr) throw Error(text::format("{}: {}", this_call, why));
  try {
    impl.replay_with_listeners(this_call, stream);
  } catch (...) {
    // A hook may have thrown after the launch: the watch must outlive the launch.
    backend::WarnOnError(runtime).stream_synchronize(stream.native());
    throw;
  }
  stream.synchronize();
  std::vector<std::string> notes;
  std::vector<backend::NodeTime> times = watch->take(&notes);
  return timing_of(runtime, impl.template_graph, impl.listeners.annotations(), std::move(times), std::move(notes));
}

}  // namespace reprise
