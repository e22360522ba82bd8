// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace reprise {
struct CaptureReport;
}

// The lines of `reprise explain --json` that a process writes itself: objects whose one member says what they are.

namespace reprise::inspect {

/// `{"capture":REPORT}`, REPORT as to_json(report). Without a line end.
std::string capture_line(const CaptureReport& report);

/// `{"message":TEXT}`.
std::string message_line(std::string_view text);

}  // namespace reprise::inspect
