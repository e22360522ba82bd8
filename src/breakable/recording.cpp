// SPDX-License-Identifier: Apache-2.0
#include "breakable/recording.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/check.h"
#include "captures/registry.h"
#include "graph/cuda_graph_impl.h"
#include "inspect/annotations/capture_annotations.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/liveness/thread_stack.h"
#include "text/format.h"

namespace reprise {

namespace breakables {

using graphs::GraphAccess;
using inspect::CaptureAnnotations;

namespace {

constinit thread_local Recording* current_recording = nullptr;

}  // namespace

Recording* Recording::current() noexcept {
  return current_recording;
}

Recording::Suspended::Suspended() noexcept : before_(std::exchange(current_recording, nullptr)) {}
Recording::Suspended::~Suspended() {
  current_recording = before_;
}

Recording::Recording(CUDAGraph& last, Breaks& breaks, memory::LastLaunch& last_launch, RecordingPlan plan)
    : last_(last),
      breaks_(breaks),
      last_launch_(last_launch),
      plan_(std::move(plan)),
      before_(std::exchange(current_recording, this)) {}

Recording::~Recording() {
  abandon();
  current_recording = before_;
}

void Recording::abandon() noexcept {
  allow_outside();
  if (std::exchange(capturing_, false)) last_.capture_abandon();
  if (std::exchange(results_pending_, false)) breaks_.back().function->drop_results();
}

std::string Recording::segment_name(std::size_t number) const {
  return text::format("{}segment {}", name_.empty() ? "" : name_ + ", ", number);
}

void Recording::begin() {
  GraphOptions options = plan_.options;
  if (!breaks_.empty()) options.name = segment_name(breaks_.size() + 1);
  GraphAccess::Impl& impl = GraphAccess::of(last_, plan_.call);
  impl.without_executable = !plan_.instantiate;
  impl.listeners.liveness().look_for_freed_until_recorded();
  impl.begin_on_current_stream(plan_.call, options);
  capturing_ = true;
  forks_ = Forks::watch(impl.capture->capture());
  refuse_outside();
}

void Recording::refuse_outside() {
  outside_.emplace(plan_.captured);
  if (plan_.outside) outside_->add_current(*plan_.outside);
  std::erase_if(forks_before_, [](const Fork& each) { return each.has_ended(); });
  for (const Fork& each : forks_before_)
    if (each.stream != plan_.outside)
      outside_->add(each.stream,
                    text::format("the stream {} (forked off in an earlier segment, not in this one)",
                                 static_cast<const void*>(each.stream.native())),
                    each.tracked);
}

void Recording::allow_outside() noexcept {
  refused_outside_ |= outside_ && outside_->has_refused();
  outside_.reset();
}

// Returns the number of nodes.
std::size_t Recording::end_segment(bool is_last) {
  allow_outside();
  GraphAccess::Impl& impl = GraphAccess::of(last_, plan_.call);
  const captures::Found found = captures::find(plan_.captured);
  std::vector<GraphNodeHandle> nodes;
  if (found.part == captures::Part::own)  // else it is broken, and says so at its end
    nodes = backend::Checked(plan_.captured.device().backend()).nodes_of(found.info.graph);
  if (!is_last || !breaks_.empty()) impl.options.allow_empty = true;
  if (!is_last && breaks_.empty()) impl.options.name = segment_name(1);
  for (const StreamRef& each : forks_->streams())
    if (std::ranges::find(forks_before_, each, &Fork::stream) == forks_before_.end())
      forks_before_.push_back({each, backend::TrackedStream::find(each)});
  end_capture();
  nodes_ += nodes.size();
  return nodes.size();
}

void Recording::end_capture() {
  GraphAccess::Impl& impl = GraphAccess::of(last_, plan_.call);
  try {
    impl.end(plan_.call, plan_.frame);
  } catch (const CaptureError& error) {
    capturing_ = false;
    if (error.code() != ErrorCode::stream_capture_unjoined) throw;
    throw CaptureError(error.code(),
                       text::format("{}\nA segment ends at each eager part and at the end of the body, and forks must "
                                    "be joined there.",
                                    error.what()),
                       error.report());
  }
  capturing_ = false;
  impl.without_executable = false;
  impl.listeners.liveness().require_live(plan_.call);
}

// Nothing is freed behind the last segment, whose capture has found the rest.
void Recording::require_live() const {
  const auto liveness = [&](CUDAGraph& segment) -> inspect::LivenessListener& {
    return GraphAccess::of(segment, plan_.call).listeners.liveness();
  };
  for (Break& each : breaks_) liveness(each.segment).require_live_since(frees_, plan_.call, each.segment);
  liveness(last_).recorded();
}

void Recording::require_here() const {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  GraphAccess::of(last_, "eager").refuse_in_own_hook("eager");
  const StreamRef here = current_stream(plan_.captured.device());
  if (here == plan_.captured && current_device() == plan_.captured.device()) return;
  throw UsageError(
      text::format("eager: expected the stream on which {} captures as the current one; found another stream. An eager "
                   "part ends the capture of a segment, which is possible in its body only, not in bodies of control "
                   "flow, other captures, or with another stream current: end these scopes before the call.",
                   plan_.call));
}

// Local variables of the body, and the stream of the capture, are gone when the function runs in a replay.
void Recording::require_lasting(const eager_detail::Function& function) const {
  if (plan_.options.inputs.allow_stack) return;
  const std::span<const std::byte> object = function.object();
  if (plan_.frame != nullptr)
    if (const auto found = inspect::find_reference(object, inspect::ended_stack(plan_.frame)))
      throw UsageError(text::format(
          "eager: expected a function that refers to nothing of its body; found the address {} of the body's stack in "
          "it, at offset {}. The body has returned when replays run the function. Capture by value ([=]), "
          "or what outlives the graph. InputOptions::allow_stack allows it, also for bytes that no code wrote.",
          found->address, found->offset));
  if (!plan_.captured_is_internal) return;
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= object.size(); at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, object.data() + at, sizeof(word));
    if (word == reinterpret_cast<std::uintptr_t>(plan_.captured.native()))
      throw UsageError(text::format(
          "eager: expected a function without the stream of the capture, since replays run on another one; "
          "found it in the function, at offset {}. Take the stream as the parameter of the function, a "
          "StreamRef or cudaStream_t, or use current_stream() in it.",
          at));
  }
}

