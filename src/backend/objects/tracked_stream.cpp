// SPDX-License-Identifier: Apache-2.0
#include "backend/objects/tracked_stream.h"

#include <map>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/framework.h"
#include "support/immortal.h"

namespace reprise::backend {
namespace {

// Never destroyed: streams may end until the process does.
struct Streams {
  std::mutex mutex;
  std::map<std::pair<Backend*, StreamHandle>, std::shared_ptr<TrackedStream>> all;
};

// True for streams that live until the process ends.
bool is_never_destroyed(const StreamRef& stream) {
  const Framework* const framework = installed_framework();
  return stream.is_default() || (framework != nullptr && framework->owns_forever(stream));
}

std::pair<Backend*, StreamHandle> key(const StreamRef& stream) {
  return {&stream.device().backend(), stream.native()};
}

}  // namespace

std::shared_ptr<TrackedStream> TrackedStream::find(const StreamRef& stream) {
  Streams& known = support::Immortal<Streams>::get();
  const std::lock_guard lock(known.mutex);
  if (const auto found = known.all.find(key(stream)); found != known.all.end()) return found->second;
  if (!is_never_destroyed(stream)) return nullptr;
  return known.all.emplace(key(stream), std::make_shared<TrackedStream>(stream)).first->second;
}

void TrackedStream::add(const StreamRef& stream) noexcept {
  try {
    auto made = std::make_shared<TrackedStream>(stream);
    Streams& known = support::Immortal<Streams>::get();
    const std::lock_guard lock(known.mutex);
    known.all[key(stream)] = std::move(made);
  } catch (const std::bad_alloc&) {
    // The stream stays foreign.
  }
}

void TrackedStream::ends(const StreamRef& stream) noexcept {
  Streams& known = support::Immortal<Streams>::get();
  std::shared_ptr<TrackedStream> ended;
  {
    const std::lock_guard lock(known.mutex);
    const auto found = known.all.find(key(stream));
    if (found == known.all.end()) return;
    ended = std::move(found->second);
    known.all.erase(found);
  }
  ended->end(ended.use_count() > 1);
}

void TrackedStream::end(bool wanted) noexcept {
  try {
    std::string why = "it was captured";
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      order_.reset();
      if (!wanted) return;
      try {
        end_ = record();
      } catch (const Error& error) {
        why = error.what();
      }
      if (end_ != nullptr) return;
    }
    // Not under the mutex: the warning sink may wait for a thread that resets a graph.
    warn("When a stream was destroyed, no event could be recorded on it (" + why +
         "), so the end of the replays on it cannot be determined. A graph that was last replayed on it keeps its "
         "memory, also after its own end.");
  } catch (const std::exception&) {
    // No memory for a text.
  }
}

std::shared_ptr<Event> TrackedStream::mark() {
  const std::lock_guard lock(mutex_);
  return ended_ ? end_ : record();
}

// The wait is outside the lock: another call may record the event in between, for more work of the stream.
bool TrackedStream::order_before(const StreamRef& other) {
  std::shared_ptr<Event> event;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      event = end_;
    } else if (may_record(stream_)) {
      if (order_ == nullptr) order_ = new_event();
      event = record_on(order_);
    }
  }
  if (event != nullptr) event->wait(other);
  return event != nullptr;
}

std::shared_ptr<Event> TrackedStream::new_event() const {
  return std::make_shared<Event>(stream_.device(), EventOptions{.timing = false});
}

std::shared_ptr<Event> TrackedStream::record() const {
  return may_record(stream_) ? record_on(new_event()) : nullptr;
}

std::shared_ptr<Event> TrackedStream::record_on(std::shared_ptr<Event> event) const {
  event->record(stream_);
  // A capture may have begun between the query and the record, which is then a part of that capture.
  return may_record(stream_) ? event : nullptr;
}

bool may_record(const StreamRef& stream) noexcept {
  return known_capture_status(stream) == CaptureStatus::none;
}

}  // namespace reprise::backend
