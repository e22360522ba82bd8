// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/stream.h"

namespace reprise::backend {

/// Called on the thread that destroys a stream, just before the driver is asked to: the handle is still valid, and the
/// work of the stream may still run.
using StreamEndListener = void (*)(const StreamRef& stream) noexcept;

/// Makes `listener` the one that hears of the end of every Stream of this library. One floor above needs it, the
/// caching allocator: a destroyed stream's handle may come back as that of a new stream. Thread-safe.
void set_stream_end_listener(StreamEndListener listener) noexcept;

}  // namespace reprise::backend
