// SPDX-License-Identifier: Apache-2.0
#include "reprise/graph.h"

#include <chrono>
#include <utility>

#include "backend/check.h"
#include "backend/rules/call_stack.h"
#include "graph/capture/framework_captures.h"
#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "memory/capture_pools.h"
#include "memory/lifetime/release_queue.h"
#include "memory/pool_ids.h"
#include "reprise/detail/public_call.h"
#include "support/forked.h"
#include "text/format.h"
#include "text/require_named.h"

// The capture of a CUDAGraph, and its end of life. cuda_graph_replay.cpp has what is done with the executable,
// cuda_graph_inspect.cpp its queries.

namespace reprise {

using backend::RelaxedCaptureMode;
using backend::WarnOnError;
using graphs::ActiveCapture;

void graphs::require_named_options(const GraphOptions& options) {
  text::require_named("GraphOptions::capture_error_mode", options.capture_error_mode,
                      {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed},
                      "CaptureMode::global, CaptureMode::thread or CaptureMode::relaxed");
  text::require_named("GraphOptions::report", options.report, {ReportDetail::standard, ReportDetail::full},
                      "ReportDetail::standard or ReportDetail::full");
  text::require_named("GraphOptions::inputs.scope", options.inputs.scope, {Liveness::allocator, Liveness::all},
                      "Liveness::allocator or Liveness::all");
}

namespace {

// The runtime certainly releases the last reference, within about 160 us, when no other code can hold one.
constexpr std::chrono::microseconds certain_release_limit = std::chrono::seconds(5);
// A replay may still be running, whose resources are released by a later call; usually none is.
constexpr std::chrono::microseconds uncertain_release_limit = std::chrono::microseconds(500);

// CUDA refuses both only when the capture has ended.
void require_flags(const char* call, InstantiateFlags flags) {
  constexpr auto all = InstantiateFlags::auto_free_on_launch | InstantiateFlags::upload |
                       InstantiateFlags::device_launch | InstantiateFlags::use_node_priority;
  if ((flags | all) != all)
    throw UsageError(
        text::format("{}: GraphOptions::instantiate_flags expected a combination of InstantiateFlags; found the number "
                     "{}, of which the bits {} have no name; combine the named flags with |.",
                     call, static_cast<unsigned>(flags), static_cast<unsigned>(flags) & ~static_cast<unsigned>(all)));
  constexpr auto both = InstantiateFlags::auto_free_on_launch | InstantiateFlags::device_launch;
  if ((flags & both) == both)
    throw UsageError(
        text::format("{}: GraphOptions::instantiate_flags has auto_free_on_launch and device_launch, which CUDA does "
                     "not combine: a graph that the device launches cannot free what it allocated. Remove one.",
                     call));
}

bool any_hook(const GraphHooks& hooks) {
  return hooks.captured || hooks.instantiated || hooks.before_replay || hooks.after_replay || hooks.reset;
}

}  // namespace

[[gnu::hot]] CUDAGraph::Impl& CUDAGraph::Impl::of(const CUDAGraph& graph, const char* call) {
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
  if (wanted.discard_template && keeps(wanted) == KeepGraph::yes)
    throw UsageError(
        text::format("{}: GraphOptions::discard_template was set for a graph with KeepGraph::yes, which promises its "
                     "template; use one of the two.",
                     call));
  require_flags(call, wanted.instantiate_flags);
  graphs::require_named_options(wanted);
  if (wanted.pool && !memory::is_made(wanted.pool))
    throw UsageError(text::format(
        "{}: GraphOptions::pool expected an id of graph_pool_handle(), or the pool() of a graph; found {}, "
        "which no call has returned. Take a new id from graph_pool_handle().",
        call, memory::pool_id_text(wanted.pool)));
  const char* const option = wanted.warmup != 0           ? "GraphOptions::warmup"
                             : wanted.check_frozen_values ? "GraphOptions::check_frozen_values"
                                                          : nullptr;
  if (option != nullptr && body_call == nullptr)
    throw UsageError(
        text::format("{}: {} needs a body that can run more than once, and only capture() has one: use that, or remove "
                     "the option.",
                     call, option));
  if (stream == nullptr) return;
  if (stream->is_default())
    throw UsageError(
        text::format("{}{}: the stream to capture is the legacy default stream of {}, which cannot be "
                     "captured. Make another stream current with StreamGuard, or use capture() or the "
                     "scope graph, which have one.",
                     call, graphs::of_graph(wanted.name), stream->device().str()));
  if (wanted.stream.has_value() && *wanted.stream != *stream)
    throw UsageError(
        text::format("{}: GraphOptions::stream is not the calling thread's current stream. Make it current "
                     "with StreamGuard, remove the option, or use capture() or the scope graph, which "
                     "make it current.",
                     call));
}

namespace {

// Adds the error that emptied a graph after its capture had ended well, if the device or its memory is to blame: other
// errors say themselves what to do. Nothing if the capture had failed.
void add_failure(std::optional<CaptureReport>& report, const Error& error, Device device, const std::string& graph) {
  if (report && (report->code != ErrorCode::success || report->broken_by)) return;
  const auto* const failed = dynamic_cast<const BackendError*>(&error);
  if (failed == nullptr && dynamic_cast<const OutOfMemoryError*>(&error) == nullptr) return;
  CaptureReport made = report.value_or(CaptureReport{});
  made.graph = graph;
  made.device = device.str();
  made.code = failed != nullptr ? failed->code() : ErrorCode::out_of_memory;
  if (failed != nullptr)
    made.broken_by = CaptureReport::Call{.name = failed->call(),
                                         .result = failed->code(),
                                         .rule = result_description(failed->code()),
                                         .thread = backend::thread_number()};
  made.notes.emplace_back(error.what());
  report = std::move(made);
}

}  // namespace

template <class Step>
void CUDAGraph::Impl::or_make_empty(const Step& step) {
  try {
    step();
  } catch (const Error& error) {
    const Device where = *device;
    const std::string name = options.name;
    make_empty();
    add_failure(last_report, error, where, name);
    throw;
  } catch (...) {
    make_empty();
    throw;
  }
}

void CUDAGraph::Impl::begin_on_current_stream(const char* call, const GraphOptions& wanted) {
  const detail::PublicCall public_call(call);
  const Use use(*this);
  join_framework();
  const StreamRef stream = current_stream();
  require_can_begin(call, wanted, &stream);
  begin(call, stream, wanted);
}

void CUDAGraph::Impl::begin(const char* call, const StreamRef& stream, const GraphOptions& wanted) {
  last_report.reset();
  memory::ReleaseQueue::drain();
  refuse_destroyed(call);
  options = wanted;
  options.enable_annotations |= options.progress_marks;
  device = stream.device();
  pool = wanted.pool ? wanted.pool : memory::new_capture_pool_id();
  if (wanted.pool) memory::return_held_back_blocks(stream.device());
  or_make_empty([&] {
    capture.emplace(stream, options, pool, listeners.in_order());
    capture->begin(call);
    keep = keeps(wanted);
    if (any_hook(options.hooks)) option_hooks = hooks.add(std::exchange(options.hooks, {}));
  });
  state = State::capturing;
}

void CUDAGraph::Impl::end(const char* call, const void* frame) {
  const detail::PublicCall public_call(call);
  refuse_in_own_hook(call);
  require(call, {State::capturing});
  const captures::Capture& underway = capture->capture();
  if (underway.mode() != CaptureMode::relaxed && underway.owner() != std::this_thread::get_id())
    throw UsageError(
        text::format("{} was called on another thread than the one that began the capture. In the modes `global` and "
                     "`thread` a capture ends where it began: call it there, or begin with CaptureMode::relaxed. The "
                     "capture continues.",
                     call));
  if (current_stream() != underway.stream())
    throw UsageError(
        text::format("{} needs the stream that the capture began on as the calling thread's current stream; found "
                     "another one. Make it current again. The capture continues.",
                     call));
  {
    const std::lock_guard lock(launch_mutex);  // replays of other threads wait until the capture is complete
    complete_capture(call, frame);
  }
  if (last_report && graphs::shows_a_fault(*last_report)) warn("A capture left something out. " + last_report->str());
}

void CUDAGraph::Impl::complete_capture(const char* call, const void* frame) {
  may_discard = options.discard_template && !debug;
  or_make_empty([&] {
    const graphs::NamedThread calling(hook_thread);
    require_framework_took_part(call);
    graphs::CapturedGraph captured = capture->end(frame, reads_nodes_again() ? &changes : nullptr);
    template_graph = captured.template_graph;
    changes.captured(captured.may_copy || capture->has_inner_nodes());
    const memory::NodeMemory* const left = listeners.pool().node_memory();
    counted.captured(*device, captured.nodes, left != nullptr ? left->bytes() : 0);
    of_executables = std::move(captured.of_executables);
    in_replays = std::move(captured.in_replays);
    may_discard = may_discard && !captured.needs_template;
    resources.hold(keep, backend(), template_graph, std::move(captured.resources));
    // Other memory may be kept after a change of nodes; what replays leave is freed behind the last one.
    if (options.inputs.retain || left != nullptr) resources.track_launches();
    state = State::captured;               // for the hooks, which may query it
    if (hooks.captured(template_graph)) {  // they may have edited the template
      give_out_template();
      changes.forget();
    }
    refuse_destroyed(call);
    find_parameters();
    if (keep == KeepGraph::no && !without_executable) {
      make_executable(capture->capture().stream().native());
      state = State::ready;
      notify_instantiated(call);
    }
    replays_notify = takes_part_in_replays();
  });
  may_discard = may_discard && parameters.empty();
  if (may_discard && !without_executable) discard_template();
  if (!without_executable && parameters.empty()) changes.forget();  // nothing may ever need it again
  capture->commit();
  last_report = capture->take_report();
  capture.reset();
  options.check_frozen_values = nullptr;  // what it holds is not the graph's
}

// What the framework would have captured, or refused, is not known.
void CUDAGraph::Impl::require_framework_took_part(const char* call) const {
  if (listeners.framework() != nullptr || graphs::framework_captures() == nullptr) [[likely]]
    return;
  throw UsageError(
      text::format("{}{}: {} was installed while the graph was being captured. Its work may be missing: capture the "
                   "graph again, and install a framework before captures begin.",
                   call, graphs::of_graph(options.name), backend::installed_framework()->name()));
}

// Several listeners may read all nodes, and recapture() compares them afterwards.
bool CUDAGraph::Impl::reads_nodes_again() const noexcept {
  return without_executable || options.check_input_liveness || options.inputs.retain || options.check_frozen_values;
}

void CUDAGraph::Impl::discard_template() noexcept {
  counted.template_discarded();
  (void)destroy_template();
}

bool CUDAGraph::Impl::destroy_template() noexcept {
  GraphHandle const graph = std::exchange(template_graph, nullptr);
  if (shared_template == nullptr) return WarnOnError(backend()).graph_destroy(graph);
  const std::shared_ptr<graphs::SharedTemplate> last = std::move(shared_template);
  return last.use_count() == 1;
}

void CUDAGraph::Impl::make_empty() noexcept {
  if (support::forked()) [[unlikely]]
    return;
  const graphs::NamedThread calling(hook_thread);
  if (node_link != nullptr) std::exchange(node_link, nullptr)->graph = nullptr;
  changes.reset();
  parameters.reset();
  if (device.has_value()) {
    const RelaxedCaptureMode relaxed(backend());
    counted.reset();
    constexpr auto owns = InstantiateFlags::auto_free_on_launch;
    if (memory::NodeMemory* const left = listeners.pool().node_memory())
      left->graph_ends((options.instantiate_flags & owns) == owns, resources.last_launch());
    bool destroyed = true;
    if (exec != nullptr) destroyed &= WarnOnError(backend()).graph_exec_destroy(std::exchange(exec, nullptr));
    if (template_graph != nullptr) destroyed &= destroy_template();
    values_of = nullptr;  // `resources` hold it until the launches are over
    // What the runtime refused to destroy keeps what is attached to it: nothing is waited for.
    const bool uncertain = in_use_elsewhere.exchange(false) || !destroyed;
    if (!resources.release(uncertain ? uncertain_release_limit : certain_release_limit) && !uncertain)
      warn(
          "The device runtime did not release a graph that was never replayed: its memory pool stays reserved until "
          "it does.");
    if (timer != nullptr) std::exchange(timer, nullptr)->reset();
    of_executables.clear();
    in_replays.clear();
    replays_notify = false;
    device.reset();
    pool = {};
    may_be_edited = false;
    state = State::empty;  // for the hooks that come now
    if (capture.has_value()) {
      hooks.reset();  // what was acquired last is released first
      capture->unwind();
      last_report = capture->take_report();
      capture.reset();
    }
    for (graphs::CaptureListener* const listener : listeners.in_order()) listener->reset();
    hooks.reset();
    options = {};
    if (option_hooks) hooks.remove(*std::exchange(option_hooks, std::nullopt));
  }
  memory::ReleaseQueue::drain();
}

CUDAGraph::CUDAGraph(KeepGraph keep_graph) : impl_(std::make_unique<Impl>(keep_graph)) {
  impl_->owner = this;
}

CUDAGraph::CUDAGraph(CUDAGraph&& other) noexcept : impl_(std::move(other.impl_)) {
  if (impl_ != nullptr) impl_->owner = this;
}

CUDAGraph::~CUDAGraph() {
  if (impl_ != nullptr) Impl::end_of_life(*this);
}

CUDAGraph& CUDAGraph::operator=(CUDAGraph&& other) noexcept {
  if (this == &other) return *this;
  if (impl_ != nullptr) Impl::end_of_life(*this);
  impl_ = std::move(other.impl_);
  if (impl_ != nullptr) impl_->owner = this;
  return *this;
}

// Empties the Impl while the graph still owns it, as hooks may use the graph.
void CUDAGraph::Impl::end_of_life(CUDAGraph& graph) noexcept {
  if (support::forked()) [[unlikely]] {
    static_cast<void>(graph.impl_.release());  // its members would call the device, and wait
    return;
  }
  Impl& impl = *graph.impl_;
  if (impl.uses != 0 || impl.hook_runs()) {
    impl.deferred_owner.emplace(std::move(graph));
    return;
  }
  impl.make_empty();
  impl.destroy_if_deferred();
}

void CUDAGraph::Impl::refuse_destroyed(const char* call) const {
  if (deferred_owner) [[unlikely]]
    throw UsageError(
        text::format("{}: the graph was destroyed, or assigned to, before this call had returned: within a hook of its "
                     "own, in the body of its capture, or by an object that it had retained. Everything that it held "
                     "is released; end the life of a graph when no call of it is underway.",
                     call));
}

void CUDAGraph::Impl::destroy_if_deferred() noexcept {
  if (!deferred_owner || uses != 0 || hook_runs()) return;
  const CUDAGraph last(std::move(*deferred_owner));
  deferred_owner.reset();
}

void CUDAGraph::capture_begin(const GraphOptions& options) {
  constexpr const char* call = "CUDAGraph::capture_begin";
  Impl::of(*this, call).begin_on_current_stream(call, options);
}

void CUDAGraph::capture_begin(MempoolId pool, CaptureMode capture_error_mode) {
  GraphOptions options;
  options.pool = pool;
  options.capture_error_mode = capture_error_mode;
  capture_begin(options);
}

void CUDAGraph::register_generator_state(const Generator& generator) {
  Impl& impl = Impl::of(*this, "CUDAGraph::register_generator_state");
  impl.require("CUDAGraph::register_generator_state", {Impl::State::empty});
  impl.listeners.random().register_generator(generator);
}

void CUDAGraph::retain(std::shared_ptr<void> object) {
  constexpr const char* call = "CUDAGraph::retain";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);
  impl.require(call, {Impl::State::capturing, Impl::State::captured, Impl::State::ready});
  if (object == nullptr)
    throw UsageError(text::format("{} expected an object to keep alive, and was passed a null pointer.", call));
  impl.listeners.retain().retain(std::move(object), impl.resources);
  impl.resources.track_launches();
}

