// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

// Two processes that run the same tests: the one that was started is rank 0, and starts the other one as rank 1. Both
// find each other as programs do that a launcher has started, by environment variables and a store.

extern char** environ;

namespace {

void set_rank(const char* rank) {
  setenv("RANK", rank, 1);
  setenv("LOCAL_RANK", rank, 1);
}

pid_t start_other(char** argv) {
  set_rank("1");
  pid_t other = 0;
  const int error = posix_spawn(&other, "/proc/self/exe", nullptr, nullptr, argv, environ);
  set_rank("0");
  if (error != 0) throw std::runtime_error("the other process could not be started");
  return other;
}

bool has_ended_well(pid_t other) {
  int status = 0;
  return waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc + 1);
  ::testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  if (getenv("RANK") != nullptr) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // no process is left when the first one is killed
    return RUN_ALL_TESTS();
  }
  c10d::TCPStoreOptions options;
  options.port = 0;  // one that is free
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore store("127.0.0.1", options);
  setenv("WORLD_SIZE", "2", 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(store.getPort()).c_str(), 1);
  const pid_t other = start_other(arguments.data());
  const int result = RUN_ALL_TESTS();
  if (has_ended_well(other)) return result;
  std::fprintf(stderr, "Rank 1 failed; its messages are above.\n");
  return 1;
}
