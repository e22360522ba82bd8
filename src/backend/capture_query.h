// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "backend/types.h"
#include "reprise/stream.h"

// Queries of the runtime for the capture that a stream takes part in; they break none, in any mode. What the registry
// knows of the capture: captures::find().
//
// Code 906 means the legacy default stream while a blocking stream captures. It takes part in no capture, but work on
// it would break that one: a query before work throws, the others find no capture.

namespace reprise::backend {

/// Queries the capture that a stream takes part in: one call of the driver, none for the legacy default stream, which
/// never captures.
/// \throws BackendError if the runtime gives a code other than 906.
CaptureInfo capture_info(const StreamRef& stream);

/// The status alone, which the driver gives for less. \param call the public call with which an error begins.
/// \throws BackendError as above.
CaptureStatus capture_status(const StreamRef& stream, const char* call);

/// The status alone; nullopt if the runtime refuses the query, with whatever code.
std::optional<CaptureStatus> known_capture_status(const StreamRef& stream) noexcept;

/// True if work that is submitted to the stream would be captured.
/// \throws BackendError if the runtime refuses the query; with 906 if the work would break a capture.
bool captures_work(const StreamRef& stream);

}  // namespace reprise::backend
