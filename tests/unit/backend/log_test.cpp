// SPDX-License-Identifier: Apache-2.0
#include "reprise/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using ::testing::ElementsAre;

TEST(LogSink, CanBeReplacedAndPutBack) {
  std::vector<std::string> first, second;
  const LogSink original = set_log_sink([&](std::string_view text) { first.emplace_back(text); });
  warn("one");
  LogSink mine = set_log_sink([&](std::string_view text) { second.emplace_back(text); });
  warn("two");
  set_log_sink(std::move(mine));
  warn("three");
  set_log_sink(original);
  EXPECT_THAT(first, ElementsAre("one", "three"));
  EXPECT_THAT(second, ElementsAre("two"));
}

TEST(LogSink, IsStandardErrorByDefault) {
  const LogSink original = set_log_sink({});
  ::testing::internal::CaptureStderr();
  warn("something odd");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "reprise: warning: something odd\n");
  set_log_sink(original);
}

TEST(LogSink, ThatThrowsHarmsNothing) {
  const LogSink original = set_log_sink([](std::string_view) { throw 1; });
  EXPECT_NO_THROW(warn("lost"));
  set_log_sink(original);
}

TEST(LogSink, IsNeverCalledByTwoThreadsAtOnce) {
  int inside = 0, calls = 0;  // not atomic: the sink is called under a lock
  const LogSink original = set_log_sink([&](std::string_view) {
    EXPECT_EQ(++inside, 1);
    ++calls;
    --inside;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 250; ++i) warn("x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  set_log_sink(original);
  EXPECT_EQ(calls, 1000);
}

}  // namespace
}  // namespace reprise
