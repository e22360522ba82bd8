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

// Writes to the file of the request, or to standard error if there is none or it cannot be written.
void write_output(const ExplainRequest& request, std::string_view text) {
  if (!request.file.empty()) {
    const int failed = append(request.file, text);
    if (failed == 0) return;
    static std::atomic_flag warned;
    if (!warned.test_and_set())
      warn(text::format("the file of REPRISE_EXPLAIN, \"{}\", cannot be written ({}): its reports go to standard error",
                        request.file, std::strerror(failed)));
  }
  write_all(STDERR_FILENO, text);
}

// True if the capture gave a graph in which nothing is missing.
bool went_well(const CaptureReport& report) noexcept {
  return report.code == ErrorCode::success && !report.broken_by && report.refused.empty() &&
         report.not_captured.empty();
}

}  // namespace

ExplainRequest explain_request() {
  return {std::string(support::trusted_environment("REPRISE_EXPLAIN")),
          support::environment_flag("REPRISE_EXPLAIN_ALL")};
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
