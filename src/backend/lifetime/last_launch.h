// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "backend/lifetime/tracked_stream.h"
#include "reprise/event.h"
#include "reprise/stream.h"

namespace reprise::backend {

/// The last launch of an executable graph: whether it is over can be asked when the executable is gone. Launches of one
/// executable run one after the other, on whatever streams (CUDA: `cudaGraphLaunch`), so all others are over by then.
///
/// A launch on the stream of the last one costs a comparison, on another a look into a table. On a stream whose end
/// nobody tells (see TrackedStream) an event is recorded after each launch: the stream may be gone when somebody asks.
///
/// One thread at a time.
class LastLaunch {
 public:
  LastLaunch() = default;  ///< there was none

  /// Calls `launch`, which is to launch the executable on the stream. If it throws, nothing has changed.
  /// \throws BackendError before it is called, if there is no event where one is needed.
  template <class Launch>
  void launch(const StreamRef& stream, Launch&& launch) {
    if (stream_ != nullptr && stream_->is(stream)) [[likely]] {
      launch();
      return;
    }
    LastLaunch next = prepare(stream);
    launch();
    launched(stream, std::move(next));
  }

  /// Is it? Without one, yes. What tells is an event that is recorded when this is asked first (on a stream whose end
  /// is told): so what the stream was given in the meantime must be over, too. Never waits, and breaks nobody's
  /// capture. An error of the device, of which the first is reported, is no answer: the question may come again. Not to
  /// be asked before the executable is gone: from then on there is no launch().
  bool is_over() noexcept;

  /// After is_over(): is there an event that tells? Else nobody can tell now.
  bool can_tell() const noexcept { return event_ != nullptr && !lost_; }

  /// Waits until it is over, if somebody can tell.
  void wait() noexcept;

 private:
  bool ask();
  LastLaunch prepare(const StreamRef& stream) const;
  void launched(const StreamRef& stream, LastLaunch&& next) noexcept;

  std::shared_ptr<TrackedStream> stream_;  // null: nobody tells the end of the stream, or there was no launch
  std::shared_ptr<Event> event_;           // after the launch; with `stream_` it is recorded when somebody asks
  bool lost_ = false;                      // it could not be recorded: nobody knows when the launch is over
  bool told_ = false;                      // of an error
};

}  // namespace reprise::backend
