// SPDX-License-Identifier: Apache-2.0
#include "inspect/report/explain.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

namespace reprise::inspect {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void append(const std::string& path, int flags, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
  if (file < 0) return;
  write_all(file, text);
  ::close(file);
}

void write_output(const ExplainRequest& request, std::string_view text) {
  if (request.output == "stderr")
    write_all(STDERR_FILENO, text);
  else
    append(request.output, O_CREAT, text);
}

const char* name_of(CaptureOutcome outcome) {
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

// The lines of a stack that consist of a file and an offset only, for the journal; without the C library, in which
// every stack ends.
void add_places(const CaptureReport::Call& call, std::string& lines) {
  for (const std::string& line : call.stack)
    if (line.starts_with('/') && line.find("+0x") != std::string::npos && line.find("/libc.so.") == std::string::npos)
      lines += "place " + line + "\n";
}

}  // namespace

std::optional<ExplainRequest> explain_request() {
  const char* const output = std::getenv("REPRISE_EXPLAIN");
  if (output == nullptr || *output == '\0') return std::nullopt;
  return ExplainRequest{output, from_environment("REPRISE_EXPLAIN_JOURNAL"),
                        from_environment("REPRISE_EXPLAIN_ALL") == "1"};
}

CaptureOutcome outcome_of(const CaptureReport& report) noexcept {
  if (report.code != ErrorCode::success || report.broken_by) return CaptureOutcome::failed;
  return report.refused.empty() && report.not_captured.empty() ? CaptureOutcome::good : CaptureOutcome::incomplete;
}

void explain(const ExplainRequest& request, const CaptureReport& report) noexcept try {
  const CaptureOutcome outcome = outcome_of(report);
  std::string journal = std::string(name_of(outcome)) + "\n";
  if (outcome != CaptureOutcome::good || request.all) {
    write_output(request, "reprise explain: " + report.str() + "\n");
    if (report.broken_by) add_places(*report.broken_by, journal);
    for (const auto* const calls : {&report.refused, &report.not_captured})
      for (const CaptureReport::Call& call : *calls) add_places(call, journal);
  }
  if (!request.journal.empty()) append(request.journal, 0, journal);
} catch (...) {  // no memory: the report is lost
}

void explain_if_requested(const CaptureReport& report) noexcept try {
  if (const auto request = explain_request()) explain(*request, report);
} catch (...) {
}

void write_line(const ExplainRequest& request, std::string_view line) noexcept try {
  write_output(request, "reprise explain: " + std::string(line) + "\n");
} catch (...) {
}

void note_in_journal(const ExplainRequest& request, std::string_view line) noexcept try {
  // Not created again after `reprise` has removed it.
  if (!request.journal.empty()) append(request.journal, 0, std::string(line) + "\n");
} catch (...) {
}

}  // namespace reprise::inspect
