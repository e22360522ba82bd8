// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>

#include "reprise/reprise.h"
#include "tests/support/host_environment.h"
#include "tests/support/sanitizer.h"
#include "tests/support/text_of.h"

// Operations of a simulated device that touch what they must not, or throw. Each ends a process of its own.

namespace reprise::test {
namespace {

struct WritesTo {
  REPRISE_KERNEL void operator()(Thread, std::uintptr_t address) const {
    *reinterpret_cast<volatile char*>(address) = 1;
  }
};
struct ThrowsANumber {
  REPRISE_KERNEL void operator()(Thread) const {
#if !defined(__CUDA_ARCH__)  // device code has no exceptions
    throw 5;                 // NOLINT: that is the test
#endif
  }
};

constexpr std::uintptr_t wild = 0x123;

class HostFaults : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

void run_a_wild_kernel(const HostDeviceOptions& options, std::uintptr_t address) {
  set_host_environment(options);
  const Stream stream(Device::parse("host"));
  launch(stream, 1, WritesTo{}, address);
  stream.synchronize();
  std::_Exit(0);
}

constexpr const char* names_kernel_and_address =
    "reprise: kernel reprise::test::.*WritesTo on stream 0x[0-9a-f]+ of host:0 (wrote to|touched) address 0x123, which "
    "it cannot access";

TEST_F(HostFaults, OfAKernelNameItAndTheAddress) {
  EXPECT_DEATH(run_a_wild_kernel({}, wild), names_kernel_and_address);
}

TEST_F(HostFaults, OfAKernelAreNamedByStepsAndWithProtection) {
  EXPECT_DEATH(run_a_wild_kernel({.scheduler_seed = 1}, wild), names_kernel_and_address);
  EXPECT_DEATH(run_a_wild_kernel({.protect = true}, wild), names_kernel_and_address);
}

TEST_F(HostFaults, AtAnAddressThatNoMemoryCanHaveAreNamed) {
  EXPECT_DEATH(run_a_wild_kernel({}, std::uintptr_t{1} << 60), "WritesTo on stream (.|\n)*which no|no memory can have");
}

void run_past_the_device(const Device& device) {
  Buffer<int> x(10, device.default_stream());
  const auto past = reinterpret_cast<std::uintptr_t>(x.data()) + (std::size_t{1} << 30);
  launch(device.default_stream(), 1, WritesTo{}, past);
  device.synchronize();
  std::_Exit(0);
}

TEST_F(HostFaults, InMemoryOfTheDeviceThatIsNotAllocatedSaySo) {
  EXPECT_DEATH(
      {
        set_host_environment({.protect = true});
        run_past_the_device(Device::parse("host"));
      },
      "WritesTo on the legacy default stream of host:0 (.|\n)*device memory at 0x(.|\n)*No block is allocated there");
}

TEST_F(HostFaults, OfANodeNameItsNumber) {
  EXPECT_DEATH(
      {
        const Stream stream(Device::parse("host"));
        const StreamGuard guard(stream);
        CUDAGraph graph = capture([] {
          launch(1, WritesTo{}, wild);
          launch_host([] {});
        });
        graph.replay(stream);
        stream.synchronize();
        std::_Exit(0);
      },
      "WritesTo \\(node 0 of a graph\\) on stream 0x[0-9a-f]+ of host:0 ");
}

TEST_F(HostFaults, ReachAnEarlierHandler) {
  EXPECT_EXIT(
      {
        struct sigaction action = {};
        action.sa_handler = [](int) { std::_Exit(42); };
        sigaction(SIGSEGV, &action, nullptr);
        run_a_wild_kernel({}, wild);
      },
      ::testing::ExitedWithCode(42), names_kernel_and_address);
}

TEST_F(HostFaults, OfOtherCodeAreNotExplained) {
  // Sanitizers have handlers of their own, which report the fault and exit.
  const auto ended = [](int status) {
    if (with_address_sanitizer || with_thread_sanitizer) return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
  };
  EXPECT_EXIT(
      {
        Device::parse("host").synchronize();
        raise(SIGSEGV);
        std::_Exit(0);
      },
      ended, ::testing::Not(::testing::HasSubstr("reprise: ")));
}

TEST_F(HostFaults, AnExceptionOfAKernelIsNamedWithKernelAndStream) {
  HostSimulator simulator;
  const Stream stream(simulator.device());
  launch(stream, 1, ThrowsANumber{});
  const std::string text = text_of<BackendError>([&] { stream.synchronize(); });
  EXPECT_NE(text.find("ThrowsANumber on stream 0x"), std::string::npos) << text;
  EXPECT_NE(text.find("of host-simulator:"), std::string::npos) << text;
  EXPECT_NE(text.find("threw an exception that is not a std::exception, but of type int"), std::string::npos) << text;
}

}  // namespace
}  // namespace reprise::test
