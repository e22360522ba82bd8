// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/captures_underway.h"
#include "backend/objects/tracked_stream.h"
#include "reprise/stream.h"

namespace reprise::backend {

/// While it lives, the thread that made it captures a body, and functions of this library refuse what it submits to
/// streams that are easily taken for the captured one: it would be executed at once, and be missing in replays. These
/// are the legacy default stream, streams of other devices, and those that were added. Allowed is work on a stream that
/// takes part in a capture, in relaxed mode of the thread (CaptureModeGuard), and once `captured` captures no more.
///
/// Of several on one thread, the last one counts, and those before it that capture the same stream. Streams are added
/// by the thread that made it. It may be destroyed on any thread.
class OutsideWork {
 public:
  explicit OutsideWork(const StreamRef& captured);
  ~OutsideWork();
  OutsideWork(const OutsideWork&) = delete;
  OutsideWork& operator=(const OutsideWork&) = delete;

  /// Adds a stream of the device. \param name what errors call it.
  /// \param tracked null for a stream whose end is not notified.
  void add(const StreamRef& stream, std::string name, std::shared_ptr<TrackedStream> tracked = nullptr);
  /// Adds the stream that was current before the capture, on another one of the library's.
  void add_current(const StreamRef& stream) { add(stream, "the stream that was current before the capture"); }
  bool has_refused() const noexcept;

  /// Refuses work of the calling thread on a stream.
  /// \param call what errors name where the thread is in no function of the public interface.
  /// \throws UsageError
  static void require_none(const StreamRef& stream, const char* call) {
    if (captures_underway.load(std::memory_order_relaxed) != 0) [[unlikely]]
      require_none_in_capture(stream, call);
  }

  struct State;

 private:
  static void require_none_in_capture(const StreamRef& stream, const char* call);

  const std::shared_ptr<State> state_;  // shared with the list of the thread
};

}  // namespace reprise::backend
