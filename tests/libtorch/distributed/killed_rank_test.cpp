// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/libtorch/distributed/distributed_fixture.h"
#include "tests/support/by_steps.h"

// What a rank gets when the other one is killed. Each test runs itself in two further processes, of which rank 1 is
// killed: the two that run all tests go on.

extern char** environ;

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* is_further_process = "REPRISE_TEST_IS_FURTHER_PROCESS";

class KilledRanks : public TwoProcesses {
 protected:
  static bool further() { return getenv(is_further_process) != nullptr; }
  void SetUp() override {
    reprise::test::skip_by_steps();
    TwoProcesses::SetUp();
  }
  void TearDown() override {
    if (!further()) TwoProcesses::TearDown();
  }

  /// \param how_rank_0_ends is passed its status, as of waitpid().
  void in_two_processes(const std::function<void()>& of_rank, const std::function<void(int)>& how_rank_0_ends) const {
    if (further()) return of_rank();
    if (rank() != 0) return;
    const pid_t survivor = start("0"), killed = start("1");
    int status = 0;
    ASSERT_EQ(waitpid(killed, &status, 0), killed);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    ASSERT_EQ(waitpid(survivor, &status, 0), survivor);
    how_rank_0_ends(status);
  }
  static void expect_passed(int status) { EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status; }
  static void expect_failed(int status) { EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0); }

  void kill_rank_1() const {
    if (rank() == 1) kill(getpid(), SIGKILL);
  }
  /// Rank 0 replays until that fails, and has the error.
  void expect_timeout(CUDAGraph& graph) const {
    std::string text;
    for (int i = 0; i < 10 && text.empty(); ++i) {
      try {
        graph.replay();
        graph.synchronize(std::chrono::seconds(2));
      } catch (const TimeoutError& error) {
        text = error.what();
      }
    }
    std::printf("rank 0: %s\n", text.c_str());
    EXPECT_THAT(text, AllOf(HasSubstr("graph `step`"), HasSubstr("2000 ms"), HasSubstr("rank 0 of 2"),
                            HasSubstr("are being aborted")));
    EXPECT_THAT(refusal_of([&] { graph.replay(); }), HasSubstr("a communicator that was aborted"));
  }

  static GraphOptions named() {
    GraphOptions options;
    options.name = "step";
    return options;
  }

 private:
  static pid_t start(const char* rank) {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string program = "/proc/self/exe",
                filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    char* arguments[] = {program.data(), filter.data(), nullptr};
    setenv(is_further_process, "1", 1);
    setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", 1);  // the watchdog waits a minute for others to write theirs
    setenv("RANK", rank, 1);
    setenv("LOCAL_RANK", rank, 1);
    pid_t started = 0;
    const int error = posix_spawn(&started, program.c_str(), nullptr, nullptr, arguments, environ);
    unsetenv(is_further_process);
    setenv("RANK", "0", 1);
    setenv("LOCAL_RANK", "0", 1);
    EXPECT_EQ(error, 0);
    return started;
  }
};

TEST_F(KilledRanks, AmongReplaysEndTheWaitOfOthersWithAnError) {
  in_two_processes(
      [&] {
        const Tensor x = torch::ones({3}, device_).requires_grad_();
        DataParallel parallel({x}, make_group());
        CUDAGraph graph;
        capture(graph, named(), [&] {
          x.mutable_grad() = Tensor();
          (x * (rank() + 1)).sum().backward();
          parallel.finish();
        });
        for (int i = 0; i < 3; ++i) graph.replay();
        graph.synchronize(std::chrono::minutes(5));
        if (rank() == 1) graph.replay();
        kill_rank_1();
        expect_timeout(graph);
      },
      expect_passed);
}

TEST_F(KilledRanks, WithinTheirCaptureEndTheFirstWaitOfOthersWithAnError) {
  in_two_processes(
      [&] {
        const Tensor x = torch::ones({3}, device_).requires_grad_(), y = torch::ones({5}, device_).requires_grad_();
        DataParallel parallel({x, y}, make_group(), {.bucket_bytes = 1});
        CUDAGraph graph;
        capture(graph, named(), [&] {
          x.sum().backward();
          kill_rank_1();
          y.sum().backward();
          parallel.finish();
        });
        expect_timeout(graph);
      },
      expect_passed);
}

TEST_F(KilledRanks, WithinTheirWarmUpEndOthersAfterTheTimeOfTheGroup) {
  if (!device_.is_cuda()) GTEST_SKIP() << "NCCL's group has a time";
  in_two_processes(
      [&] {
        const Tensor x = torch::ones({3}, device_).requires_grad_();
        ProcessEnvironment of_group = environment_;
        of_group.store_prefix += "group";
        DataParallel parallel({x}, init_process_group(device_, of_group, {.timeout = std::chrono::seconds(5)}));
        CUDAGraph graph;
        capture(graph, {.warmup = 1}, [&] {
          kill_rank_1();
          x.mutable_grad() = Tensor();
          x.sum().backward();
          parallel.finish();
        });
        graph.replay();
        stream_->synchronize();
      },
      expect_failed);
}

}  // namespace
}  // namespace reprise::libtorch::test
