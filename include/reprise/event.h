// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/stream.h"

/// \file
/// Events: marks in the work of streams.

namespace reprise {

/// An event of anyone's: a view that owns nothing.
class EventRef {
 public:
  EventRef(Device device, EventHandle handle) noexcept : device_(device), handle_(handle) {}  ///< a view of any event
  EventRef(Device device, int handle) = delete;  ///< an event has no number

  Device device() const noexcept { return device_; }       ///< the device it was made for
  EventHandle native() const noexcept { return handle_; }  ///< `cudaEvent_t`

 private:
  Device device_;
  EventHandle handle_;
};

/// How an Event is made.
struct EventOptions {
  bool timing = true;  ///< elapsed_ms() can be asked; false makes the event cheaper
};

/// How a record or a wait on a capturing stream is meant.
enum class EventUse {
  ordering,  ///< inside the capture: gives edges, no node
  external,  ///< a node of its own: recorded or waited for by each replay (`cudaEventRecordExternal`)
};

/// An event that this object owns. Movable; a moved-from Event may only be assigned to or destroyed.
///
/// A record is a point in the work of a stream that never changes again; a wait means the point that was the last one
/// at the time of the wait.
class Event {
 public:
  explicit Event(Device device = current_device(), EventOptions options = {});  ///< a new event, not recorded
  ~Event();
  Event(Event&& other) noexcept;             ///< takes the event over
  Event& operator=(Event&& other) noexcept;  ///< destroys this object's event and takes the other over

  EventRef ref() const noexcept { return ref_; }                 ///< a view of it
  operator EventRef() const noexcept { return ref_; }            ///< a view of it
  EventHandle native() const noexcept { return ref_.native(); }  ///< `cudaEvent_t`
  Device device() const noexcept { return ref_.device(); }       ///< the device it was made for

  /// Marks the work given to `stream` so far. On a capturing stream the event stands for a point of the capture,
  /// unless `use` is external.
  void record(const StreamRef& stream = current_stream(), EventUse use = EventUse::ordering) const;

  /// Work given to `stream` from now on waits for the last record.
  void wait(const StreamRef& stream = current_stream(), EventUse use = EventUse::ordering) const;

  /// Blocks until the last record is reached; returns at once if there is none.
  void synchronize() const;

  /// Is the last record reached? True if there is none.
  bool query() const;

 private:
  EventRef ref_;
};

/// The time between two records in milliseconds.
/// \throws BackendError with 600 (not ready) if one is not reached yet, 400 if one was never recorded or does not time.
float elapsed_ms(const Event& start, const Event& end);

}  // namespace reprise
