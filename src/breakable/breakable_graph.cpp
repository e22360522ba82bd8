// SPDX-License-Identifier: Apache-2.0
#include "breakable/breakable_graph.h"

#include <iterator>
#include <utility>

#include "breakable/recording.h"
#include "graph/capture/active_capture.h"
#include "graph/capture/framework_captures.h"
#include "graph/capture/internal_streams.h"
#include "graph/capture/warm_up.h"
#include "graph/launch_mutex.h"
#include "graph/replays.h"
#include "memory/allocator_impl.h"
#include "text/format.h"

namespace reprise {

using breakables::Recording;

namespace {

const char* text_of(BreakableGraph::Impl::State state) {
  switch (state) {
    case BreakableGraph::Impl::State::empty:
      return "an empty one, which captured nothing: capture with breakable() first";
    case BreakableGraph::Impl::State::capturing:
      return "one that is capturing: do it when breakable() has returned";
    case BreakableGraph::Impl::State::ready:
      return "one that has a capture: reset() it first, or use another object";
  }
  return "";
}

}  // namespace

std::shared_ptr<BreakableGraph::Impl> BreakableGraph::Impl::of(const std::shared_ptr<Impl>& impl, const char* call) {
  if (impl == nullptr)
    throw UsageError(
        text::format("{} was called on a BreakableGraph that was moved from: use the one that it was moved to, or "
                     "assign a new one first.",
                     call));
  return impl;
}

void BreakableGraph::Impl::require(const char* call, State expected) const {
  const State found = state.load(std::memory_order_relaxed);
  if (found == expected) return;
  throw UsageError(text::format("{}: expected a BreakableGraph that {}; found {}.", call,
                                expected == State::empty ? "is empty" : "has a capture", text_of(found)));
}

void BreakableGraph::Impl::refuse_within(const char* call) const {
  if (runner.load(std::memory_order_relaxed) == std::this_thread::get_id())
    throw UsageError(
        text::format("{} was called within an eager part or the capture of the same graph, which is running: call it "
                     "when that has returned.",
                     call));
}

void BreakableGraph::Impl::make_empty() noexcept {
  last = CUDAGraph();                         // what runs last is released first
  while (!breaks.empty()) breaks.pop_back();  // the last one first: it may refer to what earlier ones own
  last_launch = {};
  nodes = 0;
  name.clear();
  state = State::empty;
}

void BreakableGraph::Impl::capture(const GraphOptions& wanted, const CaptureBody& body, const void* frame) {
  constexpr const char* call = "breakable";
  if (!body) throw UsageError("breakable needs a body to run, and was passed an empty function.");
  refuse_within(call);
  const std::lock_guard lock(mutex);
  require(call, State::empty);
  const StreamRef run = wanted.stream ? *wanted.stream : current_stream();
  graphs::require_no_capture(call, run);
  if (Recording::current() != nullptr)
    throw UsageError(
        "breakable: expected a call outside of other captures with eager parts; found one within their body. Call its "
        "body directly there, or breakable() in an eager part.");
  const graphs::NamedThread running(runner);
  report.reset();
  GraphOptions options = wanted;
  if (options.warmup != 0) const graphs::WarmUp warm_up(options, body, nullptr);
  options.warmup = 0;
  if (!options.pool) options.pool = graph_pool_handle();
  state = State::capturing;
  try {
    record(options, body, run, frame);
  } catch (...) {
    report = last.capture_report();
    make_empty();
    if (const auto* const framework = graphs::framework_captures()) framework->add_to_exception();
    throw;
  }
  name = wanted.name;
  report = whole_report();
  state = State::ready;
}

void BreakableGraph::Impl::record(const GraphOptions& options, const CaptureBody& body, const StreamRef& run,
                                  const void* frame) {
  CachingAllocator::of(run.device()).impl().synchronize_if_no_capture();
  std::optional<graphs::InternalStream> internal;
  const StreamRef captured = options.stream ? run : internal.emplace(run.device()).ref();
  const StreamRef outside = current_stream(run.device());
  const StreamGuard current(captured);
  Recording recording(last, breaks, last_launch,
                      {.call = "breakable",
                       .options = options,
                       .captured = captured,
                       .run = run,
                       .outside = outside,
                       .frame = frame,
                       .captured_is_internal = !options.stream});
  recording.begin();
  body(captured);
  recording.end();
  last_has_nodes = recording.last_has_nodes();
  nodes = recording.nodes();
  const Recording::Suspended suspended;  // in hooks of the segment
  replay_last(run);
}

std::optional<CaptureReport> BreakableGraph::Impl::whole_report() const {
  std::optional<CaptureReport> whole;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (std::size_t i = 0; i <= breaks.size(); ++i) {
    const std::optional<CaptureReport>& each = (i < breaks.size() ? breaks[i].segment : last).capture_report();
    if (!each) continue;
    if (!whole) {
      whole = each;
      whole->nodes = nodes;
      continue;
    }
    append(whole->refused, each->refused);
    append(whole->not_captured, each->not_captured);
    append(whole->host_accesses, each->host_accesses);
    append(whole->notes, each->notes);
  }
  return whole;
}

void BreakableGraph::Impl::replay(const StreamRef& stream) {
  constexpr const char* call = "BreakableGraph::replay";
  refuse_within(call);
  const std::lock_guard lock(mutex);
  require_ready(call);
  if (stream.device() != last.device())
    throw UsageError(
        text::format("{}: expected a stream of device {}, on which the graph was captured; found one of {}.", call,
                     last.device().str(), stream.device().str()));
  if (stream.capture_status() != CaptureStatus::none)
    throw UsageError(
        text::format("{}: expected a stream that is not being captured; found one that is, and eager parts cannot run "
                     "in a capture. Call the body itself within breakable(), or replay outside.",
                     call));
  if (!last_launch.order_before(stream))
    throw UsageError(
        text::format("{}: expected to wait for the last replay on another stream; found that stream in a capture. End "
                     "the capture first, or replay on that stream after it.",
                     call));
  const graphs::NamedThread running(runner);
  run(breaks, stream, last_launch);
  replay_last(stream);
}

void BreakableGraph::Impl::replay_last(const StreamRef& stream) {
  if (!last_has_nodes) return;
  if (const std::exception_ptr thrown = graphs::replay_in_order(last_launch, last, stream))
    std::rethrow_exception(thrown);
}

BreakableGraph::BreakableGraph() : impl_(std::make_shared<Impl>()) {}
BreakableGraph::~BreakableGraph() = default;
BreakableGraph::BreakableGraph(BreakableGraph&& other) noexcept = default;
BreakableGraph& BreakableGraph::operator=(BreakableGraph&& other) noexcept = default;

void BreakableGraph::replay() {
  const std::shared_ptr<Impl> impl = Impl::of(impl_, "BreakableGraph::replay");
  impl->refuse_within("BreakableGraph::replay");
  impl->require_ready("BreakableGraph::replay");
  impl->replay(current_stream(impl->last.device()));
}

void BreakableGraph::replay(const StreamRef& stream) {
  Impl::of(impl_, "BreakableGraph::replay")->replay(stream);
}

void BreakableGraph::reset() {
  const std::shared_ptr<Impl> impl = Impl::of(impl_, "BreakableGraph::reset");
  impl->refuse_within("BreakableGraph::reset");
  const std::lock_guard lock(impl->mutex);
  impl->make_empty();
}

std::size_t BreakableGraph::segment_count() const {
  const auto impl = Impl::of(impl_, "BreakableGraph::segment_count");
  impl->require_ready("BreakableGraph::segment_count");
  return impl->breaks.size() + 1;
}

const CUDAGraph& BreakableGraph::segment(std::size_t number) const {
  constexpr const char* call = "BreakableGraph::segment";
  const auto impl = Impl::of(impl_, call);
  impl->require_ready(call);
  if (number > impl->breaks.size())
    throw UsageError(text::format("{}: expected a number below {}, the number of segments; found {}.", call,
                                  impl->breaks.size() + 1, number));
  return number < impl->breaks.size() ? impl->breaks[number].segment : impl->last;
}

MempoolId BreakableGraph::pool() const {
  const auto impl = Impl::of(impl_, "BreakableGraph::pool");
  impl->require_ready("BreakableGraph::pool");
  return impl->last.pool();
}

Device BreakableGraph::device() const {
  const auto impl = Impl::of(impl_, "BreakableGraph::device");
  impl->require_ready("BreakableGraph::device");
  return impl->last.device();
}

std::string BreakableGraph::name() const {
  return Impl::of(impl_, "BreakableGraph::name")->name;
}

const std::optional<CaptureReport>& BreakableGraph::capture_report() const {
  return Impl::of(impl_, "BreakableGraph::capture_report")->report;
}

[[gnu::noinline]] void breakable(BreakableGraph& graph, const GraphOptions& options, CaptureBody body) {
  BreakableGraph::Impl::of(graph.impl_, "breakable")->capture(options, body, __builtin_frame_address(0));
}

BreakableGraph breakable(const GraphOptions& options, CaptureBody body) {
  BreakableGraph made;
  breakable(made, options, body);
  return made;
}

BreakableGraph breakable(CaptureBody body) {
  return breakable(GraphOptions{}, body);
}

}  // namespace reprise
