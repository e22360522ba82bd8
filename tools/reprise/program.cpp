// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace reprise::tools {
namespace {

volatile std::sig_atomic_t running = 0;  // the program's process; 0: none

extern "C" void pass_on(int signal) {
  if (running != 0) ::kill(static_cast<pid_t>(running), signal);
}

std::vector<char*> pointers_to(const std::vector<std::string>& command) {
  std::vector<char*> pointers;
  for (const std::string& argument : command) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return 1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

ssize_t read_some(int file, void* data, std::size_t bytes) {
  ssize_t size = 0;
  do size = ::read(file, data, bytes);
  while (size < 0 && errno == EINTR);
  return size;
}

// Signals while a program runs; as before at the end of the scope.
class Signals {
 public:
  Signals() {
    for (std::size_t i = 0; i < left_alone.size(); ++i) ignored_[i] = std::signal(left_alone[i], SIG_IGN);
    for (std::size_t i = 0; i < passed_on.size(); ++i) passed_[i] = std::signal(passed_on[i], &pass_on);
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void restore() const {
    for (std::size_t i = 0; i < left_alone.size(); ++i) std::signal(left_alone[i], ignored_[i]);
    for (std::size_t i = 0; i < passed_on.size(); ++i) std::signal(passed_on[i], passed_[i]);
  }

 private:
  using Handler = void (*)(int);
  static constexpr std::array left_alone = {SIGINT, SIGQUIT};  // a terminal sends them to both
  static constexpr std::array passed_on = {SIGTERM, SIGHUP};
  std::array<Handler, 2> ignored_{};
  std::array<Handler, 2> passed_{};
};

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& command,
                       const std::vector<std::pair<std::string, std::string>>& environment) {
  const std::vector<char*> arguments = pointers_to(command);
  const Signals signals;
  std::array<int, 2> ends{};  // a program that starts closes its end
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {126, errno};
  const pid_t process = ::fork();
  const int not_forked = process < 0 ? errno : 0;
  if (process == 0) {
    signals.restore();
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!::write(ends[1], &error, sizeof(error));
    std::_Exit(error == ENOENT ? 127 : 126);
  }
  ::close(ends[1]);
  ProgramEnd end;
  running = process > 0 ? process : 0;
  if (process > 0 && read_some(ends[0], &end.not_started, sizeof(end.not_started)) <= 0) end.not_started = 0;
  ::close(ends[0]);
  if (process < 0) return {126, not_forked};
  end.exit_code = wait_for(process);
  running = 0;
  return end;
}

std::string output_of(const std::vector<std::string>& command) {
  const std::vector<char*> arguments = pointers_to(command);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    if (const int null = ::open("/dev/null", O_WRONLY); null >= 0) ::dup2(null, STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    std::_Exit(127);
  }
  ::close(ends[1]);
  std::string output;
  std::array<char, 4096> part;
  ssize_t size = 0;
  while (process > 0 && (size = read_some(ends[0], part.data(), part.size())) > 0)
    output.append(part.data(), static_cast<std::size_t>(size));
  ::close(ends[0]);
  if (process > 0) (void)wait_for(process);
  return output;
}

}  // namespace reprise::tools
