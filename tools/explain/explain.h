// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "reprise/capture_report.h"

// Capture reports for `reprise explain`, which becomes a program and requests them by environment variables.

namespace reprise::tools {

/// The request to this process.
struct ExplainRequest {
  std::string file;  ///< REPRISE_EXPLAIN: the path of a file that is appended to; empty for standard error
  bool all = false;  ///< REPRISE_EXPLAIN_ALL=1: also for captures without failure
};

/// Names no file in a process with more rights than its user has.
ExplainRequest explain_request();

/// Writes the report of an ended capture, if it failed or left something out or all are requested. Each report is one
/// `write`, so that those of several threads and processes do not mix. A report that cannot be written to its file goes
/// to standard error, the first with a warning. Thread-safe.
void explain(const ExplainRequest& request, const CaptureReport& report) noexcept;

/// Writes a line for the reader of the reports.
void write_line(const ExplainRequest& request, std::string_view line) noexcept;

}  // namespace reprise::tools