// The segment that has just become the last break, behind the results that it reads.
void Recording::run_segment_before() {
  if (!has_run_ && plan_.before_first_run) plan_.before_first_run();
  has_run_ = true;
  if (std::exchange(results_pending_, false)) {
    eager_detail::Function& before = *breaks_[breaks_.size() - 2].function;
    last_launch_.launch(*plan_.run, [&] { before.copy_results(*plan_.run); });
  }
  breaks_.back().launch(*plan_.run, last_launch_);
}

void Recording::run_part(std::unique_ptr<eager_detail::Function> function) {
  require_here();
  try {
    if (!plan_.run) {
      refused_ = true;
      throw UsageError(
          text::format("eager: expected a capture whose segments are executed, as those of breakable() and "
                       "GraphCache::run() are; found one of {}, which only captures: call GraphCache::run.",
                       plan_.call));
    }
    require_lasting(*function);
    const auto annotations = CaptureAnnotations::of(GraphAccess::of(last_, plan_.call).capture->capture());
    const std::size_t nodes = end_segment(/*is_last=*/false);
    Break& added = breaks_.emplace_back(Break{std::move(last_), nodes != 0, std::move(function)});
    last_ = CUDAGraph();
    run_segment_before();
    part_threw_ = true;
    added.run_function(*plan_.run, last_launch_);
    part_threw_ = false;
    results_pending_ = true;
    begin();
    if (annotations != nullptr)
      annotations->continue_in(CaptureAnnotations::of(GraphAccess::of(last_, plan_.call).capture->capture()));
  } catch (...) {
    fail_part();
    throw;
  }
}

void Recording::fail_part() noexcept {
  failure_ = std::current_exception();
  abandon();
}

void Recording::end() {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  last_has_nodes_ = end_segment(/*is_last=*/true) != 0;
  require_live();
  if (std::exchange(results_pending_, false))
    last_launch_.launch(*plan_.run, [&] { breaks_.back().function->copy_results(*plan_.run); });
}

}  // namespace breakables

bool eager_detail::is_breakable() {
  if (breakables::Recording::current() != nullptr) return true;
  const StreamRef stream = current_stream();
  if (stream.capture_status() == CaptureStatus::none) return false;
  throw UsageError(
      "eager: expected a current stream in no capture, or in one of breakable() or a GraphCache on this thread; found "
      "one in another capture, which cannot be interrupted. Capture the body with breakable(), and "
      "call eager() on the thread that runs it.");
}

void eager_detail::run_part(std::unique_ptr<Function> function) {
  breakables::Recording::current()->run_part(std::move(function));
}

void eager_detail::fail_part() noexcept {
  breakables::Recording::current()->fail_part();
}

void eager_detail::refuse_empty_function() {
  throw UsageError("eager expected a function to run; found an empty one: pass a function.");
}

}  // namespace reprise
