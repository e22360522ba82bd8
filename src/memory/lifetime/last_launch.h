// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "backend/objects/tracked_stream.h"
#include "reprise/event.h"
#include "reprise/stream.h"

namespace reprise::memory {

/// The last launch of an executable graph; its completion can be queried after the executable is destroyed. Launches of
/// one executable run one after the other, on whatever streams (CUDA: `cudaGraphLaunch`), so all earlier ones have
/// completed by then.
///
/// A launch on the stream of the last one costs a comparison, on another a table lookup. On a foreign stream, whose
/// destruction is not notified (see backend::TrackedStream), an event is recorded after each launch: the stream may be
/// destroyed before the query.
///
/// A copy stays with the launch that was the last one when it was made. One thread at a time uses an object.
class LastLaunch {
 public:
  LastLaunch() = default;  ///< no launch

  /// Calls `launch`, which must launch the executable on the stream. If it throws, nothing has changed.
  /// \throws BackendError before the call, if a required event cannot be created.
  template <class Launch>
  void launch(const StreamRef& stream, Launch&& launch) {
    if (was_on(stream)) [[likely]]
      launch();
    else
      launch_elsewhere(stream, launch);
  }

  /// True if the last launch was on this stream, which is tracked: launch() does nothing more than to launch then.
  bool was_on(const StreamRef& stream) const noexcept { return stream_ != nullptr && stream_->is(stream); }

  /// Makes later work of the stream wait for the last launch, on the device; of another stream by an event. False if
  /// that cannot be done now: the stream of the launch is being captured. \throws BackendError
  bool order_before(const StreamRef& stream) { return was_on(stream) || is_none() || wait_on(stream); }

  /// True once the last launch has completed, or if there was none. Does not block, and breaks no capture. On a tracked
  /// stream the first query records the event, so later work of the stream must have completed, too. False after an
  /// error of the device, the first of which is reported: query again. No launch() may follow.
  bool is_over() noexcept;

  /// After is_over(): true if an event decides it; false while none could be recorded.
  bool can_query() const noexcept { return event_ != nullptr && !lost_; }

  /// Waits for the completion, if an event decides it.
  void wait() noexcept;

  /// True if there was no launch.
  bool is_none() const noexcept { return stream_ == nullptr && event_ == nullptr; }

  /// True if both last launches were on one stream, which is tracked.
  bool is_on_stream_of(const LastLaunch& other) const noexcept {
    return stream_ != nullptr && stream_ == other.stream_;
  }

 private:
  // No part of launch(), whose usual way needs no registers saved for this.
  template <class Launch>
  [[gnu::noinline]] void launch_elsewhere(const StreamRef& stream, Launch&& launch) {
    LastLaunch next = prepare(stream);
    launch();
    launched(stream, std::move(next));
  }
  bool query();
  bool wait_on(const StreamRef& stream) const;
  LastLaunch prepare(const StreamRef& stream) const;
  void launched(const StreamRef& stream, LastLaunch&& next) noexcept;

  std::shared_ptr<backend::TrackedStream> stream_;  // null: a foreign stream, or no launch
  std::shared_ptr<Event> event_;                    // after the launch; with `stream_` recorded at the first query
  bool lost_ = false;                               // the event could not be recorded: completion cannot be determined
  bool error_reported_ = false;                     // only the first error is
};

}  // namespace reprise::memory
