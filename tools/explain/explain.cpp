// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "reprise/error.h"
#include "support/environment.h"
#include "text/format.h"

namespace reprise::tools {
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
int append(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_CREAT, 0666);
  if (file < 0) return errno;
  const int failed = write_all(file, text);
  ::close(file);
  return failed;
}

// Writes to the output of the request, or to standard error if its file cannot be written.
void write_output(const ExplainRequest& request, std::string_view text) {
  if (request.output != "stderr") {
    const int failed = append(request.output, text);
    if (failed == 0) return;
    static std::atomic_flag warned;
    if (!warned.test_and_set())
      warn(text::format("the file of REPRISE_EXPLAIN, \"{}\", cannot be written ({}): its reports go to standard error",
                        request.output, std::strerror(failed)));
  }
  write_all(STDERR_FILENO, text);
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

}  // namespace

std::optional<ExplainRequest> explain_request() {
  const std::string_view output = support::trusted_environment("REPRISE_EXPLAIN");
  if (output.empty() || output == "0") return std::nullopt;
  return ExplainRequest{output_of(output), support::environment_flag("REPRISE_EXPLAIN_ALL")};
}

bool went_well(const CaptureReport& report) noexcept {
  return report.code == ErrorCode::success && !report.broken_by && report.refused.empty() &&
         report.not_captured.empty();
}

void explain(const ExplainRequest& request, const CaptureReport& report) noexcept try {
  if (request.all || !went_well(report)) write_output(request, "reprise explain: " + report.str() + "\n");
} catch (...) {  // no memory: the report is lost
}

void write_line(const ExplainRequest& request, std::string_view line) noexcept try {
  write_output(request, "reprise explain: " + std::string(line) + "\n");
} catch (...) {
}

}  // namespace reprise::tools
