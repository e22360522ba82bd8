// SPDX-License-Identifier: Apache-2.0
#include "backend/host/capture/host_capture.h"

#include <algorithm>
#include <new>

#include "backend/host/host_runtime.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/cuda_calls.h"
#include "backend/rules/reported_call.h"
#include "support/room.h"
#include "text/format.h"

namespace reprise::backend::host {
namespace {

using CaptureList = std::vector<std::shared_ptr<HostCapture>>;

bool is_active(const HostCapture& capture) {
  return capture.state == HostCapture::State::active;
}

// True if a stream of the device takes part. With `blocking`, only blocking streams count.
bool is_on(const HostCapture& capture, const HostDevice& device, bool blocking = false) {
  return std::ranges::any_of(capture.streams, [&](const HostStream* stream) {
    return stream->device == &device && (stream->blocking || !blocking);
  });
}

// The captures, active or invalidated, in which such a stream takes part.
CaptureList captures_on(const HostRuntime& runtime, const HostDevice& device, bool blocking) {
  CaptureList found;
  for (const auto& capture : runtime.captures)
    if (is_on(*capture, device, blocking)) found.push_back(capture);
  return found;
}

// The rule for potentially unsafe calls: a thread in relaxed mode may make them. Otherwise they are forbidden by the
// thread's own captures that are not relaxed, and, for a thread in global mode, by global captures of other threads.
CaptureList forbidding_captures(const HostRuntime& runtime) {
  CaptureList found;
  const CaptureMode mode = thread_capture_mode();
  if (mode == CaptureMode::relaxed) return found;
  for (const auto& capture : runtime.captures) {
    if (capture->mode == CaptureMode::relaxed) continue;
    const bool own = capture->thread == std::this_thread::get_id();
    if (own || (mode == CaptureMode::global && capture->mode == CaptureMode::global)) found.push_back(capture);
  }
  return found;
}

bool has_fork_that_is_not_joined(const HostCapture& capture) {
  const auto reached = joined_by(capture.origin->capture_dependencies);
  const auto joined = [&](const std::vector<Dependency>& last) {
    return std::all_of(last.begin(), last.end(), [&](const Dependency& each) { return reached.contains(each.node); });
  };
  return !std::all_of(capture.streams.begin(), capture.streams.end(), [&](const HostStream* stream) {
    return stream == capture.origin || joined(stream->capture_dependencies);
  }) || !std::all_of(capture.left_behind.begin(), capture.left_behind.end(), joined);
}

CaptureList if_state(const std::shared_ptr<HostCapture>& capture, HostCapture::State state) {
  return capture != nullptr && capture->state == state ? CaptureList{capture} : CaptureList{};
}

std::string first_error(const HostCapture& capture) {
  const auto& call = capture.findings.broken_by;
  return call ? broken_by_text(*call) : "it is not known which call broke the capture";
}

void break_one(HostCapture& capture, CaptureFindings::ObservedCall call) {
  if (!is_active(capture)) return;
  capture.state = HostCapture::State::invalidated;
  call.capturing_thread = capture.thread == std::this_thread::get_id();
  capture.findings.broken_by = std::move(call);
  capture.findings.nodes = capture.graph->nodes.size();
}

void break_all(const CaptureList& captures, const CallSite& site, const char* name, const CaptureRule& rule) {
  if (std::none_of(captures.begin(), captures.end(), [](const auto& capture) { return is_active(*capture); })) return;
  CaptureFindings::ObservedCall call = reported_call(name, rule.result, &rule);
  if (site.stream != nullptr) call.stream = handle_of(*site.stream);
  for (const auto& capture : captures) break_one(*capture, call);
}

// True if a call of this class does work on its stream. (Queries that merely count as work are excepted by the caller.)
bool is_work(CallClass call_class) {
  return call_class == CallClass::stream_work || call_class == CallClass::stream_launch_only ||
         call_class == CallClass::stream_allocation;
}

// Notes work executed during a capture on another stream. It was probably meant to be captured, unless its thread
// exchanged its capture mode for it.
void note_not_captured(HostRuntime& runtime, const CallSite& site, CallClass call_class, const char* name) {
  const HostStream& stream = *site.stream;
  // A record is useless in a graph, and querying a priority is work only by the rules.
  if (!is_work(call_class) || stream.capture != nullptr || site.call == Call::event_record ||
      site.call == Call::stream_priority || thread_capture_mode() == CaptureMode::relaxed)
    return;
  for (const auto& capture : runtime.captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (!is_active(*capture) || (!own && !(stream.legacy && is_on(*capture, *stream.device)))) continue;
    CaptureFindings::ObservedCall reported = reported_call(name, ErrorCode::success, nullptr);
    reported.stream = handle_of(stream);
    reported.capturing_thread = own;
    add_call(capture->findings.not_captured, std::move(reported));
  }
}

struct Match {
  bool holds = false;
  CaptureList captures;  // affected by the rule
};

Match when(CaptureList captures) {
  return {!captures.empty(), std::move(captures)};
}

Match event_means_nothing(const CallSite& site, HostCapture::State state) {
  const HostEvent& event = *site.event;
  if (event.capture == nullptr || event.capture->state != state) return {};
  const bool captures = site.stream != nullptr && site.stream->capture != nullptr;
  return {true, captures ? CaptureList{site.stream->capture} : CaptureList{}};
}

Match other_capture(const CallSite& site) {
  const auto &of_stream = site.stream->capture, &of_event = site.event->capture;
  if (site.external || of_stream == nullptr || of_event == nullptr || of_stream == of_event) return {};
  return {true, {of_stream, of_event}};
}

Match event_outside(const CallSite& site) {
  const HostEvent& event = *site.event;
  if (site.external || site.stream->capture == nullptr || event.capture != nullptr || !event.recorded) return {};
  return {true, {site.stream->capture}};
}

bool is_captured_to(const HostRuntime& runtime, const HostGraph* graph) {
  return graph != nullptr &&  // a capture whose graph is gone has none, either
         std::any_of(runtime.captures.begin(), runtime.captures.end(),
                     [&](const auto& capture) { return capture->graph == graph; });
}

// Without a default, so that the compiler reports a new situation.
Match matches(const HostRuntime& runtime, const CallSite& site, Situation situation) {
  const HostStream* const stream = site.stream;
  switch (situation) {
    case Situation::stream_invalidated:
      return when(if_state(stream->capture, HostCapture::State::invalidated));
    case Situation::stream_captures:
      return when(if_state(stream->capture, HostCapture::State::active));
    case Situation::stream_does_not_capture:
      return {stream->capture == nullptr, {}};
    case Situation::stream_is_legacy:
      return {stream->legacy, {}};
    case Situation::stream_is_not_origin:
      return {stream->capture->origin != stream, {stream->capture}};
    case Situation::wrong_thread:
      return {stream->capture->mode != CaptureMode::relaxed && stream->capture->thread != std::this_thread::get_id(),
              {stream->capture}};
    case Situation::fork_not_joined:
      return {has_fork_that_is_not_joined(*stream->capture), {stream->capture}};
    case Situation::legacy_conflict:
      return stream->legacy ? when(captures_on(runtime, *stream->device, true)) : Match{};
    case Situation::external_without_capture:
      return {site.external && stream->capture == nullptr, {}};
    case Situation::graph_is_captured_to:
      return {is_captured_to(runtime, site.graph), {}};
    case Situation::event_captured:
      return when(if_state(site.event->capture, HostCapture::State::active));
    case Situation::event_invalidated:
      return event_means_nothing(site, HostCapture::State::invalidated);
    case Situation::event_of_ended_capture:
      return event_means_nothing(site, HostCapture::State::ended);
    case Situation::legacy_waits_for_capture:
      return stream->legacy ? when(if_state(site.event->capture, HostCapture::State::active)) : Match{};
    case Situation::other_capture:
      return other_capture(site);
    case Situation::event_outside:
      return event_outside(site);
    case Situation::device_captures:
      return when(captures_on(runtime, *site.device, false));
    case Situation::thread_forbids:  // on a capturing stream the call becomes a node
      return stream != nullptr && stream->capture != nullptr ? Match{} : when(forbidding_captures(runtime));
  }
  return {};
}

}  // namespace

StreamHandle handle_of(const HostStream& stream) noexcept {
  if (stream.legacy) return nullptr;
  if (stream.thread != 0) return reinterpret_cast<StreamHandle>(std::uintptr_t{2});
  return reinterpret_cast<StreamHandle>(const_cast<HostStream*>(&stream));  // NOLINT
}

CaptureMode& thread_capture_mode() noexcept {
  thread_local CaptureMode mode = CaptureMode::global;
  return mode;
}

bool lacks_stacks(const HostRuntime& runtime) {
  return std::ranges::any_of(runtime.captures, [](const auto& capture) { return lacks_stack(capture->findings); });
}

void add_stacks(HostRuntime& runtime) {
  const std::vector<std::string> stack = call_stack();
  const std::lock_guard lock(runtime.mutex);
  for (const auto& capture : runtime.captures) add_stack(capture->findings, stack);
}

Result check_capture_rules(HostRuntime& runtime, const CallSite& site) {
  return check_capture_rules(runtime, site, class_of(site.call), cuda_name(site.call));
}

Result check_capture_rules(HostRuntime& runtime, const CallSite& site, CallClass call_class, const char* name) {
  if (runtime.captures.empty() && (site.stream == nullptr || !site.stream->legacy) && site.event == nullptr &&
      !site.external && call_class != CallClass::capture_end && call_class != CallClass::capture_update)
    return ErrorCode::success;
  for (const CaptureRule& rule : rules_of(call_class)) {
    Match match = matches(runtime, site, rule.situation);
    if (!match.holds) continue;
    std::string detail = text::format("{}; {}", rule.sentence, rule.advice);
    if (rule.result == ErrorCode::stream_capture_invalidated && !match.captures.empty())
      detail = first_error(*match.captures.front());
    if (rule.effect != CaptureEffect::none) break_all(match.captures, site, name, rule);
    for (const auto& capture : match.captures)
      if (rule.effect == CaptureEffect::ended) drop_capture(runtime, *capture);
    return {rule.result, std::move(detail), &rule};
  }
  if (runtime.watchers > 0 && site.stream != nullptr) [[unlikely]]
    note_not_captured(runtime, site, call_class, name);
  return ErrorCode::success;
}

void begin_capture(HostRuntime& runtime, HostStream& stream, HostGraph& graph, bool owns_graph, CaptureMode mode) {
  auto capture = std::make_shared<HostCapture>();
  capture->id = next_id();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->findings.thread = thread_number();
  capture->origin = &stream;
  capture->graph = &graph;
  capture->owns_graph = owns_graph;
  support::make_room(runtime.captures);
  join_capture(stream, capture);
  runtime.captures.push_back(std::move(capture));
}

void join_capture(HostStream& stream, const std::shared_ptr<HostCapture>& capture) {
  support::make_room(stream.capture_dependencies);  // for the last node
  capture->streams.push_back(&stream);
  stream.capture = capture;
  stream.capture_dependencies.clear();
}

void add_dependencies(HostStream& stream, std::span<const Dependency> added) {
  support::make_room(stream.capture_dependencies, added.size());
  for (const Dependency& each : added)
    if (std::ranges::find(stream.capture_dependencies, each) == stream.capture_dependencies.end())
      stream.capture_dependencies.push_back(each);
}

HostNode& capture_node(HostRuntime& runtime, HostStream& stream, NodeType type, Work work, bool programmatic) {
  std::vector<Dependency> dependencies = stream.capture_dependencies;
  for (Dependency& dependency : dependencies)
    if (programmatic && dependency.node->type == NodeType::kernel && dependency.data == EdgeData{})
      dependency.data = programmatic_edge;
  HostNode& node = runtime.add_node(*stream.capture->graph, *stream.device, type, std::move(work), dependencies);
  stream.capture_dependencies.assign(1, {&node});
  return node;
}

void break_capture(const HostStream& stream, Call call, const Result& result) {
  if (stream.capture == nullptr || !is_active(*stream.capture)) return;
  CaptureFindings::ObservedCall reported = reported_call(cuda_name(call), result.code(), nullptr);
  reported.detail = result.detail();
  reported.stream = handle_of(stream);
  break_one(*stream.capture, std::move(reported));
}

void note_refused(HostRuntime& runtime, Call call, const Result& result) {
  // Other failures do not concern the graph.
  if (!is_work(class_of(call)) && !is_about_captures(result.code())) return;
  for (const auto& capture : runtime.captures) {
    if (!is_active(*capture) || capture->thread != std::this_thread::get_id()) continue;
    CaptureFindings::ObservedCall reported = reported_call(cuda_name(call), result.code(), result.rule());
    if (result.rule() == nullptr) reported.detail = result.detail();
    add_call(capture->findings.refused, std::move(reported));
  }
}

void finish_capture(HostRuntime& runtime, HostCapture& capture) {
  capture.state = HostCapture::State::ended;
  std::shared_ptr<HostCapture> alive;  // the streams may hold the last references
  for (HostStream* stream : capture.streams) {
    alive = std::move(stream->capture);
    stream->capture = nullptr;
    stream->capture_dependencies.clear();
  }
  capture.streams.clear();
  capture.graph = nullptr;
  std::erase_if(runtime.captures, [&](const auto& other) { return other.get() == &capture; });
}

void drop_capture(HostRuntime& runtime, HostCapture& capture) {
  if (capture.graph == nullptr) crash_as_driver("the capture of a body ends whose conditional node was destroyed");
  const HostNode* const owner = capture.graph->owner;
  if (!capture.owns_graph && owner != nullptr && owner->type == NodeType::conditional) capture.graph->lost = true;
  HostGraph* graph = capture.owns_graph ? capture.graph : nullptr;
  finish_capture(runtime, capture);
  if (graph != nullptr) runtime.destroy(*graph);
}

void lose_graph(HostCapture& capture) noexcept {
  try {
    CaptureFindings::ObservedCall reported =
        reported_call("cuGraphDestroy", ErrorCode::stream_capture_invalidated, nullptr);
    reported.detail = "the graph that the capture added to was destroyed with the node that it belonged to";
    break_one(capture, std::move(reported));
  } catch (const std::bad_alloc&) {
    capture.state = HostCapture::State::invalidated;  // without a finding
  }
  capture.graph = nullptr;
  capture.owns_graph = false;
  capture.left_behind.clear();
  for (HostStream* stream : capture.streams) stream->capture_dependencies.clear();
}

}  // namespace reprise::backend::host
