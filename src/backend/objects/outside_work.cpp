// SPDX-License-Identifier: Apache-2.0
#include "backend/objects/outside_work.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/objects/thread_tag.h"
#include "reprise/detail/public_call.h"
#include "support/thread_object.h"
#include "text/format.h"

namespace reprise::backend {

struct OutsideWork::State {
  struct Each {
    StreamRef stream;
    std::string name;
    std::shared_ptr<TrackedStream> tracked;
  };

  explicit State(const StreamRef& stream) : captured(stream) {}

  const StreamRef captured;
  const void* const thread = thread_tag();
  std::atomic<bool> over = false;
  std::vector<Each> streams = {};
  bool has_refused = false;
};

namespace {

using States = std::vector<std::shared_ptr<OutsideWork::State>>;

// States of the calling thread, the last one at the end. One that ended on another thread stays until the next begins.
States& states() {
  return support::ThreadObject<States>::get();
}

bool is_relaxed(const Checked& runtime) {
  auto mode = CaptureMode::relaxed;
  runtime.thread_exchange_capture_mode(&mode);
  auto before = mode;
  runtime.thread_exchange_capture_mode(&before);
  return mode == CaptureMode::relaxed;
}

std::string added_name_of(const OutsideWork::State& state, const StreamRef& stream) {
  for (const auto& each : state.streams)
    if (each.stream == stream && (each.tracked == nullptr || each.tracked->is(stream))) return each.name;
  return {};
}

// What errors call a stream on which work is refused; else empty.
std::string name_of(const States& all, const OutsideWork::State& last, const StreamRef& stream) {
  if (stream == last.captured) return {};
  if (stream.is_default()) return "the legacy default stream of " + stream.device().str();
  if (stream.device() != last.captured.device()) return "a stream of " + stream.device().str();
  std::string name;
  for (const auto& each : all)
    if (!each->over && each->captured == last.captured && name.empty()) name = added_name_of(*each, stream);
  return name;
}

// No stream is the right one where the work is for another device: the wrong device was current.
std::string advice_for(const StreamRef& captured, const StreamRef& stream) {
  const Device mine = captured.device(), other = stream.device();
  if (mine == other) return "Submit it to current_stream(), or to a stream that was forked off it by StreamRef::wait()";
  return text::format(
      "The capture is one of {}: begin it while {} is current (DeviceGuard){}", mine.str(), other.str(),
      same_runtime(mine, other) ? ", or fork the stream off current_stream() by StreamRef::wait()" : "");
}

// While a blocking stream captures, the query of the legacy stream is refused: so will be the work, with a report.
bool takes_effect_outside(const StreamRef& captured, const StreamRef& stream) {
  return known_capture_status(stream) == CaptureStatus::none &&
         known_capture_status(captured) == CaptureStatus::active && !is_relaxed(Checked(captured.device().backend()));
}

}  // namespace

OutsideWork::OutsideWork(const StreamRef& captured) : state_(std::make_shared<State>(captured)) {
  std::erase_if(states(), [](const auto& each) { return each->over.load(); });
  states().push_back(state_);
}

OutsideWork::~OutsideWork() {
  state_->over = true;
  if (state_->thread == thread_tag()) std::erase(states(), state_);
}

void OutsideWork::add(const StreamRef& stream, std::string name, std::shared_ptr<TrackedStream> tracked) {
  state_->streams.push_back({stream, std::move(name), std::move(tracked)});
}

bool OutsideWork::has_refused() const noexcept {
  return state_->has_refused;
}

void OutsideWork::require_none_in_capture(const StreamRef& stream, const char* call) {
  const States& all = states();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const auto& each) { return !each->over; });
  if (last == all.rend()) return;
  const std::string name = name_of(all, **last, stream);
  if (name.empty() || !takes_effect_outside((*last)->captured, stream)) return;
  (*last)->has_refused = true;
  const char* const made = detail::PublicCall::current();
  throw UsageError(text::format(
      "{}: expected work for a stream that takes part in the capture of this thread; found "
      "{}, where it would be executed at once and be missing in replays. {}; make what is to run once in the scope "
      "of a CaptureModeGuard. Nothing was submitted, and the capture continues.",
      made != nullptr ? made : call, name, advice_for((*last)->captured, stream)));
}

}  // namespace reprise::backend
