// SPDX-License-Identifier: Apache-2.0
#include "backend/lifetime/last_launch.h"

#include "backend/backend.h"
#include "backend/check.h"

namespace reprise::backend {

LastLaunch LastLaunch::prepare(const StreamRef& stream) const {
  LastLaunch next;
  next.stream_ = TrackedStream::find(stream);
  if (next.stream_ != nullptr) return next;
  // The next record of an event replaces the last one.
  if (stream_ == nullptr) next.event_ = event_;
  if (next.event_ == nullptr) next.event_ = std::make_shared<Event>(stream.device(), EventOptions{.timing = false});
  return next;
}

void LastLaunch::launched(const StreamRef& stream, LastLaunch&& next) noexcept {
  *this = std::move(next);
  if (stream_ != nullptr) return;
  const WarnOnError runtime(stream.device().backend());
  lost_ = !may_record(stream) || !runtime.event_record(event_->native(), stream.native(), EventUseFlags::ordering);
}

bool LastLaunch::is_over() noexcept {
  try {
    if (!query()) return false;
    *this = {};
    return true;
  } catch (const std::exception& error) {
    if (!std::exchange(told_, true)) warn(error.what());
    return false;
  }
}

bool LastLaunch::query() {
  if (lost_) return false;
  if (stream_ != nullptr) {
    if (event_ == nullptr) event_ = stream_->mark();
    if (event_ == nullptr) return false;
  }
  if (event_ == nullptr) return true;
  const RelaxedCaptureMode relaxed(event_->device().backend());
  return event_->query();
}

void LastLaunch::wait() noexcept {
  if (is_over() || !can_query()) return;
  Backend& backend = event_->device().backend();
  const RelaxedCaptureMode relaxed(backend);
  WarnOnError(backend).event_synchronize(event_->native());
}

}  // namespace reprise::backend
