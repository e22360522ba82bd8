// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/stream.h"
#include "support/callbacks.h"

namespace reprise::backend {

/// A callback for the destruction of a Stream: called on the destroying thread, just before stream_destroy. The handle
/// is still valid, and the work of the stream may still run. For code that stores stream handles: a new stream may have
/// the same handle, from the driver or as a stream that was kept (backend/objects/kept_streams.h).
using StreamEndCallback = support::Callback<const StreamRef&>;

REPRISE_EXPORT_INTERNAL inline constinit support::CallbackList<const StreamRef&> stream_end_callbacks;

}  // namespace reprise::backend
