// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/last_launch.h"

#include "backend/backend.h"
#include "backend/check.h"
#include "captures/registry.h"

namespace reprise::memory {

using backend::RelaxedCaptureMode;
using backend::TrackedStream;
using backend::WarnOnError;

namespace {

// Null while none can be recorded. While a blocking stream captures, the legacy default stream must not even be
// queried.
std::shared_ptr<Event> mark(TrackedStream& stream) {
  if (!stream.is_default()) return stream.mark();
  const captures::NoneUnderway none_underway;
  return none_underway ? stream.mark() : nullptr;
}

}  // namespace

LastLaunch LastLaunch::prepare(const StreamRef& stream) const {
  LastLaunch next;
  next.stream_ = TrackedStream::find(stream);
  if (next.stream_ != nullptr) return next;
  // The next record of an event replaces the last one, unless a copy waits for that.
  if (stream_ == nullptr && event_.use_count() == 1) next.event_ = event_;
  if (next.event_ == nullptr) next.event_ = std::make_shared<Event>(stream.device(), EventOptions{.timing = false});
  return next;
}

void LastLaunch::launched(const StreamRef& stream, LastLaunch&& next) noexcept {
  *this = std::move(next);
  if (stream_ != nullptr) return;
  const WarnOnError runtime(stream.device().backend());
  lost_ = !backend::may_record(stream) ||
          !runtime.event_record(event_->native(), stream.native(), backend::EventUseFlags::ordering);
}

bool LastLaunch::is_over() noexcept {
  try {
    if (!query()) return false;
    *this = {};
    return true;
  } catch (const std::exception& error) {
    if (!std::exchange(error_reported_, true)) warn(error.what());
    return false;
  }
}

bool LastLaunch::wait_on(const StreamRef& stream) const {
  if (lost_) return false;
  if (stream_ != nullptr && !stream_->is_default()) return stream_->order_before(stream);
  const std::shared_ptr<Event> end = stream_ != nullptr ? mark(*stream_) : event_;
  if (end == nullptr) return false;
  end->wait(stream);
  return true;
}

bool LastLaunch::query() {
  if (lost_) return false;
  if (stream_ != nullptr) {
    if (event_ == nullptr) event_ = mark(*stream_);
    if (event_ == nullptr) return false;
  }
  if (event_ == nullptr) return true;
  const RelaxedCaptureMode relaxed(event_->device().backend());
  return event_->query();
}

void LastLaunch::wait() noexcept {
  if (is_over() || !can_query()) return;
  backend::Backend& backend = event_->device().backend();
  const RelaxedCaptureMode relaxed(backend);
  WarnOnError(backend).event_synchronize(event_->native());
}

}  // namespace reprise::memory
