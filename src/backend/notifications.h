// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/stream.h"
#include "support/callbacks.h"

// What the parts of the library notify each other of: events of streams and devices.

namespace reprise::backend {

/// The destruction of a Stream: called on the destroying thread, just before stream_destroy. The handle is still valid,
/// and the work of the stream may still run. For code that stores stream handles: a new stream may have the same
/// handle, from the driver or as a stream that was kept (backend/objects/kept_streams.h).
REPRISE_EXPORT_INTERNAL inline constinit support::CallbackList<const StreamRef&> stream_end_callbacks;

/// A wait that this library made a stream do: called on the thread of the wait, after it. The stream may have joined a
/// capture by it.
REPRISE_EXPORT_INTERNAL inline constinit support::CallbackList<const StreamRef&> stream_wait_callbacks;

using StreamCallback = support::Callback<const StreamRef&>;

/// Called when a HostSimulator has ended and when a later one is to use its device again, on any thread, without a
/// lock: the memory and the state that are kept for the next user of the device must be dropped.
inline constinit support::CallbackList<const Device&> simulator_end_callbacks;

}  // namespace reprise::backend
