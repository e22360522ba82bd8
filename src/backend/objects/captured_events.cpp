// SPDX-License-Identifier: Apache-2.0
#include "backend/objects/captured_events.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "backend/backend.h"
#include "backend/capture_query.h"
#include "backend/captures_underway.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::backend {
namespace {

// Never destroyed: events may end until the process does.
struct Events {
  std::mutex mutex;
  std::map<std::pair<Backend*, EventHandle>, std::uint64_t> captures;  // their ids
};

// False while `Events::captures` is empty.
constinit std::atomic<bool> any_known{false};

std::pair<Backend*, EventHandle> key(const EventRef& event) {
  return {&event.device().backend(), event.native()};
}

bool a_body_is_captured() noexcept {
  return bodies_underway.load(std::memory_order_relaxed) != 0;
}

// 0 if the stream takes part in no capture that is intact.
std::uint64_t capture_of(const StreamRef& stream) {
  const CaptureInfo info = capture_info(stream);
  return info.status == CaptureStatus::active ? info.id : 0;
}

// 0 if it is not known to have been recorded in a capture.
std::uint64_t capture_of(const EventRef& event) {
  Events& known = support::Immortal<Events>::get();
  const std::lock_guard lock(known.mutex);
  const auto found = known.captures.find(key(event));
  return found == known.captures.end() ? 0 : found->second;
}

void require_same(const char* call, std::uint64_t one, std::uint64_t other) {
  if (one == 0 || other == 0 || one == other) return;
  throw UsageError(
      text::format("{}: expected streams of one capture; found two, perhaps one of the body of a conditional node. A "
                   "body runs after what its node depends on, and before what follows the node: wait before the "
                   "node, or after it. The captures continue.",
                   call));
}

[[gnu::cold]] void note(const EventRef& event, std::uint64_t capture) noexcept try {
  Events& known = support::Immortal<Events>::get();
  const std::lock_guard lock(known.mutex);
  if (captures_underway.load(std::memory_order_relaxed) == 0) known.captures.clear();  // all have ended
  if (capture != 0)
    known.captures[key(event)] = capture;
  else
    known.captures.erase(key(event));
  any_known.store(!known.captures.empty(), std::memory_order_relaxed);
} catch (const std::bad_alloc&) {
  // The event stays unknown.
}

}  // namespace

std::uint64_t captured_events::capture_for_record(const StreamRef& stream) {
  return captures_underway.load(std::memory_order_relaxed) == 0 ? 0 : capture_of(stream);
}

void captured_events::recorded(const EventRef& event, std::uint64_t capture) noexcept {
  if (capture != 0 || any_known.load(std::memory_order_relaxed)) [[unlikely]]
    note(event, capture);
}

void captured_events::ends(const EventRef& event) noexcept {
  if (!any_known.load(std::memory_order_relaxed)) [[likely]]
    return;
  Events& known = support::Immortal<Events>::get();
  const std::lock_guard lock(known.mutex);
  known.captures.erase(key(event));
  any_known.store(!known.captures.empty(), std::memory_order_relaxed);
}

void captured_events::require_one_capture(const char* call, const StreamRef& stream, const EventRef& event) {
  if (a_body_is_captured()) [[unlikely]]
    require_same(call, capture_of(stream), capture_of(event));
}

void captured_events::require_one_capture(const char* call, const StreamRef& stream, const StreamRef& other) {
  if (a_body_is_captured()) [[unlikely]]
    require_same(call, capture_of(stream), capture_of(other));
}

}  // namespace reprise::backend
