// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reprise/capture_report.h"
#include "reprise/device.h"
#include "reprise/error.h"

// Parts of a report about a failed capture, besides the findings of the device.

namespace reprise::inspect {

/// Adds that the end of the capture failed. That call broke it, unless another one is known to have, or must have.
/// \param detail the runtime's explanation; may be empty.
void add_failed_end(CaptureReport& report, ErrorCode code, std::string_view detail, bool capturing_thread);

/// Adds the error that emptied a graph after its capture had ended well, if the device or its memory is to blame: other
/// errors say themselves what to do. Nothing if the capture had failed.
void add_failure(std::optional<CaptureReport>& report, const Error& error, Device device, const std::string& graph);

}  // namespace reprise::inspect
