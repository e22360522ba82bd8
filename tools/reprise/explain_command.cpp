// SPDX-License-Identifier: Apache-2.0
#include "explain_command.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

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

// A new empty file that is removed at the end of the scope.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code failed;
    fs::path folder = fs::absolute(fs::temp_directory_path(failed), failed);
    if (failed) folder = "/tmp";  // TMPDIR names no folder
    path_ = (folder / "reprise_explain.XXXXXX").string();
    const int file = ::mkstemp(path_.data());
    if (file < 0) {
      std::fprintf(stderr, "reprise explain: no file can be made in %s: there will be no summary\n", folder.c_str());
      path_.clear();
      return;
    }
    ::close(file);
  }
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

// Writes a line to the reports; if these go to a file, optionally also to standard error.
void say(const std::string& file, const std::string& line, bool at_once = true) {
  if (!file.empty()) std::ofstream(file, std::ios::app) << "reprise explain: " << line << "\n";
  if (file.empty() || at_once) std::fprintf(stderr, "reprise explain: %s\n", line.c_str());
}

void sum_up(const Journal& journal, bool cuda_is_watched, const std::string& file) {
  const std::vector<std::string> places = resolve(journal.places);
  if (!places.empty()) say(file, "of the places without a name, addr2line knows:", false);
  for (const std::string& place : places) {
    if (file.empty())
      std::fprintf(stderr, "  %s\n", place.c_str());
    else
      std::ofstream(file, std::ios::app) << "  " << place << "\n";
  }
  for (const std::string& line : summary(journal, cuda_is_watched)) say(file, line);
  if (!file.empty()) std::fprintf(stderr, "reprise explain: the reports are in %s\n", file.c_str());
}

}  // namespace

int explain(const ExplainOptions& options) {
  std::string file;
  if (!options.output.empty()) {
    std::error_code failed;
    file = fs::absolute(options.output, failed).string();
    if (!std::ofstream(file, std::ios::trunc)) {
      std::fprintf(stderr, "reprise explain: error: %s cannot be written\n", options.output.c_str());
      return 2;
    }
  }
  const TemporaryFile journal;
  std::vector<std::pair<std::string, std::string>> environment = {{"REPRISE_EXPLAIN", file.empty() ? "stderr" : file},
                                                                  {"REPRISE_EXPLAIN_JOURNAL", journal.path()},
                                                                  {"REPRISE_EXPLAIN_ALL", options.all ? "1" : "0"}};
  const fs::path library = find_library();
  if (library.empty())
    say(file, text::format("{} is not there, because reprise was built without CUPTI: captures of CUDA will not be "
                           "seen, only those on host devices of reprise",
                           library_name));
  else if (const char* const other = ::getenv("CUDA_INJECTION64_PATH"); other != nullptr && *other != '\0')
    say(file, text::format("CUDA_INJECTION64_PATH named another tool, {}, which is left out", other));
  if (!library.empty()) environment.emplace_back("CUDA_INJECTION64_PATH", library.string());
  const int exit_code = run_program(options.command, environment);
  sum_up(parse_journal(journal.content()), !library.empty(), file);
  return exit_code;
}

}  // namespace reprise::tools
