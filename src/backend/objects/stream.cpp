// SPDX-License-Identifier: Apache-2.0
#include "reprise/stream.h"

#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "backend/notifications.h"
#include "backend/objects/captured_events.h"
#include "backend/objects/kept_streams.h"
#include "backend/objects/open_guards.h"
#include "backend/objects/thread_tag.h"
#include "backend/objects/tracked_stream.h"
#include "reprise/detail/public_call.h"
#include "reprise/event.h"
#include "support/forked.h"
#include "support/thread_object.h"
#include "text/format.h"
#include "text/require_named.h"

namespace reprise {
namespace {

using backend::Checked;

struct CurrentStream {
  backend::Backend* backend;
  StreamHandle stream;
};

// One entry for each device that this thread used: very few. Guards may be static or `thread_local` objects, so this
// outlives them.
std::vector<CurrentStream>& current_streams() {
  return support::ThreadObject<std::vector<CurrentStream>>::get();
}

[[gnu::noinline]] StreamHandle& add_current(Device device) {
  return current_streams().emplace_back(CurrentStream{&device.backend(), nullptr}).stream;
}

StreamHandle& current_handle(Device device) {
  for (CurrentStream& entry : current_streams())
    if (entry.backend == &device.backend()) return entry.stream;
  return add_current(device);
}

void make_current(const StreamRef& stream) {
  const backend::Framework* const framework = backend::keeper_of_current(stream.device());
  if (framework == nullptr) {
    current_handle(stream.device()) = stream.native();
    return;
  }
  if (!current_streams().empty()) backend::framework_detail::hand_over_current_streams(*framework);
  framework->set_current_stream(stream.device().index(), stream.native());
}

/// With the stream of a guard's device that was current before it began.
using OpenStreamGuards = backend::OpenGuards<StreamRef>;

void check_same_runtime(Device mine, Device other, const char* what) {
  if (backend::same_runtime(mine, other)) return;
  throw UsageError(
      text::format("expected {} of the same device runtime as the waiting stream, which is on {}; found one on {}; "
                   "synchronise with the other device on the host instead",
                   what, mine.str(), other.str()));
}

void wait_for(const StreamRef& stream, const EventRef& event) {
  Checked(stream.device().backend())
      .stream_wait_event(stream.native(), event.native(), backend::EventUseFlags::ordering);
  backend::stream_wait_callbacks.call(stream);
}

Device device_of(StreamHandle handle) {
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) return current_device();
  if (backend::Backend* const host = backend::host_backend_of(handle)) return Device(*host);
  if (backend::Backend* const cuda = backend::cuda_backend_of(handle)) return Device(*cuda);
  const Device current = current_device();
  if (current.type() == DeviceType::cuda) return current;
  throw UsageError(text::format(
      "StreamRef expected a stream of CUDA or of a host device; found the handle {}, which is of no device "
      "of this process; pass a stream that has not been destroyed, or name its device: StreamRef(device, "
      "handle)",
      static_cast<const void*>(handle)));
}

}  // namespace

void detail::refuse_moved_from(const char* what) {
  throw UsageError(
      text::format("expected {} that was not moved from; found one that was; assign to it, destroy it, or use the "
                   "object that it was moved to",
                   what));
}

StreamRef::StreamRef(StreamHandle handle) : StreamRef(device_of(handle), handle) {}

backend::CaptureInfo backend::capture_info(const StreamRef& stream) {
  CaptureInfo info;
  if (stream.is_default()) return info;
  const Checked runtime(stream.device().backend());
  if (!runtime.allowing(ErrorCode::stream_capture_implicit).stream_capture_info(stream.native(), &info)) return {};
  return info;
}

// The call is named where the query failed: one that succeeds does nothing for it.
[[gnu::hot]] CaptureStatus backend::capture_status(const StreamRef& stream, const char* call) {
  auto status = CaptureStatus::none;
  if (stream.is_default()) return status;
  const Result result = stream.device().backend().stream_is_capturing(stream.native(), &status);
  if (!result.failed() || result == ErrorCode::stream_capture_implicit) [[likely]]
    return status;
  const detail::PublicCall public_call(call);
  raise(stream.device().backend(), Call::stream_is_capturing, result, SourceLocation::current());
}

std::optional<CaptureStatus> backend::known_capture_status(const StreamRef& stream) noexcept {
  auto status = CaptureStatus::none;
  const Result result = stream.device().backend().stream_is_capturing(stream.native(), &status);
  return !result.failed() ? std::optional(status) : std::nullopt;
}

bool backend::captures_work(const StreamRef& stream) {
  auto status = CaptureStatus::none;
  Checked(stream.device().backend()).stream_is_capturing(stream.native(), &status);
  return status != CaptureStatus::none;
}

void StreamRef::synchronize() const {
  const detail::PublicCall call("StreamRef::synchronize");
  Checked(device_.backend()).stream_synchronize(handle_);
}

bool StreamRef::query() const {
  const detail::PublicCall call("StreamRef::query");
  return Checked(device_.backend()).allowing(ErrorCode::not_ready).stream_query(handle_);
}

