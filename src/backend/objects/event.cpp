// SPDX-License-Identifier: Apache-2.0
#include "reprise/event.h"

#include <cstdint>
#include <utility>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/notifications.h"
#include "backend/objects/captured_events.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"
#include "text/require_named.h"

namespace reprise {
namespace {

using backend::Checked;

backend::EventUseFlags use_flags(const char* what, EventUse use) {
  text::require_named(what, use, {EventUse::ordering, EventUse::external}, "EventUse::ordering or EventUse::external");
  return use == EventUse::external ? backend::EventUseFlags::external : backend::EventUseFlags::ordering;
}

void check_same_runtime(Device event, Device stream) {
  if (backend::same_runtime(event, stream)) return;
  throw UsageError(text::format(
      "expected a stream of the same device runtime as the event, which is of {}; found a stream of {}; make an "
      "event for that device",
      event.str(), stream.str()));
}

}  // namespace

Event::Event(Device device, EventOptions options) : ref_(device, EventHandle{nullptr}) {
  const detail::PublicCall call("Event");
  const Checked runtime(device.backend());
  EventHandle handle = nullptr;
  const auto flags = options.timing ? backend::EventFlags::timing : backend::EventFlags::disable_timing;
  runtime.event_create(&handle, flags);
  ref_ = EventRef(device, handle);
}

Event::~Event() {
  if (ref_.native() == nullptr) return;
  backend::captured_events::ends(ref_);
  backend::WarnOnError(ref_.device().backend()).event_destroy(ref_.native());
}

Event::Event(Event&& other) noexcept
    : ref_(std::exchange(other.ref_, EventRef(other.ref_.device(), EventHandle{nullptr}))) {}

Event& Event::operator=(Event&& other) noexcept {
  // This object's previous event is destroyed with `other`.
  Event taken(std::move(other));
  std::swap(ref_, taken.ref_);
  return *this;
}

void Event::record(const StreamRef& stream, EventUse use) const {
  const detail::PublicCall call("Event::record");
  check_same_runtime(ref_.device(), stream.device());
  const auto flags = use_flags("Event::record", use);
  const std::uint64_t capture =
      use == EventUse::ordering ? backend::captured_events::capture_for_record(stream) : std::uint64_t{0};
  Checked(stream.device().backend()).event_record(ref().native(), stream.native(), flags);
  if (use == EventUse::ordering) backend::captured_events::recorded(ref_, capture);
}

void Event::wait(const StreamRef& stream, EventUse use) const {
  const detail::PublicCall call("Event::wait");
  check_same_runtime(ref_.device(), stream.device());
  if (use == EventUse::ordering) backend::captured_events::require_one_capture("Event::wait", stream, ref());
  Checked(stream.device().backend()).stream_wait_event(stream.native(), ref().native(), use_flags("Event::wait", use));
  backend::stream_wait_callbacks.call(stream);
}

void Event::synchronize() const {
  const detail::PublicCall call("Event::synchronize");
  Checked(ref_.device().backend()).event_synchronize(ref().native());
}

bool Event::query() const {
  const detail::PublicCall call("Event::query");
  return Checked(ref_.device().backend()).allowing(ErrorCode::not_ready).event_query(ref().native());
}

float elapsed_ms(const Event& start, const Event& end) {
  const detail::PublicCall call("elapsed_ms");
  const Checked runtime(start.ref().device().backend());
  float milliseconds = 0;
  runtime.event_elapsed_ms(&milliseconds, start.ref().native(), end.ref().native());
  return milliseconds;
}

}  // namespace reprise
