// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "reprise/reprise.h"
#include "tests/support/text_of.h"

// Injected failures of calls of the host device.

namespace reprise {
namespace {

using test::text_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

backend::Backend& host() {
  return Device::parse("host").backend();
}

backend::Result allocate(backend::Backend& runtime = host()) {
  void* memory = nullptr;
  backend::Result result = runtime.memory_allocate(&memory, 512);
  if (result == ErrorCode::success) {
    EXPECT_EQ(runtime.memory_free(memory), ErrorCode::success);
  }
  return result;
}

TEST(InjectedFailure, FailsTheNextCallOfItsKindAndNoOther) {
  const InjectedFailure failure({.call = "cuMemAlloc", .code = ErrorCode::out_of_memory});
  StreamHandle stream = nullptr;
  EXPECT_EQ(host().stream_create(&stream, backend::StreamFlags::blocking, 0), ErrorCode::success);
  EXPECT_EQ(host().stream_destroy(stream), ErrorCode::success);
  EXPECT_FALSE(failure.happened());
  EXPECT_EQ(allocate(), ErrorCode::out_of_memory);
  EXPECT_TRUE(failure.happened());
  EXPECT_EQ(allocate(), ErrorCode::success);
}

TEST(InjectedFailure, TakesTheLibrarysNameAndCountsCalls) {
  const InjectedFailure failure({.call = "memory_allocate", .nth = 3});
  EXPECT_EQ(allocate(), ErrorCode::success);
  EXPECT_EQ(allocate(), ErrorCode::success);
  EXPECT_EQ(allocate(), ErrorCode::unknown);
  EXPECT_EQ(allocate(), ErrorCode::success);
}

TEST(InjectedFailure, HasNoEffectButItsCode) {
  const Stream stream(Device::parse("host"));
  ASSERT_EQ(host().stream_begin_capture(stream.native(), CaptureMode::global), ErrorCode::success);
  const InjectedFailure failure({.call = "cuMemsetD8Async", .code = ErrorCode::launch_failure});
  EXPECT_EQ(host().set_async({}, stream.native()), ErrorCode::launch_failure);
  EXPECT_EQ(stream.capture_status(), CaptureStatus::active);
  GraphHandle graph = nullptr;
  ASSERT_EQ(host().stream_end_capture(stream.native(), &graph), ErrorCode::success);
  EXPECT_EQ(host().graph_destroy(graph), ErrorCode::success);
}

TEST(InjectedFailure, SaysInTheErrorThatItWasInjected) {
  const InjectedFailure failure({.call = "cuStreamCreateWithPriority", .code = ErrorCode::out_of_memory});
  EXPECT_THAT(text_of<BackendError>([] { const Stream stream(Device::parse("host")); }),
              AllOf(HasSubstr("cuStreamCreateWithPriority returned 2 (cudaErrorMemoryAllocation)"),
                    HasSubstr("the failure was injected")));
}

TEST(InjectedFailure, IsForgottenWithTheObject) {
  { const InjectedFailure failure({.call = "cuMemAlloc"}); }
  EXPECT_EQ(allocate(), ErrorCode::success);
}

TEST(InjectedFailure, HappensInTheOrderInWhichSeveralAreDue) {
  const InjectedFailure first({.call = "cuMemAlloc", .code = ErrorCode::out_of_memory});
  const InjectedFailure second({.call = "cuMemAlloc", .code = ErrorCode::launch_failure});
  EXPECT_EQ(allocate(), ErrorCode::out_of_memory);
  EXPECT_FALSE(second.happened());
  EXPECT_EQ(allocate(), ErrorCode::launch_failure);
  EXPECT_EQ(allocate(), ErrorCode::success);
}

TEST(InjectedFailure, CanBeMeantForOneDevice) {
  const std::vector<backend::Backend*>& all = backend::host_backends();
  if (all.size() < 2) GTEST_SKIP() << "there is one host device";
  const InjectedFailure failure({.call = "cuMemAlloc", .device = Device(*all[1])});
  EXPECT_EQ(allocate(*all[0]), ErrorCode::success);
  EXPECT_EQ(allocate(*all[1]), ErrorCode::unknown);
}

TEST(InjectedFailure, CountsTheCallsOfAllThreads) {
  const InjectedFailure failure({.call = "cuMemAlloc", .nth = 2});
  std::thread([] { EXPECT_EQ(allocate(), ErrorCode::success); }).join();
  EXPECT_EQ(allocate(), ErrorCode::unknown);
}

TEST(InjectedFailure, ReachesCallsThatLockNothing) {
  const InjectedFailure failure({.call = "cuThreadExchangeStreamCaptureMode", .code = ErrorCode::not_permitted});
  auto mode = CaptureMode::relaxed;
  EXPECT_EQ(host().thread_exchange_capture_mode(&mode), ErrorCode::not_permitted);
  EXPECT_EQ(mode, CaptureMode::relaxed);
}

// Options hold for a whole process.
class EnvironmentOfTheHostDevice : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  template <class F>
  void expect_true_with(const char* name, const char* value, F body) {
    EXPECT_EXIT((setenv(name, value, 1), std::_Exit(body() ? 0 : 1)), ::testing::ExitedWithCode(0), "") << value;
  }
  // The text of the UsageError at the first use of a device contains `part`.
  void expect_refused(const char* name, const char* value, const char* part) {
    expect_true_with(name, value, [&] {
      const std::string text = text_of<UsageError>([] { static_cast<void>(host()); });
      return text.find(name) != std::string::npos && text.find(part) != std::string::npos;
    });
  }
};

TEST_F(EnvironmentOfTheHostDevice, ChoosesTheScheduler) {
  constexpr const char* name = "REPRISE_HOST_SCHEDULER";
  // Work without a wait only runs on worker threads.
  const auto runs_by_itself = [] {
    const Stream stream(Device::parse("host"));
    static std::atomic<bool> ran{false};
    const auto set = [](void*) {
      ran = true;
      ran.notify_all();
    };
    if (host().launch_host_function({set, nullptr}, stream.native()) != ErrorCode::success) std::_Exit(2);
    if (std::string(std::getenv("REPRISE_HOST_SCHEDULER")) == "threads") ran.wait(false);
    return ran.load();
  };
  expect_true_with(name, "threads", runs_by_itself);
  expect_true_with(name, "18446744073709551615", [&] { return !runs_by_itself(); });
  expect_refused(name, "thread", "it is \"thread\"");
  expect_refused(name, "-1", "it is \"-1\"");
}

}  // namespace
}  // namespace reprise
