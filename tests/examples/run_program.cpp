// SPDX-License-Identifier: Apache-2.0
#include "run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace reprise::test {
namespace {

namespace fs = std::filesystem;

void require(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// The redirections of a child: its output goes to files.
class FileActions {
 public:
  FileActions(const fs::path& folder, const fs::path& out, const fs::path& err) {
    require(posix_spawn_file_actions_init(&actions_), "posix_spawn_file_actions_init");
    constexpr int create = O_WRONLY | O_CREAT | O_TRUNC;
    require(posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0), "addopen");
    require(posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, out.c_str(), create, 0600), "addopen");
    require(posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, err.c_str(), create, 0600), "addopen");
    require(posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str()), "addchdir");
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

std::string name_of(const std::string& variable) {
  return variable.substr(0, variable.find('=') + 1);
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> result = additions;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    bool replaced = false;
    for (const std::string& addition : additions) replaced |= name_of(addition) == name_of(*variable);
    if (!replaced) result.emplace_back(*variable);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) require(errno, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Outcome run_program(const std::string& program, const std::vector<std::string>& arguments, const fs::path& folder,
                    const std::vector<std::string>& environment) {
  const TemporaryFolder output;
  const fs::path out = output.path() / "out", err = output.path() / "err";
  std::vector<std::string> command = {program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = merged_environment(environment);
  const FileActions actions(folder, out, err);
  pid_t pid = 0;
  require(
      posix_spawn(&pid, program.c_str(), actions.get(), nullptr, pointers(command).data(), pointers(variables).data()),
      "posix_spawn");
  const int exit_code = wait_for(pid);
  return {exit_code, read_file(out), read_file(err)};
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "reprise-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) require(errno, "mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path TemporaryFolder::write(const std::string& name, const std::string& content) const {
  fs::path path = path_ / name;
  std::ofstream file(path, std::ios::binary);
  if (!(file << content << std::flush)) throw std::runtime_error("cannot write " + path.string());
  return path;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace reprise::test
