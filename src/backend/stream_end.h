// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/stream.h"

namespace reprise::backend {

/// What is called when a Stream of this library ends: on the thread that destroys it, just before the driver is asked
/// to. The handle is still valid, and the work of the stream may still run. For what remembers streams by their
/// handles: that of a destroyed stream may come back for a new one.
class StreamEndListener {
 public:
  using Function = void (*)(const StreamRef& stream) noexcept;
  constexpr explicit StreamEndListener(Function function) noexcept : function_(function) {}
  StreamEndListener(const StreamEndListener&) = delete;
  StreamEndListener& operator=(const StreamEndListener&) = delete;

 private:
  friend void add_stream_end_listener(StreamEndListener& listener) noexcept;
  friend void notify_stream_end(const StreamRef& stream) noexcept;
  const Function function_;
  StreamEndListener* next_ = nullptr;
};

/// From now on `listener` is called, until the process ends: it is never destroyed. To be added once. Thread-safe.
void add_stream_end_listener(StreamEndListener& listener) noexcept;

/// Calls all of them.
void notify_stream_end(const StreamRef& stream) noexcept;

}  // namespace reprise::backend
