// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/types.h"
#include "reprise/stream.h"

namespace reprise::backend {

/// Queries the capture that a stream takes part in: one call of the driver, none for the legacy default stream, which
/// never captures. Breaks no capture in any mode. What the registry knows of the capture: captures::find().
///
/// Code 906 means the legacy default stream while a blocking stream captures: it takes part in no capture.
/// \throws BackendError if the runtime gives another code.
CaptureInfo capture_info(const StreamRef& stream);

/// The status alone, which the driver gives for less. \param call the public call with which an error begins.
/// \throws BackendError as above.
CaptureStatus capture_status(const StreamRef& stream, const char* call);

}  // namespace reprise::backend
