// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reprise/capture_report.h"

// Capture reports for `reprise explain`, which runs a program and requests them by environment variables.

namespace reprise::inspect {

/// The request to this process.
struct ExplainRequest {
  /// REPRISE_EXPLAIN: `stderr` (also for 1), or the path of a file, with a slash, that is appended to.
  std::string output;
  std::string journal;  ///< REPRISE_EXPLAIN_JOURNAL: a file with lines for the summary of `reprise`
  bool all = false;     ///< REPRISE_EXPLAIN_ALL=1: also for captures without failure
};

/// The values of REPRISE_EXPLAIN, in words.
inline constexpr std::string_view explain_outputs = "1, `stderr` for the same, 0, or the path of a file, with a slash";

/// nullopt if REPRISE_EXPLAIN is not set, or 0; also in a process with more rights than its user has.
std::optional<ExplainRequest> explain_request();

/// The verdict of a report.
enum class CaptureOutcome {
  good,
  incomplete,  ///< there is a graph, in which something is missing
  failed,
};
CaptureOutcome outcome_of(const CaptureReport& report) noexcept;
/// "good", "incomplete" or "failed".
const char* name_of(CaptureOutcome outcome) noexcept;

/// Writes the report of an ended capture, if it failed or left something out or all are requested, and counts it in the
/// journal. Each report is one `write`, so that those of several threads and processes do not mix. A report that
/// cannot be written to its file goes to standard error, the first with a warning. Thread-safe.
void explain(const ExplainRequest& request, const CaptureReport& report) noexcept;

/// Writes the report of a capture that explain(), or the observer of CUDA's calls, has seen end well or incomplete, and
/// whose graph this library refused; `why`: the text of the error. Counts it as a failed one instead.
void explain_refused(const ExplainRequest& request, const CaptureReport& report, std::string_view why) noexcept;

/// explain(), if requested by the environment. For captures on host devices: `reprise explain` itself observes those of
/// CUDA.
void explain_if_requested(const CaptureReport& report) noexcept;

/// Writes a line for the reader of the reports.
void write_line(const ExplainRequest& request, std::string_view line) noexcept;

/// Writes a line to the journal. `watched`, `unwatched WHY`: whether calls of CUDA are observed; `good`, `incomplete`,
/// `failed`: a capture ended; `refused`, `refused incomplete`: one that was counted as good (incomplete) failed after
/// its end; `unwritten`: a report went to standard error instead of its file; `place FILE+OFFSET`: a
/// line of a stack without a name.
void note_in_journal(const ExplainRequest& request, std::string_view line) noexcept;

}  // namespace reprise::inspect
