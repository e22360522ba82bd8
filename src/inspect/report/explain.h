// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reprise/capture_report.h"

// Capture reports for `reprise explain`, which runs a program and asks by its environment that they be written.

namespace reprise::inspect {

/// What is asked of this process.
struct ExplainRequest {
  std::string output;   ///< REPRISE_EXPLAIN: `stderr`, or a file that is appended to
  std::string journal;  ///< REPRISE_EXPLAIN_JOURNAL: a file that gets a line for each thing that `reprise` sums up
  bool all = false;     ///< REPRISE_EXPLAIN_ALL=1: also of captures that went well
};

/// None if REPRISE_EXPLAIN is not set.
std::optional<ExplainRequest> explain_request();

/// What a report comes to.
enum class CaptureOutcome {
  good,
  incomplete,  ///< it gave a graph, in which something is missing
  failed,
};
CaptureOutcome outcome_of(const CaptureReport& report) noexcept;

/// Writes the report of a capture that is over, if it failed or left something out or all are asked for, and counts it
/// in the journal. Each report is one `write`, so that those of several threads and processes do not mix. What cannot
/// be written is lost. Thread-safe.
void explain(const ExplainRequest& request, const CaptureReport& report) noexcept;

/// The same, if this process is asked to; else it costs a look at the environment. For captures on host devices: those
/// of CUDA are seen by `reprise explain` itself.
void explain_if_asked(const CaptureReport& report) noexcept;

/// A line of text for whoever reads the reports.
void tell(const ExplainRequest& request, std::string_view line) noexcept;

/// A line for the journal. `watched`: calls of CUDA are; `unwatched WHY`: they are not; `good`, `incomplete`, `failed`:
/// a capture is over; `place FILE+OFFSET`: a line of a stack has no name.
void note_in_journal(const ExplainRequest& request, std::string_view line) noexcept;

}  // namespace reprise::inspect
