// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "reprise/event.h"
#include "reprise/stream.h"

namespace reprise::backend {

/// A stream whose destruction is notified to reprise: every Stream, the legacy default streams, and streams of
/// frameworks that live as long as the process. The completion of its work can be queried later, although the stream
/// may be destroyed by then, and its handle reused for another one.
///
/// Other streams, such as the per-thread default stream, are not tracked: they are *foreign*.
///
/// Thread-safe. Shared by the users of its work, as long as the completion matters.
class TrackedStream {
 public:
  /// Null for a foreign stream.
  static std::shared_ptr<TrackedStream> find(const StreamRef& stream);

  /// Starts tracking a stream. The caller must call ends(). When out of host memory, the stream stays foreign.
  static void add(const StreamRef& stream) noexcept;

  /// Notifies that the stream is about to be destroyed; its handle is still valid, and its work may still run.
  static void ends(const StreamRef& stream) noexcept;

  explicit TrackedStream(const StreamRef& stream) : stream_(stream) {}  ///< for add() and find()

  Device device() const noexcept { return stream_.device(); }

  /// True if it is this stream, and not one that reuses the handle of a destroyed stream.
  bool is(const StreamRef& stream) const noexcept {
    return stream_ == stream && !ended_.load(std::memory_order_relaxed);
  }

  bool is_default() const noexcept { return stream_.is_default(); }  ///< true for the legacy default stream

  /// Returns an event after all work submitted to the stream so far; for a destroyed stream, after all its work. Null
  /// while none can be recorded: while the stream is being captured; always if it was destroyed in a capture. Breaks
  /// no capture, except on the legacy default stream, as may_record() says.
  /// \throws BackendError if the device refuses an event.
  std::shared_ptr<Event> mark();

  /// Makes later work of `other` wait, on the device, for what mark() would mark: by one event that is used again.
  /// False where mark() returns null. Not for the legacy default stream. \throws BackendError
  bool order_before(const StreamRef& other);

 private:
  /// Null if no event can be recorded now.
  std::shared_ptr<Event> record() const;
  std::shared_ptr<Event> new_event() const;
  /// Returns the event if it could be recorded, else null.
  std::shared_ptr<Event> record_on(std::shared_ptr<Event> event) const;
  void end(bool wanted) noexcept;

  const StreamRef stream_;
  std::atomic<bool> ended_{false};  // beside the handle, since each replay reads both
  std::mutex mutex_;                // guards the handle: while it is held, the stream is not destroyed
  std::shared_ptr<Event> order_;    // of order_before(); null before the first call, and after ended_
  std::shared_ptr<Event> end_;      // after ended_; null if not needed, or if it could not be recorded
};

/// True if an event recorded on this stream now would complete; false if it would become a part of a capture, or break
/// one. Not for the legacy default stream while a capture is underway or may begin: if that is of a blocking stream,
/// the query is refused (906), and the report lists it as a call that is missing in the graph; the record breaks it.
bool may_record(const StreamRef& stream) noexcept;

}  // namespace reprise::backend
