// SPDX-License-Identifier: Apache-2.0
#include "explain_command.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

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

void say(const std::string& line) {
  std::fprintf(stderr, "reprise explain: %s\n", line.c_str());
}

void set(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

}  // namespace

int explain(const ExplainOptions& options) {
  std::string file;
  if (!options.output.empty()) {
    std::error_code failed;
    file = fs::absolute(options.output, failed).string();
    if (!std::ofstream(file, std::ios::trunc)) {
      say(text::format("error: \"{}\" cannot be written", options.output));
      return 2;
    }
  }
  set("REPRISE_EXPLAIN", file);
  set("REPRISE_EXPLAIN_ALL", options.all ? "1" : "0");
  const fs::path library = find_library();
  if (library.empty()) {
    say(text::format("error: {} is not there, because reprise was built without CUPTI: captures cannot be seen",
                     library_name));
    return 2;
  }
  if (const char* const other = ::getenv("CUDA_INJECTION64_PATH"); other != nullptr && *other != '\0')
    say(text::format("CUDA_INJECTION64_PATH named another tool, {}, which is left out", other));
  set("CUDA_INJECTION64_PATH", library.string());
  const char* const which = options.all ? "of all captures" : "of captures that fail or leave work out";
  const std::string where = file.empty() ? "standard error" : file;
  say(text::format("reports {} go to {}", which, where));
  std::vector<char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  say(text::format("the program was not started: {}: {}", options.command[0], std::strerror(error)));
  return error == ENOENT ? 127 : 126;
}

}  // namespace reprise::tools
