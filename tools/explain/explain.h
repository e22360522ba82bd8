// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reprise/capture_report.h"

// Capture reports for `reprise explain`, which becomes a program and requests them by environment variables.

namespace reprise::tools {

/// The request to this process.
struct ExplainRequest {
  /// REPRISE_EXPLAIN: `stderr` (also for 1), or the path of a file, with a slash, that is appended to.
  std::string output;
  bool all = false;  ///< REPRISE_EXPLAIN_ALL=1: also for captures without failure
};

/// The values of REPRISE_EXPLAIN, in words.
inline constexpr std::string_view explain_outputs = "1, `stderr` for the same, 0, or the path of a file, with a slash";

/// nullopt if REPRISE_EXPLAIN is not set, or 0; also in a process with more rights than its user has.
std::optional<ExplainRequest> explain_request();

/// True if the capture gave a graph in which nothing is missing.
bool went_well(const CaptureReport& report) noexcept;

/// Writes the report of an ended capture, if it failed or left something out or all are requested. Each report is one
/// `write`, so that those of several threads and processes do not mix. A report that cannot be written to its file goes
/// to standard error, the first with a warning. Thread-safe.
void explain(const ExplainRequest& request, const CaptureReport& report) noexcept;

/// Writes a line for the reader of the reports.
void write_line(const ExplainRequest& request, std::string_view line) noexcept;

}  // namespace reprise::tools
