// SPDX-License-Identifier: Apache-2.0
#include "reprise/stream.h"

#include <atomic>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "backend/lifetime/tracked_stream.h"
#include "backend/stream_end.h"
#include "reprise/event.h"
#include "support/thread_object.h"
#include "text/format.h"

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

StreamHandle& current_handle(Device device) {
  std::vector<CurrentStream>& entries = current_streams();
  for (CurrentStream& entry : entries) {
    if (entry.backend == &device.backend()) return entry.stream;
  }
  return entries.emplace_back(CurrentStream{&device.backend(), nullptr}).stream;
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

std::atomic<backend::StreamEndListener*> stream_end_listeners{nullptr};

// The legacy stream never captures, but querying it while a blocking stream does returns an error instead of "no". The
// query itself breaks nothing.
constexpr Result not_capturing = Result::stream_capture_implicit;

backend::CaptureInfo capture_info(const StreamRef& stream) {
  backend::CaptureInfo info;
  const Checked runtime(stream.device().backend());
  if (!runtime.allowing(not_capturing).stream_capture_info(stream.native(), &info)) return {};
  return info;
}

void check_same_runtime(Device mine, Device other, const char* what) {
  if (mine.type() == other.type()) return;
  throw UsageError(
      text::format("expected {} of the same kind of device as the stream that waits, which is on {}; found one on {}; "
                   "synchronise with the other device on the host instead",
                   what, mine.str(), other.str()));
}

}  // namespace

void backend::add_stream_end_listener(StreamEndListener& listener) noexcept {
  listener.next_ = stream_end_listeners.load(std::memory_order_relaxed);
  while (!stream_end_listeners.compare_exchange_weak(listener.next_, &listener, std::memory_order_acq_rel)) continue;
}

void backend::notify_stream_end(const StreamRef& stream) noexcept {
  const StreamEndListener* listener = stream_end_listeners.load(std::memory_order_acquire);
  for (; listener != nullptr; listener = listener->next_) listener->function_(stream);
}

void StreamRef::synchronize() const {
  Checked(device_.backend()).stream_synchronize(handle_);
}

bool StreamRef::query() const {
  return Checked(device_.backend()).allowing(Result::not_ready).stream_query(handle_);
}

void StreamRef::wait(EventRef event) const {
  check_same_runtime(device_, event.device(), "an event");
  Checked(device_.backend()).stream_wait_event(handle_, event.native(), backend::EventUseFlags::ordering);
}

void StreamRef::wait(const StreamRef& other) const {
  if (*this == other) return;
  check_same_runtime(device_, other.device_, "a stream");
  // The wait refers to the current record, so the event may be destroyed at once.
  const Event event(other.device_, EventOptions{.timing = false});
  event.record(other);
  wait(event.ref());
}

CaptureStatus StreamRef::capture_status() const {
  CaptureStatus status = CaptureStatus::none;
  if (!Checked(device_.backend()).allowing(not_capturing).stream_is_capturing(handle_, &status))
    return CaptureStatus::none;
  return status;
}

std::uint64_t StreamRef::capture_id() const {
  const backend::CaptureInfo info = capture_info(*this);
  return info.status == CaptureStatus::none ? 0 : info.id;
}

Stream::Stream(Device device, StreamOptions options) : ref_(device, nullptr) {
  const Checked runtime(device.backend());
  StreamHandle handle = nullptr;
  const auto flags = options.blocking ? backend::StreamFlags::blocking : backend::StreamFlags::non_blocking;
  runtime.stream_create(&handle, flags, options.priority);
  ref_ = StreamRef(device, handle);
  backend::TrackedStream::add(ref_);
}

Stream::~Stream() {
  if (ref_.native() == nullptr) return;
  backend::TrackedStream::ends(ref_);
  backend::notify_stream_end(ref_);
  backend::WarnOnError(ref_.device().backend()).stream_destroy(ref_.native());
}

Stream::Stream(Stream&& other) noexcept
    : ref_(std::exchange(other.ref_, StreamRef(other.ref_.device(), StreamHandle{nullptr}))) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  // This object's previous stream is destroyed with `other`.
  Stream taken(std::move(other));
  std::swap(ref_, taken.ref_);
  return *this;
}

void Stream::wait(EventRef event) const {
  ref_.wait(event);
}

StreamRef current_stream() {
  return current_stream(current_device());
}

StreamRef current_stream(Device device) {
  const backend::Framework* const framework = backend::keeper_of_current(device);
  if (framework == nullptr) [[likely]]
    return StreamRef(device, current_handle(device));
  if (!current_streams().empty()) backend::framework_detail::hand_over_current_streams(*framework);
  return StreamRef(device, framework->current_stream(device.index()));
}

StreamGuard::StreamGuard(StreamRef stream) : device_(stream.device()), previous_(current_stream(stream.device())) {
  make_current(stream);
}

StreamGuard::~StreamGuard() {
  make_current(previous_);
}

bool is_current_stream_capturing() {
  return current_stream().capture_status() != CaptureStatus::none;
}

StreamRef backend::exchange_current_stream(const StreamRef& stream) {
  const StreamRef previous = current_stream(stream.device());
  make_current(stream);
  return previous;
}

// Those that guards of this library made current on this thread before the framework was installed.
[[gnu::cold]] void backend::framework_detail::hand_over_current_streams(const Framework& framework) {
  std::erase_if(current_streams(), [&](const CurrentStream& entry) {
    if (!framework.keeps_current(entry.backend->type())) return false;
    if (entry.stream != nullptr) framework.set_current_stream(entry.backend->index(), entry.stream);
    return true;
  });
}

}  // namespace reprise
