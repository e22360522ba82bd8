// SPDX-License-Identifier: Apache-2.0
#include "captures/registry.h"

#include <algorithm>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/call.h"
#include "backend/capture_query.h"
#include "backend/error_context.h"
#include "backend/monitor.h"
#include "backend/notifications.h"
#include "backend/objects/stream_handles.h"
#include "backend/rules/call_stack.h"
#include "backend/rules/reported_call.h"
#include "reprise/error.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::captures {
namespace {

// Calls without the list's mutex. Skips captures of other runtimes: their device may be ending.
void stream_ends(const StreamRef& stream) noexcept {
  for_each([&](Capture& capture) {
    if (backend::same_runtime(capture.device(), stream.device())) capture.stream_ends(stream);
  });
}

struct Entry {
  std::uint64_t number;  // ascending
  std::shared_ptr<Capture> capture;
};

struct Registry {
  Registry() {
    static constinit backend::StreamCallback callback(&stream_ends);
    backend::stream_end_callbacks.add(callback);
  }

  std::mutex begin;         // held while a capture is announced
  std::shared_mutex gate;   // exclusive while the count rises
  mutable std::mutex list;  // guards the rest
  std::vector<Entry> captures;
  std::uint64_t last_number = 0;
};

Registry& registry() {
  static support::Immortal<Registry> instance;
  return *instance;
}

template <class Condition>
std::shared_ptr<Capture> find_if(const Condition& condition) {
  const Registry& known = registry();
  const std::lock_guard lock(known.list);
  const auto found = std::ranges::find_if(known.captures, [&](const Entry& each) { return condition(*each.capture); });
  return found != known.captures.end() ? found->capture : nullptr;
}

// The per-thread default stream is another stream on each thread.
bool began_on(const Capture& capture, const StreamRef& stream) {
  return capture.stream() == stream &&
         (!backend::is_per_thread_stream(stream.native()) || capture.owner() == std::this_thread::get_id());
}

std::string captures_broken_by_this_thread(std::string_view driver_name) {
  std::string broken;
  for_each([&](const Capture& each) {
    if (each.is_over() || each.owner() == std::this_thread::get_id()) return;
    const backend::CaptureFindings known = each.device().backend().monitor().describe_capture(each.stream().native());
    if (!known.broken_by || known.broken_by->thread != backend::thread_number() || known.broken_by->name != driver_name)
      return;
    broken += text::format("{}it broke the capture{} on stream {} of {} (mode {}){}", broken.empty() ? "" : "; ",
                           each.name().empty() ? "" : " of graph `" + each.name() + "`",
                           static_cast<const void*>(each.stream().native()), each.device().str(),
                           backend::capture_mode_name(each.mode()),
                           known.thread != 0 ? text::format(", which thread {} has underway", known.thread) : "");
  });
  return broken;
}

std::shared_ptr<Capture> find(DeviceType type, std::uint64_t id) {
  return find_if([&](const Capture& each) { return each.device().type() == type && each.has_id(id); });
}

}  // namespace

Found find(const StreamRef& stream) {
  if (stream.is_default()) return {};
  Found found;
  found.info = backend::capture_info(stream);
  const bool active = found.info.status == CaptureStatus::active;
  if (found.info.status == CaptureStatus::invalidated) found.part = Part::invalidated;
  if (active) found.part = Part::foreign;
  if (!any_underway()) return found;
  const DeviceType type = stream.device().type();
  const std::uint64_t id = found.info.id;
  if (active) found.capture = find(type, id);
  if (found.capture == nullptr) {
    // While its id is not known, and when it is broken.
    found.capture = find_if(
        [&](const Capture& each) { return began_on(each, stream) && !each.is_over() && !(active && each.has_ids()); });
    if (active && found.capture != nullptr) found.capture->add_id(id);
  }
  if (active && found.capture == nullptr) {
    // The stream was forked off one of those whose id is not known, or the capture is foreign.
    for_each([&](Capture& each) {
      if (backend::same_runtime(each.device(), stream.device())) each.query_id();
    });
    found.capture = find(type, id);
  }
  if (active && found.capture != nullptr) {
    found.part = Part::own;
    found.body = found.capture->body(id);
  }
  return found;
}

void refuse_broken(const char* work) {
  throw BackendError(backend::cuda_name(backend::Call::stream_capture_info), ErrorCode::stream_capture_invalidated,
                     text::format("{} a stream whose capture was broken by an earlier call; CUDAGraph::capture_end "
                                  "reports which",
                                  work),
                     SourceLocation::current());
}

std::shared_ptr<Capture> detail::next_after(std::uint64_t& number) noexcept {
  const Registry& known = registry();
  const std::lock_guard lock(known.list);
  const auto next = std::ranges::upper_bound(known.captures, number, {}, &Entry::number);
  if (next == known.captures.end()) return nullptr;
  number = next->number;
  return next->capture;
}

Registration::Registration(const StreamRef& stream, const GraphOptions& options, MempoolId pool)
    : capture_(std::make_shared<Capture>(stream, options, pool)) {
  Registry& known = registry();
  const std::lock_guard lock_begin(known.begin);
  {
    const std::lock_guard lock(known.list);
    known.captures.push_back({known.last_number + 1, capture_});
    ++known.last_number;
  }
  const std::lock_guard lock_gate(known.gate);
  backend::captures_underway.fetch_add(1, std::memory_order_relaxed);
}

Registration::~Registration() {
  over();
  Registry& known = registry();
  {
    const std::lock_guard lock(known.list);
    known.captures.erase(std::ranges::find(known.captures, capture_, &Entry::capture));
  }
  capture_->detach_all();
}

// Without the gate: a count that is too high for a moment only makes others more careful.
void Registration::over() noexcept {
  if (capture_->is_over()) return;
  capture_->become_over();
  backend::captures_underway.fetch_sub(1, std::memory_order_release);
}

NoneBegins::NoneBegins() : lock_(registry().begin) {}

bool NoneBegins::any_underway() const noexcept {
  // Acquire: the end of the last capture, as its device saw it, comes before what the caller does.
  return backend::captures_underway.load(std::memory_order_acquire) != 0;
}

NoneUnderway::NoneUnderway() : held_(false) {
  registry().gate.lock_shared();
  held_ = backend::captures_underway.load(std::memory_order_acquire) == 0;
  if (!held_) registry().gate.unlock_shared();
}

NoneUnderway::~NoneUnderway() {
  if (held_) registry().gate.unlock_shared();
}

}  // namespace reprise::captures

std::string reprise::backend::captures_broken_by(Call call) noexcept try {
  return captures::any_underway() ? captures::captures_broken_by_this_thread(cuda_name(call)) : std::string();
} catch (...) {  // no memory for the words
  return {};
}
