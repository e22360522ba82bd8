// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "reprise/stream.h"
#include "support/callbacks.h"

namespace reprise::backend {

/// A callback for a wait that this library made a stream do: called on the thread of the wait, after it. The stream may
/// have joined a capture by it.
using StreamWaitCallback = support::Callback<const StreamRef&>;

inline constinit support::CallbackList<const StreamRef&> stream_wait_callbacks;

/// The number of bodies of conditional nodes that are being captured. The runtime would take a wait between one and a
/// stream around it for one that joins two captures (902), and break both: then neither can be ended in this process.
inline constinit std::atomic<int> bodies_underway{0};

}  // namespace reprise::backend
