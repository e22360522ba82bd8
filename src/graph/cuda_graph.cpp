// SPDX-License-Identifier: Apache-2.0
#include "reprise/graph.h"

#include <chrono>
#include <utility>

#include "backend/check.h"
#include "backend/lifetime/release_queue.h"
#include "backend/lifetime/tracked_stream.h"
#include "backend/rules/call_stack.h"
#include "graph/cuda_graph_impl.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "memory/pool_ids.h"
#include "text/format.h"

// The capture of a CUDAGraph, and its end of life. cuda_graph_replay.cpp has what is done with the executable,
// cuda_graph_inspect.cpp what can be asked.

namespace reprise {

using backend::Checked;
using backend::RelaxedCaptureMode;
using backend::WarnOnError;
using graphs::ActiveCapture;
using graphs::CaptureContext;

namespace {

// The runtime certainly releases the last reference, within about 160 us, when no other code can hold one.
constexpr std::chrono::microseconds certain_release_limit = std::chrono::seconds(5);
// A replay may still be running, whose resources are released by a later call; usually none is.
constexpr std::chrono::microseconds uncertain_release_limit = std::chrono::microseconds(500);

CaptureStatus capture_status(const StreamRef& stream) {
  CaptureStatus status = CaptureStatus::none;
  Checked(stream.device().backend()).stream_is_capturing(stream.native(), &status);
  return status;
}

}  // namespace

CUDAGraph::Impl& CUDAGraph::Impl::of(const CUDAGraph& graph, const char* call) {
  if (graph.impl_ == nullptr)
    throw UsageError(
        text::format("{} was called on a CUDAGraph that was moved from: use the graph that it was moved "
                     "to, or assign a new one first.",
                     call));
  return *graph.impl_;
}

void CUDAGraph::Impl::require_can_begin(const char* call, const GraphOptions& wanted, const StreamRef* stream) const {
  refuse_in_own_hook(call);
  require(call, {State::empty});
  if (wanted.discard_template && keep == KeepGraph::yes)
    throw UsageError(
        text::format("{}: GraphOptions::discard_template was set for a graph that was made with "
                     "KeepGraph::yes, which promises its template; use one of the two.",
                     call));
  if (const char* const option = rehearses ? nullptr : needs_rehearsal(wanted))
    throw UsageError(
        text::format("{}: {} needs a body that can be captured twice, and only capture(graph, options, body) has one: "
                     "use that, or remove the option.",
                     call, option));
  if (stream == nullptr) return;
  if (backend::is_legacy_default(*stream))
    throw UsageError(
        text::format("{}: the stream to capture is the legacy default stream of {}, which cannot be "
                     "captured. Make another stream current with StreamGuard, or use capture() or the "
                     "scope graph, which have one.",
                     call, stream->device().str()));
  if (wanted.stream.has_value() && *wanted.stream != *stream)
    throw UsageError(
        text::format("{}: GraphOptions::stream is not the calling thread's current stream. Make it current "
                     "with StreamGuard, remove the option, or use capture() or the scope graph, which "
                     "make it current.",
                     call));
  if (capture_status(*stream) != CaptureStatus::none)
    throw UsageError(
        text::format("{}: the stream takes part in a capture already. End that one first, or capture on "
                     "another stream.",
                     call));
}

const char* CUDAGraph::Impl::needs_rehearsal(const GraphOptions& wanted) const noexcept {
  for (const graphs::CaptureListener* const listener : listeners.in_order())
    if (const char* const option = listener->needs_rehearsal(wanted)) return option;
  return nullptr;
}

void CUDAGraph::Impl::begin(const StreamRef& stream, const GraphOptions& wanted) {
  last_report.reset();
  backend::ReleaseQueue::drain();
  const MempoolId id = wanted.pool ? wanted.pool : memory::new_capture_pool_id();
  const CaptureContext context{stream.device(), stream, wanted.capture_error_mode, id, 0, wanted};
  capture = std::make_unique<ActiveCapture>(context, listeners.in_order());
  options = wanted;
  device = stream.device();
  pool = id;
  state = State::capturing;
}

void CUDAGraph::Impl::end() {
  refuse_in_own_hook("CUDAGraph::capture_end");
  require("CUDAGraph::capture_end", {State::capturing});
  const CaptureContext& context = capture->context();
  if (context.mode != CaptureErrorMode::relaxed && capture->owner() != std::this_thread::get_id())
    throw UsageError(
        "CUDAGraph::capture_end was called on another thread than the one that began the capture. In the "
        "modes `global` and `thread_local_` a capture ends where it began: call it there, or begin with "
        "CaptureErrorMode::relaxed. The capture goes on.");
  if (current_stream() != context.stream)
    throw UsageError(
        "CUDAGraph::capture_end needs the stream that the capture began on as the calling thread's "
        "current stream, and another one is current: make it current again. The capture goes on.");
  try {
    const CallingListeners calling(*this);
    template_graph = capture->end();
    hooks.captured(template_graph);
    graphs::GraphResources::Resources held;
    for (graphs::CaptureListener* const listener : listeners.in_order())
      if (auto resource = listener->take_resource()) held.push_back(std::move(resource));
    resources.hold(backend(), template_graph, std::move(held));
    if (keep == KeepGraph::no) {
      make_executable(context.stream.native());
      notify_instantiated();
    }
    for (graphs::CaptureListener* const listener : listeners.in_order())
      if (listener->takes_part_in_replays()) in_replays.push_back(listener);
    replays_notify = !in_replays.empty() || hooks.take_part_in_replays();
  } catch (const Error& error) {
    const Device where = *device;
    make_empty();
    report_failure(error, where);
    throw;
  } catch (...) {
    make_empty();
    throw;
  }
  if (options.discard_template && !debug) WarnOnError(backend()).graph_destroy(std::exchange(template_graph, nullptr));
  capture->commit();
  last_report = capture->take_report();
  capture.reset();
  state = keep == KeepGraph::no ? State::ready : State::captured;
  if (last_report) warn("A capture left something out. " + last_report->str());
}

void CUDAGraph::Impl::report_failure(const Error& error, Device where) {
  if (last_report) return;
  CaptureReport report;
  report.device = where.str();
  if (const auto* const failed = dynamic_cast<const BackendError*>(&error)) {
    report.code = failed->code();
    report.broken_by = CaptureReport::Call{.name = failed->call(),
                                           .result = failed->code(),
                                           .rule = result_description(failed->code()),
                                           .thread = backend::thread_number()};
  } else if (dynamic_cast<const OutOfMemoryError*>(&error) != nullptr) {
    report.code = Result::out_of_memory;
  } else {
    return;  // the program was wrong, and was told so
  }
  report.notes.emplace_back(error.what());
  last_report = std::move(report);
}

void CUDAGraph::Impl::make_empty() noexcept {
  const CallingListeners calling(*this);
  if (device.has_value()) {
    const RelaxedCaptureMode relaxed(backend());
    bool destroyed = true;
    if (exec != nullptr) destroyed &= WarnOnError(backend()).graph_exec_destroy(std::exchange(exec, nullptr));
    if (template_graph != nullptr)
      destroyed &= WarnOnError(backend()).graph_destroy(std::exchange(template_graph, nullptr));
    // What the runtime refused to destroy keeps what is attached to it: nothing is waited for.
    const bool uncertain = in_use_elsewhere.exchange(false) || !destroyed;
    if (!resources.release(uncertain ? uncertain_release_limit : certain_release_limit) && !uncertain)
      warn(
          "The device runtime did not release a graph that was never replayed: its memory pool stays reserved until "
          "it does.");
    in_replays.clear();
    replays_notify = false;
    device.reset();
    pool = {};
    options = {};
    state = State::empty;  // for the hooks that come now
    if (capture != nullptr) {
      hooks.reset();  // what was acquired last is released first
      capture->unwind();
      last_report = capture->take_report();
      capture.reset();
    }
    for (graphs::CaptureListener* const listener : listeners.in_order()) listener->reset();
    hooks.reset();
  }
  backend::ReleaseQueue::drain();
}

CUDAGraph::CUDAGraph(KeepGraph keep_graph) : impl_(std::make_unique<Impl>(keep_graph)) {}
CUDAGraph::CUDAGraph(CUDAGraph&& other) noexcept = default;

// Emptied while this object still has it, as hooks may name it.
CUDAGraph::~CUDAGraph() {
  if (impl_ != nullptr) impl_->end_of_life();
}

CUDAGraph& CUDAGraph::operator=(CUDAGraph&& other) noexcept {
  if (this == &other) return *this;
  if (impl_ != nullptr) impl_->end_of_life();
  impl_ = std::move(other.impl_);
  return *this;
}

void CUDAGraph::Impl::end_of_life() noexcept {
  if (in_own_hook()) {
    warn("A CUDAGraph was destroyed, or assigned to, within a hook of its own, which goes on in what is gone.");
    std::abort();
  }
  make_empty();
}

void CUDAGraph::capture_begin(const GraphOptions& options) {
  constexpr const char* call = "CUDAGraph::capture_begin";
  Impl& impl = Impl::of(*this, call);
  impl.join_framework();
  const StreamRef stream = current_stream();
  impl.require_can_begin(call, options, &stream);
  impl.begin(stream, options);
}

void CUDAGraph::capture_begin(MempoolId pool, CaptureErrorMode capture_error_mode) {
  GraphOptions options;
  options.pool = pool;
  options.capture_error_mode = capture_error_mode;
  capture_begin(options);
}

void CUDAGraph::register_generator_state(const Generator& generator) {
  Impl& impl = Impl::of(*this, "CUDAGraph::register_generator_state");
  impl.require("CUDAGraph::register_generator_state", {Impl::State::empty});
  impl.listeners.random->register_generator(generator);
}

void CUDAGraph::retain(std::shared_ptr<void> object) {
  constexpr const char* call = "CUDAGraph::retain";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  impl.require(call, {Impl::State::capturing, Impl::State::captured, Impl::State::ready});
  if (object == nullptr)
    throw UsageError(text::format("{} expected an object to keep alive, and was passed a null pointer.", call));
  impl.listeners.retain->retain(std::move(object));
}

void CUDAGraph::capture_end() {
  Impl::of(*this, "CUDAGraph::capture_end").end();
}

void CUDAGraph::capture_abandon() noexcept {
  if (impl_ == nullptr || impl_->state != Impl::State::capturing) return;
  if (impl_->in_own_hook())
    warn("CUDAGraph::capture_abandon was called within a hook of the same graph, and did nothing: throw an exception.");
  else
    impl_->make_empty();
}

void CUDAGraph::reset() {
  Impl& impl = Impl::of(*this, "CUDAGraph::reset");
  impl.refuse_in_own_hook("CUDAGraph::reset");
  impl.require("CUDAGraph::reset", {Impl::State::empty, Impl::State::captured, Impl::State::ready});
  impl.make_empty();
}

}  // namespace reprise