bool CUDAGraph::release(const std::shared_ptr<void>& object) {
  Impl& impl = Impl::of(*this, "CUDAGraph::release");
  {
    const Impl::LaunchLock lock(impl);
    if (object == nullptr || impl.state == Impl::State::empty) return false;
    std::shared_ptr<void> taken = impl.listeners.retain().take(object);
    if (taken == nullptr) return false;
    impl.resources.release_after_launches(std::move(taken));
  }
  memory::ReleaseQueue::drain();
  return true;
}

[[gnu::noinline]] void CUDAGraph::capture_end() {
  constexpr const char* call = "CUDAGraph::capture_end";
  Impl& impl = Impl::of(*this, call);
  const Impl::Use use(impl);
  impl.end(call, __builtin_frame_address(0));
}

void CUDAGraph::capture_abandon() noexcept {
  if (impl_ == nullptr || !impl_->capture.has_value() || impl_->state == Impl::State::empty) return;
  Impl& impl = *impl_;
  if (impl.hook_runs())
    return warn(
        "CUDAGraph::capture_abandon was called within a hook of the same graph, and did nothing: throw an exception.");
  const Impl::Use use(impl);
  impl.make_empty();
}

void release_finished_graphs() noexcept {
  memory::ReleaseQueue::drain();
}

void CUDAGraph::reset() {
  Impl& impl = Impl::of(*this, "CUDAGraph::reset");
  const Impl::Use use(impl);
  impl.refuse_while_hook_runs("CUDAGraph::reset");
  impl.refuse_reserved("CUDAGraph::reset");
  impl.require("CUDAGraph::reset", {Impl::State::empty, Impl::State::captured, Impl::State::ready});
  impl.make_empty();
  impl.refuse_destroyed("CUDAGraph::reset");
}

}  // namespace reprise
