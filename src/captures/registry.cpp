// SPDX-License-Identifier: Apache-2.0
#include "captures/registry.h"

#include <algorithm>
#include <shared_mutex>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/lifetime/tracked_stream.h"
#include "backend/stream_end.h"
#include "support/immortal.h"

namespace reprise::captures {
namespace {

// Without the list's mutex while something is notified.
void stream_ends(const StreamRef& stream) noexcept {
  for_each([&](Capture& capture) { capture.stream_ends(stream); });
}

struct Registry {
  Registry() {
    static constinit backend::StreamEndListener listener(&stream_ends);
    backend::add_stream_end_listener(listener);
  }

  std::mutex begin;         // held while a capture is announced
  std::shared_mutex gate;   // exclusive while the count rises
  mutable std::mutex list;  // guards the rest
  std::vector<std::shared_ptr<Capture>> captures;
  std::vector<std::uint64_t> numbers;  // of each, ascending
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
  const auto found = std::ranges::find_if(known.captures, [&](const auto& capture) { return condition(*capture); });
  return found != known.captures.end() ? *found : nullptr;
}

}  // namespace

Found find(const StreamRef& stream) {
  if (backend::is_legacy_default(stream)) return {};  // it never captures
  Found found;
  backend::Backend& backend = stream.device().backend();
  const Result result = backend.stream_capture_info(stream.native(), &found.info);
  if (result == Result::stream_capture_implicit)
    found.info = {};
  else
    backend::check(backend, backend::Call::stream_capture_info, result);

  const bool active = found.info.status == CaptureStatus::active;
  if (found.info.status == CaptureStatus::invalidated) found.part = Part::invalidated;
  if (active) found.part = Part::foreign;
  if (!any_underway()) return found;
  const std::uint64_t id = found.info.id;
  found.capture = find_if([&](const Capture& each) {
    if (active && each.device().type() == stream.device().type() && each.has_id(id)) return true;
    // Before the capture has an id, and when it is broken.
    return each.stream() == stream && !each.is_over() && !(active && each.has_ids());
  });
  if (active && found.capture != nullptr) found.part = Part::own;
  return found;
}

std::shared_ptr<Capture> find(DeviceType type, std::uint64_t id) {
  return find_if([&](const Capture& each) { return each.device().type() == type && each.has_id(id); });
}

std::shared_ptr<Capture> detail::next_after(std::uint64_t& number) noexcept {
  const Registry& known = registry();
  const std::lock_guard lock(known.list);
  const auto next = std::ranges::upper_bound(known.numbers, number);
  if (next == known.numbers.end()) return nullptr;
  number = *next;
  return known.captures[static_cast<std::size_t>(next - known.numbers.begin())];
}

Registration::Registration(const StreamRef& stream, CaptureErrorMode mode, MempoolId pool)
    : capture_(std::make_shared<Capture>(stream, mode, pool)) {
  Registry& known = registry();
  const std::lock_guard lock_begin(known.begin);
  {
    const std::lock_guard lock(known.list);
    known.captures.reserve(known.captures.size() + 1);
    known.numbers.push_back(known.last_number + 1);
    known.captures.push_back(capture_);
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
    const auto found = std::ranges::find(known.captures, capture_);
    known.numbers.erase(known.numbers.begin() + (found - known.captures.begin()));
    known.captures.erase(found);
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
