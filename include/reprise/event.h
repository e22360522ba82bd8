// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/stream.h"

/// \file
/// Events: marks in the work of streams.

namespace reprise {

/// A non-owning view of an event.
class EventRef {
 public:
  EventRef(Device device, EventHandle handle) noexcept : device_(device), handle_(handle) {}
  EventRef(Device device, int handle) = delete;  ///< prevents EventRef(device, 0)

  Device device() const noexcept { return device_; }
  EventHandle native() const noexcept { return handle_; }  ///< `cudaEvent_t`

 private:
  Device device_;
  EventHandle handle_;
};

/// Properties of a new Event.
struct EventOptions {
  bool timing = true;  ///< enables elapsed_ms(); false makes the event cheaper
};

/// Effect of a record or a wait on a capturing stream.
enum class EventUse {
  ordering,  ///< edges inside the capture, no node
  external,  ///< a node of its own: recorded or waited for by each replay (`cudaEventRecordExternal`)
};

/// An owned event. Movable; a moved-from Event may only be assigned to or destroyed, and throws UsageError in all else
/// but device().
///
/// A record is a fixed point in the work of a stream; a wait refers to the last record at the time of the wait.
///
/// *Threads.* An Event is made, used and destroyed on any thread, and its const functions by several at once, as CUDA
/// allows it: the runtime orders records and waits that meet. Moving it, assigning to it and destroying it need it
/// alone, as with any object.
///
/// *Hooks and captures.* All functions may be called within hooks of graphs. Events are made and destroyed during
/// any capture, in all modes: neither breaks one.
class REPRISE_EXPORT Event {
 public:
  explicit Event(Device device = current_device(), EventOptions options = {});  ///< not recorded
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;  ///< destroys this object's event and takes over the other

  EventRef ref() const {
    if (ref_.native() == nullptr) [[unlikely]]
      detail::refuse_moved_from("an event");
    return ref_;
  }
  operator EventRef() const { return ref(); }
  EventHandle native() const { return ref().native(); }  ///< `cudaEvent_t`
  Device device() const noexcept { return ref_.device(); }

  /// Records the work submitted to `stream` so far. On a capturing stream the record is a point of the capture, unless
  /// `use` is external. Replaces the record before, in whatever state that is: a point of another capture, too.
  /// \throws UsageError if the stream is of another device runtime, or `use` has no name. BackendError with 901 if the
  ///         stream's capture is broken, 401 for an external use outside of captures.
  void record(const StreamRef& stream = current_stream(), EventUse use = EventUse::ordering) const;

  /// Makes later work of `stream` wait for the last record; without one it waits for nothing. A stream that waits for
  /// a point of a capture joins that capture.
  /// \throws UsageError if the stream is of another device runtime, or `use` has no name; also if one of the two is in
  ///         the body of a conditional node, and the other in the capture around it. BackendError with 901 if the
  ///         stream's capture is broken; 1 if the record is a point of a capture that broke or has ended; 902 if it is
  ///         one of another capture than the stream's; 905 if the stream captures, the record was made outside, and
  ///         `use` is not external; 401 for an external use outside of captures. Codes 1, 902 and 905 break the capture
  ///         of the stream.
  void wait(const StreamRef& stream = current_stream(), EventUse use = EventUse::ordering) const;

  /// Blocks until the last record has completed; returns at once if there is none.
  void synchronize() const;

  /// True if the last record has completed, or there is none. Does not block.
  bool query() const;

 private:
  EventRef ref_;
};

/// The time between two records in milliseconds.
/// \throws BackendError with 600 (not ready) if one has not completed, 400 if one was never recorded or has no timing.
REPRISE_EXPORT float elapsed_ms(const Event& start, const Event& end);

}  // namespace reprise
