// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/stream.h"
#include "support/callbacks.h"

namespace reprise::backend {

/// A callback for a wait that this library made a stream do: called on the thread of the wait, after it. The stream may
/// have joined a capture by it.
using StreamWaitCallback = support::Callback<const StreamRef&>;

REPRISE_EXPORT_INTERNAL inline constinit support::CallbackList<const StreamRef&> stream_wait_callbacks;

}  // namespace reprise::backend
