// SPDX-License-Identifier: Apache-2.0
#include "reprise/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/error.h"
#include "tests/support/log_lines.h"
#include "tests/support/text_of.h"

namespace reprise {
namespace {

using reprise::test::LogLines;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LogSink, CanBeReplacedAndPutBack) {
  std::vector<std::string> first, second;
  const LogSink original = set_log_sink([&](LogLevel, std::string_view text) { first.emplace_back(text); });
  warn("one");
  LogSink mine = set_log_sink([&](LogLevel, std::string_view text) { second.emplace_back(text); });
  warn("two");
  set_log_sink(std::move(mine));
  warn("three");
  set_log_sink(original);
  EXPECT_THAT(first, ElementsAre("one", "three"));
  EXPECT_THAT(second, ElementsAre("two"));
}

TEST(LogSink, IsStandardErrorByDefault) {
  const LogSink original = set_log_sink({});
  const LogLevel level = set_log_level(LogLevel::info);
  ::testing::internal::CaptureStderr();
  warn("something odd");
  log_message(LogLevel::info, "a step");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "reprise: warning: something odd\nreprise: info: a step\n");
  set_log_level(level);
  set_log_sink(original);
}

TEST(LogSink, ThatThrowsHarmsNothing) {
  const LogSink original = set_log_sink([](LogLevel, std::string_view) { throw 1; });
  EXPECT_NO_THROW(warn("lost"));
  set_log_sink(original);
}

TEST(LogSink, IsNeverCalledByTwoThreadsAtOnce) {
  int inside = 0, calls = 0;  // not atomic: the sink is called under a lock
  const LogSink original = set_log_sink([&](LogLevel, std::string_view) {
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

std::vector<std::string> lines_at(LogLevel level) {
  const LogLines lines(level);
  EXPECT_EQ(log_level(), level);
  warn("odd");
  log_message(LogLevel::info, "step");
  return lines.all();
}

TEST(LogLevels, SendMessagesOfTheirLevelAndOfThoseBefore) {
  EXPECT_THAT(lines_at(LogLevel::off), IsEmpty());
  EXPECT_THAT(lines_at(LogLevel::warning), ElementsAre("warning: odd"));
  EXPECT_THAT(lines_at(LogLevel::info), ElementsAre("warning: odd", "info: step"));
}

TEST(LogLevels, AreNotLevelsOfMessagesIfTheyAreOffOrHaveNoName) {
  const LogLines lines(LogLevel::info);
  for (const LogLevel level : {LogLevel::off, LogLevel{3}, LogLevel{-2}}) log_message(level, "x");
  EXPECT_THAT(lines.all(), IsEmpty());
}

TEST(LogLevels, WithoutANameAreRefused) {
  const LogLevel before = log_level();
  for (const LogLevel level : {LogLevel{3}, LogLevel{-1}})
    EXPECT_THAT(
        reprise::test::text_of<UsageError>([&] { set_log_level(level); }),
        HasSubstr("set_log_level() expected LogLevel::off, LogLevel::warning or LogLevel::info; found the number"));
  EXPECT_EQ(log_level(), before);
}

// In a process of its own, whose level is not read yet.
void expect_lines_with(const char* value, const std::string& expected) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto body = [&] {
    setenv("REPRISE_LOG", value, 1);
    warn("odd");
    log_message(LogLevel::info, "step");
    std::_Exit(0);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), ::testing::MatchesRegex(expected));
}

TEST(LogLevels, AreNamedByTheEnvironment) {
  expect_lines_with("off", "");
  expect_lines_with("", "reprise: warning: odd\n");
  expect_lines_with("info", "reprise: warning: odd\nreprise: info: step\n");
  expect_lines_with("OFF", "");
  expect_lines_with("Info", "reprise: warning: odd\nreprise: info: step\n");
}

TEST(LogLevels, ThatTheEnvironmentDoesNotNameAreThoseByDefault) {
  expect_lines_with("verbose",
                    "reprise: warning: the environment variable REPRISE_LOG should be off, warning or info, but it is "
                    "\"verbose\": warnings are logged, as by default\nreprise: warning: odd\n");
}

}  // namespace
}  // namespace reprise
