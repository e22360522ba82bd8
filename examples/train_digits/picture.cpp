// SPDX-License-Identifier: Apache-2.0
#include "picture.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <vector>

#include "errors.h"

extern char** environ;

namespace digits {
namespace {

namespace fs = std::filesystem;

/// Not "graph.dot" beside "graph.svg": that may be a file of the user's.
fs::path dot_path(const fs::path& svg) {
  return fs::path(svg) += ".dot";
}

void check_writable(const fs::path& path) {
  const bool existed = fs::exists(fs::symlink_status(path));
  if (fs::is_directory(path)) throw InputError(fmt::format("cannot write \"{}\": it is a directory", path.string()));
  errno = 0;
  if (!std::ofstream(path, std::ios::app))
    throw InputError(fmt::format("cannot write \"{}\": {}", path.string(), std::strerror(errno)));
  if (!existed) fs::remove(path);
}

/// Runs a program, found by PATH, and waits for it. Returns its exit status, or nullopt if there is no such program.
std::optional<int> run(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ);
  if (error == ENOENT || error == EACCES) return std::nullopt;
  if (error != 0) throw std::runtime_error(fmt::format("cannot run {}: {}", argv[0], std::strerror(error)));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error(fmt::format("cannot wait for {}: {}", argv[0], std::strerror(errno)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void check_picture_path(const fs::path& svg) {
  if (svg.extension() != ".svg")
    throw InputError(fmt::format("--svg: expected a file name that ends in .svg, found \"{}\"", svg.string()));
  try {
    check_writable(svg);
    check_writable(dot_path(svg));
  } catch (const fs::filesystem_error& error) {
    throw InputError(fmt::format("cannot write \"{}\": {}", svg.string(), error.code().message()));
  }
}

std::string write_picture(const reprise::CUDAGraph& graph, const fs::path& svg) {
  const fs::path dot = dot_path(svg);
  graph.debug_dump(dot);
  // Absolute, because a relative path may look like an option.
  const auto status = run({"dot", "-Tsvg", "-o", fs::absolute(svg).string(), fs::absolute(dot).string()});
  if (!status)
    return fmt::format("not drawn: Graphviz is missing (apt-get install graphviz); the source of the picture is in {}",
                       dot.string());
  if (*status != 0)
    throw std::runtime_error(
        fmt::format("Graphviz could not draw {} (dot ended with exit code {})", dot.string(), *status));
  fs::remove(dot);
  return svg.string();
}

}  // namespace digits
