// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/explain.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "inspect/report/json_lines.h"
#include "reprise/error.h"
#include "support/environment.h"
#include "text/format.h"

namespace reprise::inspect {
namespace {

// The code of the failure; 0 if all was written.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Likewise.
int append(const std::string& path, int flags, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
  if (file < 0) return errno;
  const int failed = write_all(file, text);
  ::close(file);
  return failed;
}

// Writes to the output of the request, or to standard error if its file cannot be written.
void write_output(const ExplainRequest& request, std::string_view text) {
  if (request.output != "stderr") {
    const int failed = append(request.output, O_CREAT, text);
    if (failed == 0) return;
    static std::atomic_flag warned;
    if (!warned.test_and_set())
      warn(text::format("the file of REPRISE_EXPLAIN, \"{}\", cannot be written ({}): its reports go to standard error",
                        request.output, std::strerror(failed)));
    note_in_journal(request, "unwritten");
  }
  write_all(STDERR_FILENO, text);
}

void add_to_journal(const ExplainRequest& request, std::string_view lines) {
  // Not made here: `reprise`, which reads it, may have ended.
  const int failed = request.journal.empty() ? 0 : append(request.journal, 0, lines);
  static std::atomic_flag warned;
  if (failed == 0 || warned.test_and_set()) return;
  const std::string why =
      failed == ENOENT
          ? "is not there: `reprise` has ended, or this process has another PID or mount namespace, as in a "
            "container; run `reprise explain` within that"
          : text::format("cannot be written ({})", std::strerror(failed));
  warn(text::format(
      "the summary of `reprise explain` will not count what this process captures: its journal, \"{}\", {}",
      request.journal, why));
}

std::string output_of(std::string_view value) {
  constexpr const char* name = "REPRISE_EXPLAIN";
  if (value == "1") return "stderr";
  if (value.find('/') == std::string_view::npos && value != "stderr") {
    support::warn_unreadable_environment(name, explain_outputs, value, "reports go to standard error");
    return "stderr";
  }
  return std::string(value);
}

// The lines of a stack that consist of a file and an offset only, for the journal; without the C library, in which
// every stack ends.
void add_places(const CaptureReport::Call& call, std::string& lines) {
  for (const std::string& line : call.stack)
    if (line.starts_with('/') && line.find("+0x") != std::string::npos && line.find("/libc.so.") == std::string::npos)
      lines += "place " + line + "\n";
}

}  // namespace

std::optional<ExplainRequest> explain_request() {
  const std::string_view output = support::trusted_environment("REPRISE_EXPLAIN");
  if (output.empty() || output == "0") return std::nullopt;
  return ExplainRequest{output_of(output), std::string(support::trusted_environment("REPRISE_EXPLAIN_JOURNAL")),
                        support::environment_flag("REPRISE_EXPLAIN_ALL"),
                        support::environment_flag("REPRISE_EXPLAIN_JSON")};
}

CaptureOutcome outcome_of(const CaptureReport& report) noexcept {
  if (report.code != ErrorCode::success || report.broken_by) return CaptureOutcome::failed;
  return report.refused.empty() && report.not_captured.empty() ? CaptureOutcome::good : CaptureOutcome::incomplete;
}

const char* name_of(CaptureOutcome outcome) noexcept {
  switch (outcome) {
    case CaptureOutcome::good:
      return "good";
    case CaptureOutcome::incomplete:
      return "incomplete";
    case CaptureOutcome::failed:
      break;
  }
  return "failed";
}

void explain(const ExplainRequest& request, const CaptureReport& report) noexcept try {
  const CaptureOutcome outcome = outcome_of(report);
  std::string journal = std::string(name_of(outcome)) + "\n";
  if (outcome != CaptureOutcome::good || request.all) {
    write_output(request, (request.json ? capture_line(report) : "reprise explain: " + report.str()) + "\n");
    if (report.broken_by) add_places(*report.broken_by, journal);
    for (const auto* const calls : {&report.refused, &report.not_captured})
      for (const CaptureReport::Call& call : *calls) add_places(call, journal);
  }
  add_to_journal(request, journal);
} catch (...) {  // no memory: the report is lost
}

void explain_refused(const ExplainRequest& request, const CaptureReport& report, std::string_view why) noexcept try {
  CaptureReport refused = report;
  refused.notes.push_back(text::format("This library refused the graph: {}", why));
  write_output(request, (request.json ? capture_line(refused) : "reprise explain: " + refused.str()) + "\n");
  note_in_journal(request, outcome_of(report) == CaptureOutcome::incomplete ? "refused incomplete" : "refused");
} catch (...) {  // no memory: the report is lost
}

void explain_if_requested(const CaptureReport& report) noexcept try {
  if (const auto request = explain_request()) explain(*request, report);
} catch (...) {
}

void write_line(const ExplainRequest& request, std::string_view line) noexcept try {
  write_output(request, (request.json ? message_line(line) : "reprise explain: " + std::string(line)) + "\n");
} catch (...) {
}

void note_in_journal(const ExplainRequest& request, std::string_view line) noexcept try {
  add_to_journal(request, std::string(line) + "\n");
} catch (...) {
}

}  // namespace reprise::inspect
