// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "reprise/event.h"
#include "reprise/stream.h"

namespace reprise::backend {

/// A stream whose end this library hears of before it comes: every Stream, the legacy default streams, and those
/// streams of a framework that live as long as the process. So whoever gave it work can ask later when that is done,
/// although the stream may be gone by then, and its handle may be the name of another one.
///
/// Of other streams nobody tells the end; the per-thread default stream is one of them.
///
/// Thread-safe. An owner keeps it as long as the work concerns him.
class TrackedStream {
 public:
  /// Null if nobody tells the end of this stream.
  static std::shared_ptr<TrackedStream> find(const StreamRef& stream);

  /// From now on this stream is known. Whoever calls this calls ends().
  /// Without memory for it, it stays unknown.
  static void add(const StreamRef& stream) noexcept;

  /// The stream is about to be destroyed; its handle is still valid, and its work may still run.
  static void ends(const StreamRef& stream) noexcept;

  explicit TrackedStream(const StreamRef& stream) : stream_(stream) {}  ///< for add() and find()

  /// Is it this stream, and not one with the handle that an ended stream had?
  bool is(const StreamRef& stream) const noexcept {
    return stream_ == stream && !ended_.load(std::memory_order_relaxed);
  }

  /// An event after all that the stream was given so far; of an ended stream, after all that it was ever given. Null
  /// while none can be recorded, which is so while the stream is being captured, and for the legacy default stream
  /// while anything is; null for ever if it ended in a capture. Breaks nobody's capture; see may_record().
  /// \throws BackendError if the device refuses an event.
  std::shared_ptr<Event> mark();

 private:
  /// Null, if that cannot be now.
  std::shared_ptr<Event> record() const;
  void end(bool wanted) noexcept;

  const StreamRef stream_;
  std::mutex mutex_;  // guards the handle: while it is held, the stream is not destroyed
  std::atomic<bool> ended_{false};
  std::shared_ptr<Event> end_;  // after ended_; null if nobody wanted it, or if it could not be recorded
};

/// Is it the legacy default stream, by either of CUDA's names for it (null and `CU_STREAM_LEGACY`)?
bool is_legacy_default(const StreamRef& stream) noexcept;

/// Would an event that is recorded on this stream be reached, or would it become a part of a capture, or break one? Of
/// the legacy default stream nobody can say so for sure: somebody else may begin to capture a blocking stream right
/// after the answer.
bool may_record(const StreamRef& stream) noexcept;

}  // namespace reprise::backend
