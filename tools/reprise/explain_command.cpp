// SPDX-License-Identifier: Apache-2.0
#include "explain_command.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "journal.h"
#include "program.h"
#include "text/format.h"

namespace reprise::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* library_name = "libreprise_explain.so";

// Possible places of the library that CUDA's driver loads: beside the build's programs, or where it was installed.
std::vector<fs::path> library_folders() {
  std::error_code failed;
  const fs::path here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  std::vector<fs::path> folders = {here / ".." / "lib"};
#ifdef REPRISE_LIB_FROM_BIN
  folders.push_back(here / REPRISE_LIB_FROM_BIN);
#endif
  return folders;
}

fs::path find_library() {
  std::error_code failed;
  for (const fs::path& folder : library_folders())
    if (fs::exists(folder / library_name, failed)) return fs::canonical(folder / library_name, failed);
  return {};
}

// The journal: a file in memory, so that no folder has to be writable.
class JournalFile {
 public:
  JournalFile() : file_(::memfd_create("reprise_explain_journal", MFD_CLOEXEC)) {
    if (file_ >= 0)
      path_ = text::format("/proc/{}/fd/{}", ::getpid(), file_);
    else
      std::fprintf(stderr, "reprise explain: no memory for the journal of captures (%s): there will be no summary\n",
                   std::strerror(errno));
  }
  ~JournalFile() {
    if (file_ >= 0) ::close(file_);
  }
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  /// Empty if there is none.
  const std::string& path() const { return path_; }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  const int file_;
  std::string path_;
};

/// Where the reports go: standard error, or a file. Lines that the file does not take go to standard error.
class Reports {
 public:
  /// \param file empty for standard error.
  explicit Reports(std::string file) : file_(std::move(file)) {}

  /// Adds a line. If lines go to a file, it is also on standard error.
  void say(const std::string& line) {
    const std::string text = "reprise explain: " + line + "\n";
    add_to_file(text);
    std::fputs(text.c_str(), stderr);
  }
  /// Places with their names.
  void say_places(const std::vector<ResolvedPlace>& places) {
    if (!places.empty()) add("reprise explain: of the places without a name, addr2line knows:\n");
    for (const auto& [place, name] : places) add(text::format("  {}  {}\n", place, name));
  }

  bool are_in_a_file() const { return !file_.empty(); }
  /// True if the file did not take all of it.
  bool failed() const { return failed_; }

 private:
  void add(const std::string& text) {
    if (!add_to_file(text)) std::fputs(text.c_str(), stderr);
  }
  bool add_to_file(const std::string& text) {
    if (file_.empty()) return false;
    std::ofstream out(file_, std::ios::app);
    out << text;
    out.close();
    failed_ |= !out;
    return static_cast<bool>(out);
  }

  const std::string file_;
  bool failed_ = false;
};

void sum_up(const Journal& journal, bool cuda_is_watched, Reports& reports) {
  reports.say_places(resolve(journal.places));
  for (const std::string& line : summary(journal, cuda_is_watched)) reports.say(line);
}

}  // namespace

int explain(const ExplainOptions& options) {
  std::string file;
  if (!options.output.empty()) {
    std::error_code failed;
    file = fs::absolute(options.output, failed).string();
    if (!std::ofstream(file, std::ios::trunc)) {
      std::fprintf(stderr, "reprise explain: error: \"%s\" cannot be written\n", options.output.c_str());
      return 2;
    }
  }
  Reports reports(file);
  const JournalFile notes;
  std::vector<std::pair<std::string, std::string>> environment = {{"REPRISE_EXPLAIN", file.empty() ? "stderr" : file},
                                                                  {"REPRISE_EXPLAIN_JOURNAL", notes.path()},
                                                                  {"REPRISE_EXPLAIN_ALL", options.all ? "1" : "0"}};
  const fs::path library = find_library();
  if (library.empty())
    reports.say(
        text::format("{} is not there, because reprise was built without CUPTI: captures of CUDA will not be "
                     "seen, only those on host devices of reprise",
                     library_name));
  else if (const char* const other = ::getenv("CUDA_INJECTION64_PATH"); other != nullptr && *other != '\0')
    reports.say(text::format("CUDA_INJECTION64_PATH named another tool, {}, which is left out", other));
  if (!library.empty()) environment.emplace_back("CUDA_INJECTION64_PATH", library.string());
  const auto [exit_code, not_started] = run_program(options.command, environment);
  const Journal journal = parse_journal(notes.content());
  if (not_started != 0)
    reports.say(text::format("the program was not started: {}: {}", options.command[0], std::strerror(not_started)));
  else if (!notes.path().empty())
    sum_up(journal, !library.empty(), reports);
  if (reports.failed() || journal.unwritten > 0) {
    std::fprintf(stderr, "reprise explain: error: \"%s\" cannot be written: what it did not take is above\n",
                 file.c_str());
    return exit_code != 0 ? exit_code : 2;
  }
  if (reports.are_in_a_file()) std::fprintf(stderr, "reprise explain: the reports are in %s\n", file.c_str());
  return exit_code;
}

}  // namespace reprise::tools
