// SPDX-License-Identifier: Apache-2.0
#include "reprise/stream.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "backend/current.h"
#include "backend/lifetime/tracked_stream.h"
#include "backend/stream_end.h"
#include "reprise/event.h"
#include "support/thread_object.h"
#include "text/format.h"

namespace reprise {
namespace {

using backend::Call;
using backend::check;

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

// What guards of this library made current before there was a framework is told to it.
[[gnu::cold]] void hand_over(const backend::FrameworkCurrent& framework) {
  std::erase_if(current_streams(), [&](const CurrentStream& entry) {
    if (entry.backend->type() != framework.type) return false;
    if (entry.stream != nullptr) framework.set_stream(entry.backend->index(), entry.stream);
    return true;
  });
}

void make_current(const StreamRef& stream) {
  const backend::FrameworkCurrent* const framework = backend::framework_for(stream.device());
  if (framework == nullptr) {
    current_handle(stream.device()) = stream.native();
    return;
  }
  if (!current_streams().empty()) hand_over(*framework);
  framework->set_stream(stream.device().index(), stream.native());
}

// One for each floor that remembers streams.
std::array<std::atomic<backend::StreamEndListener>, 8> stream_end_listeners{};

// The legacy stream never captures, but asking about it while a blocking stream does gives an error instead of "no".
// The question itself breaks nothing.
bool means_not_capturing(Result result) {
  return result == Result::stream_capture_implicit;
}

backend::CaptureInfo capture_info(const StreamRef& stream) {
  backend::CaptureInfo info;
  backend::Backend& backend = stream.device().backend();
  const Result result = backend.stream_capture_info(stream.native(), &info);
  if (means_not_capturing(result)) return {};
  check(backend, Call::stream_capture_info, result);
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

void backend::add_stream_end_listener(StreamEndListener listener) noexcept {
  for (auto& place : stream_end_listeners) {
    StreamEndListener none = nullptr;
    if (place.compare_exchange_strong(none, listener, std::memory_order_acq_rel)) return;
  }
  std::abort();  // the list is too short: an error of this library
}

void StreamRef::synchronize() const {
  backend::Backend& backend = device_.backend();
  check(backend, Call::stream_synchronize, backend.stream_synchronize(handle_));
}

bool StreamRef::query() const {
  backend::Backend& backend = device_.backend();
  const Result result = backend.stream_query(handle_);
  if (result == Result::not_ready) return false;
  check(backend, Call::stream_query, result);
  return true;
}

void StreamRef::wait(EventRef event) const {
  check_same_runtime(device_, event.device(), "an event");
  backend::Backend& backend = device_.backend();
  check(backend, Call::stream_wait_event,
        backend.stream_wait_event(handle_, event.native(), backend::EventUseFlags::ordering));
}

void StreamRef::wait(const StreamRef& other) const {
  if (*this == other) return;
  check_same_runtime(device_, other.device_, "a stream");
  // The wait means the record as it is now, so the event may be destroyed at once.
  const Event event(other.device_, EventOptions{.timing = false});
  event.record(other);
  wait(event.ref());
}

CaptureStatus StreamRef::capture_status() const {
  CaptureStatus status = CaptureStatus::none;
  backend::Backend& backend = device_.backend();
  const Result result = backend.stream_is_capturing(handle_, &status);
  if (means_not_capturing(result)) return CaptureStatus::none;
  check(backend, Call::stream_is_capturing, result);
  return status;
}

std::uint64_t StreamRef::capture_id() const {
  const backend::CaptureInfo info = capture_info(*this);
  return info.status == CaptureStatus::none ? 0 : info.id;
}

Stream::Stream(Device device, StreamOptions options) : ref_(device, nullptr) {
  backend::Backend& backend = device.backend();
  StreamHandle handle = nullptr;
  const auto flags = options.blocking ? backend::StreamFlags::blocking : backend::StreamFlags::non_blocking;
  check(backend, Call::stream_create, backend.stream_create(&handle, flags, options.priority));
  ref_ = StreamRef(device, handle);
  backend::TrackedStream::add(ref_);
}

Stream::~Stream() {
  if (ref_.native() == nullptr) return;
  backend::TrackedStream::ends(ref_);
  for (const auto& place : stream_end_listeners)
    if (const backend::StreamEndListener listener = place.load(std::memory_order_acquire)) listener(ref_);
  backend::Backend& backend = ref_.device().backend();
  backend::warn_on_error(backend, Call::stream_destroy, backend.stream_destroy(ref_.native()));
}

Stream::Stream(Stream&& other) noexcept
    : ref_(std::exchange(other.ref_, StreamRef(other.ref_.device(), StreamHandle{nullptr}))) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  // The stream that was here goes away with `other`'s old self.
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
  const backend::FrameworkCurrent* const framework = backend::framework_for(device);
  if (framework == nullptr) [[likely]]
    return StreamRef(device, current_handle(device));
  if (!current_streams().empty()) hand_over(*framework);
  return StreamRef(device, framework->stream(device.index()));
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

const backend::FrameworkCurrent* backend::follow(const FrameworkCurrent* framework) {
  const Device current = current_device();
  const FrameworkCurrent* const before = current_detail::framework.exchange(framework, std::memory_order_acq_rel);
  if (framework != nullptr) {
    hand_over(*framework);
    if (current.type() == framework->type && is_guarded()) framework->set_device(current.index());
  }
  return before;
}

}  // namespace reprise