void StreamRef::wait(EventRef event) const {
  const detail::PublicCall call("StreamRef::wait");
  check_same_runtime(device_, event.device(), "an event");
  backend::captured_events::require_one_capture("StreamRef::wait", *this, event);
  wait_for(*this, event);
}

void StreamRef::wait(const StreamRef& other) const {
  const detail::PublicCall call("StreamRef::wait");
  if (*this == other) return;
  check_same_runtime(device_, other.device_, "a stream");
  backend::captured_events::require_one_capture("StreamRef::wait", *this, other);
  // The wait refers to the current record, so the event may be destroyed at once.
  const Event event(other.device_, EventOptions{.timing = false});
  Checked(other.device_.backend()).event_record(event.native(), other.handle_, backend::EventUseFlags::ordering);
  wait_for(*this, event.ref());
}

CaptureStatus StreamRef::capture_status() const {
  return backend::capture_status(*this, "StreamRef::capture_status");
}

std::uint64_t StreamRef::capture_id() const {
  const detail::PublicCall call("StreamRef::capture_id");
  return backend::capture_info(*this).id;
}

Stream::Stream(Device device, StreamOptions options) : ref_(device, nullptr), options_(options) {
  const detail::PublicCall call("Stream");
  StreamHandle handle = backend::take_kept_stream(device, options);
  if (handle == nullptr) {
    const auto flags = options.blocking ? backend::StreamFlags::blocking : backend::StreamFlags::non_blocking;
    Checked(device.backend()).stream_create(&handle, flags, options.priority);
  }
  ref_ = StreamRef(device, handle);
  backend::TrackedStream::add(ref_);
}

Stream::~Stream() {
  if (ref_.native() == nullptr || support::forked()) return;
  backend::TrackedStream::ends(ref_);
  backend::stream_end_callbacks.call(ref_);
  if (backend::keeps_streams(ref_.device()))
    backend::keep_stream(ref_, options_);
  else
    backend::WarnOnError(ref_.device().backend()).stream_destroy(ref_.native());
}

Stream::Stream(Stream&& other) noexcept
    : ref_(std::exchange(other.ref_, StreamRef(other.ref_.device(), StreamHandle{nullptr}))),
      options_(other.options_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  // This object's previous stream is destroyed with `other`.
  Stream taken(std::move(other));
  std::swap(ref_, taken.ref_);
  std::swap(options_, taken.options_);
  return *this;
}

void Stream::wait(EventRef event) const {
  ref().wait(event);
}

CaptureModeGuard::CaptureModeGuard(CaptureMode mode, Device device)
    : device_(device), previous_(mode), thread_(backend::thread_tag()) {
  const detail::PublicCall call("CaptureModeGuard");
  text::require_named("CaptureModeGuard", mode, {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed},
                      "CaptureMode::global, CaptureMode::thread or CaptureMode::relaxed");
  Checked(device_.backend()).thread_exchange_capture_mode(&previous_);
}

CaptureModeGuard::~CaptureModeGuard() {
  if (thread_ == backend::thread_tag())
    backend::WarnOnError(device_.backend()).thread_exchange_capture_mode(&previous_);
  else
    warn(
        "A CaptureModeGuard ended on another thread than it began on, and changed nothing: its mode stays that of its "
        "own thread. End each guard on the thread that made it.");
}

[[gnu::hot]] StreamRef current_stream() {
  return current_stream(current_device());
}

[[gnu::hot]] StreamRef current_stream(Device device) {
  const backend::Framework* const framework = backend::keeper_of_current(device);
  if (framework == nullptr) [[likely]]
    return StreamRef(device, current_handle(device));
  if (!current_streams().empty()) backend::framework_detail::hand_over_current_streams(*framework);
  return StreamRef(device, framework->current_stream(device.index()));
}

StreamGuard::StreamGuard(StreamRef stream) : device_(stream.device()) {
  OpenStreamGuards& open = OpenStreamGuards::of_thread();
  open.reserve();
  const StreamRef previous = current_stream(stream.device());
  make_current(stream);
  open.begin(device_.number_, previous);
}

StreamGuard::~StreamGuard() {
  if (!device_.is_on_its_thread()) {  // of which the end of `device_` warns
    backend::GuardsEndedElsewhere::add(device_.number_);
    return;
  }
  OpenStreamGuards::of_thread().end(
      device_.number_, [&](const StreamRef& later) { return later.device() == device_.device_; },
      [](StreamRef& later, const StreamRef& previous) { later = previous; }, make_current);
}

bool is_current_stream_capturing() {
  return current_stream().capture_status() != CaptureStatus::none;
}

StreamRef backend::exchange_current_stream(const StreamRef& stream) {
  const StreamRef previous = current_stream(stream.device());
  make_current(stream);
  return previous;
}

// Hands over streams that guards made current on this thread before the framework was installed.
[[gnu::cold]] void backend::framework_detail::hand_over_current_streams(const Framework& framework) {
  std::erase_if(current_streams(), [&](const CurrentStream& entry) {
    if (!backend::keeps_current(framework, *entry.backend)) return false;
    if (entry.stream != nullptr) framework.set_current_stream(entry.backend->index(), entry.stream);
    return true;
  });
}

}  // namespace reprise
