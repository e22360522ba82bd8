// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "backend/captures_underway.h"
#include "backend/types.h"
#include "captures/capture.h"
#include "reprise/detail/export.h"

// The captures of this library that are underway in the process, and the one answer to "which capture does this stream
// take part in".
//
// Where only the state of a stream or its last nodes matter, backend/capture_query.h serves, which also has the one
// policy for code 906. Two places query the runtime themselves: backend/host_work.cpp, which needs the graph for work
// that it is about to submit (906 is an error there), and memory/held_back.cpp, which needs the code that a destroyed
// stream gives.
//
// Ids of captures are compared with those of streams also by backend/objects/captured_events.cpp, which lies below and
// has the id for each event, and by what belongs to one capture or body already: annotations (inspect/), Forks
// (breakable/), and in libtorch/ gradient scaling and the generators of CUDA.
//
// Captures that were begun by direct calls of the driver are not in here: find() recognizes them, but they are not
// counted, and cannot be known ahead of time: synchronizing the device breaks them (900).
//
// Lock order, outermost first:
//   1. the mutex of NoneBegins and announcements;
//   2. what a concern attaches to a capture (memory pools, workspaces, random numbers, annotations, ...);
//   3. an allocator's mutex;
//   4. logs of allocations, which are attached to a capture, too, and of frees;
//   5. the gate of NoneUnderway, the registry's list, the mutex of a Capture: leaves. Under the gate the driver is
//      called; under the mutex of a Capture it is queried for its id; under the list nothing is called.
// Nothing is allocated from the device, and nothing of users released, under 1 to 5: without memory an allocation
// drains the release queue, which runs destructors of users, and of streams, whose end takes 2 and 3.
//
// Nothing in here is destroyed at the end of the process: graphs in static objects may end late.

namespace reprise::captures {

namespace detail {
/// The next capture after `number` in order of registration; sets `number` to its number. Null at the end. The search
/// begins with 0.
REPRISE_EXPORT_INTERNAL std::shared_ptr<Capture> next_after(std::uint64_t& number) noexcept;
}  // namespace detail

/// True if a capture of this library is underway, on any thread and device. One relaxed load, so that it costs
/// nothing where there is none; exact for a caller that knows of the capture, because it began it or was notified by
/// the thread that did.
inline bool any_underway() noexcept {
  return backend::captures_underway.load(std::memory_order_relaxed) != 0;
}

/// What a stream takes part in.
enum class Part {
  none,         ///< no capture, or none that the runtime knows of
  own,          ///< a capture of this library
  foreign,      ///< a capture that this library did not begin
  invalidated,  ///< a capture that is broken: the runtime gives no id of it
};

/// What find() found.
struct Found {
  Part part = Part::none;
  /// The capture of `own`. Also, with `none`, the one that is announced for this stream; with `invalidated`, the one
  /// that began on it. Else null.
  std::shared_ptr<Capture> capture = {};
  /// The body of a conditional node that the stream captures, with Part::own; null: the graph of the capture.
  std::shared_ptr<const Body> body = {};
  /// As the runtime gave it; the spans are valid until the next call on the stream.
  backend::CaptureInfo info = {};

  /// The runtime's number of the capture, for comparison with that of other streams; 0 if there is none, or it is
  /// broken. Not that of a body, which is a capture of its own for the runtime. \throws BackendError
  std::uint64_t id() const { return body != nullptr ? capture->id() : info.id; }
};

/// Queries which capture a stream takes part in, by backend::capture_info(), and by one more query for each capture
/// whose id is first needed.
/// \throws BackendError as that.
REPRISE_EXPORT_INTERNAL Found find(const StreamRef& stream);

/// Notes that memory or a workspace is about to be allocated for the stream, if that captures a body.
/// \throws UsageError as Capture::use_in_body().
inline void note_use(const StreamRef& stream, const Found& found) {
  if (found.body != nullptr) found.capture->use_in_body(stream, *found.body);
}

/// The capture of this library whose resources a stream is to use: Found::capture. No call of the driver while none is
/// underway.
/// \throws BackendError as find(); UsageError as Capture::use_in_body().
inline std::shared_ptr<Capture> find_own(const StreamRef& stream) {
  if (!any_underway()) return nullptr;
  const Found found = find(stream);
  note_use(stream, found);
  return found.capture;
}

/// Refuses work on a stream whose part is `invalidated`. \throws BackendError with 901.
/// \param work as in "a child graph for" that stream.
[[noreturn]] void refuse_broken(const char* work);

/// Calls `visit(Capture&)` for all that are registered, the oldest one first, and holds no lock meanwhile.
template <class Visit>
void for_each(const Visit& visit) {
  std::uint64_t number = 0;
  while (const std::shared_ptr<Capture> capture = detail::next_after(number)) visit(*capture);
}

/// A capture's place in the registry. Made before the runtime begins to capture; waits while a NoneBegins lives on
/// another thread.
class Registration {
 public:
  /// \param options stay the caller's: those that take part in the capture read them until the end of this object.
  /// \param pool the one that the options name, else a new one.
  Registration(const StreamRef& stream, const GraphOptions& options, MempoolId pool);
  Registration(const StreamRef& stream, GraphOptions&& options, MempoolId pool) = delete;  ///< they must stay
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  Capture& capture() const noexcept { return *capture_; }

  /// The runtime captures no more: the capture is not counted, has no ids, and is not found by its stream. What is
  /// attached stays until the end of this object. Does nothing when called again.
  void over() noexcept;

 private:
  const std::shared_ptr<Capture> capture_;
};

/// A capture that cannot be ended is left over: until the process ends, nothing waits for a device, as while any other
/// capture is underway.
inline void stay_underway() noexcept {
  backend::captures_underway.fetch_add(1, std::memory_order_relaxed);
}

/// While it lives, no capture of this library begins on another thread. For long calls, such as waiting for a
/// device. Must be made without any lock.
class REPRISE_EXPORT_INTERNAL NoneBegins {
 public:
  NoneBegins();

  /// True if one is underway. If not, the calls of the last one happen before the return.
  bool any_underway() const noexcept;

 private:
  std::unique_lock<std::mutex> lock_;
};

/// While this object exists and converts to true, no capture of this library is underway and none can begin. Use it to
/// query a stream and then record an event on it: no capture can begin between the two. For a few calls of the driver
/// that return at once; several threads can have one.
class NoneUnderway {
 public:
  NoneUnderway();
  ~NoneUnderway();
  NoneUnderway(const NoneUnderway&) = delete;
  NoneUnderway& operator=(const NoneUnderway&) = delete;

  explicit operator bool() const noexcept { return held_; }

 private:
  bool held_;
};

}  // namespace reprise::captures
