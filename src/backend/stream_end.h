// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/stream.h"

namespace reprise::backend {

/// Called on the thread that destroys a stream, just before the driver is asked to: the handle is still valid, and the
/// work of the stream may still run.
using StreamEndListener = void (*)(const StreamRef& stream) noexcept;

/// From now on `listener` hears of the end of every Stream of this library, until the process ends. For what remembers
/// streams by their handles: that of a destroyed stream may come back for a new one. Thread-safe.
void add_stream_end_listener(StreamEndListener listener) noexcept;

}  // namespace reprise::backend
