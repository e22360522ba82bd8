// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reprise/event.h"
#include "reprise/stream.h"

// The capture that each event was recorded in. CUDA has no query for it, and a wait that connects the capture of a body
// with another capture breaks both. Thread-safe; events that other code recorded are not known.

namespace reprise::backend::captured_events {

/// The id of the capture that an event would now be recorded in, for recorded(); 0: none. Queries nothing where no
/// capture is underway. \throws BackendError if the query fails.
std::uint64_t capture_for_record(const StreamRef& stream);

/// Notifies that `event` was recorded in that capture. Where there is no memory to note it, the event stays unknown.
void recorded(const EventRef& event, std::uint64_t capture) noexcept;

/// Notifies that the event is about to be destroyed.
void ends(const EventRef& event) noexcept;

/// Requires, while the body of a conditional node is captured, that the stream and the record of the event are not of
/// two captures. \throws UsageError that begins with `call`; nothing is broken then.
void require_one_capture(const char* call, const StreamRef& stream, const EventRef& event);
/// The same for two streams.
void require_one_capture(const char* call, const StreamRef& stream, const StreamRef& other);

}  // namespace reprise::backend::captured_events
