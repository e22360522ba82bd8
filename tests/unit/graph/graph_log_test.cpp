// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/log_lines.h"
#include "tests/unit/graph/graph_fixture.h"

// What LogLevel::info says of graphs.

namespace reprise::graphs::test {
namespace {

using reprise::test::LogLines;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class GraphLog : public ::testing::Test {
 protected:
  // "info: graph 3 `step`: WHAT"
  std::string line(const std::string& what) const {
    return "info: graph " + std::to_string(graph_.id()) + " `step`: " + what;
  }
  void capture_step(int amount = 1) {
    capture(graph_, {.name = "step"}, [&] { add(x_, amount); });
  }

  Buffer<int> x_ = zeros(4);
  CUDAGraph graph_;
};

TEST_F(GraphLog, HasALineForTheEndOfACaptureAndForItsExecutable) {
  const LogLines lines(LogLevel::info);
  capture(graph_, {.name = "step"}, [&] {
    const Buffer<int> y(4);
    add(x_);
    add(x_);
  });
  EXPECT_THAT(lines.all(),
              ElementsAre(line("capture ended, 2 nodes, 2097152 bytes in its pool"), line("instantiated")));
}

TEST_F(GraphLog, ANameWithLinesStaysOnOneLine) {
  const LogLines lines(LogLevel::info);
  const CUDAGraph graph = capture({.name = "a\nb"}, [&] { add(x_); });
  EXPECT_THAT(lines.all(), ::testing::Each(AllOf(HasSubstr(" `a b`: "), ::testing::Not(HasSubstr("\n")))));
  EXPECT_THAT(lines.all(), SizeIs(2));
}

TEST_F(GraphLog, HasNothingOfReplays) {
  capture_step();
  const LogLines lines(LogLevel::info);
  graph_.replay();
  graph_.replay();
  EXPECT_THAT(read(x_), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(lines.all(), IsEmpty());
}

TEST_F(GraphLog, HasNothingOfCapturesByDefault) {
  const LogLines lines(LogLevel::warning);
  capture_step();
  EXPECT_ANY_THROW(capture(graph_, [&] { make_unsafe_call(); }));
  EXPECT_THAT(lines.all(), IsEmpty());
}

TEST_F(GraphLog, NamesAGraphWithoutANameByItsNumber) {
  const LogLines lines(LogLevel::info);
  capture(graph_, [&] { add(x_); });
  ASSERT_THAT(lines.all(), SizeIs(2));
  EXPECT_THAT(lines.all()[0], StartsWith("info: graph " + std::to_string(graph_.id()) + ": capture ended, "));
}

TEST_F(GraphLog, NamesTheCallThatBrokeACapture) {
  const LogLines lines(LogLevel::info);
  EXPECT_THROW(capture(graph_, {.name = "step"},
                       [&] {
                         add(x_);
                         make_unsafe_call();
                       }),
               CaptureError);
  ASSERT_THAT(lines.all(), SizeIs(1));
  EXPECT_THAT(lines.all()[0], AllOf(StartsWith(line("capture failed: ")),
                                    HasSubstr("failed with cudaErrorStreamCaptureInvalidated (901)"),
                                    ::testing::ContainsRegex(" broke.* cuMemAlloc.* returned "),
                                    ::testing::Not(::testing::ContainsRegex("cuMemAlloc.*cuMemAlloc"))));
}

TEST_F(GraphLog, SaysThatACaptureWasAbandoned) {
  const LogLines lines(LogLevel::info);
  EXPECT_THROW(capture(graph_, {.name = "step"}, [&] { throw std::runtime_error("of the body"); }), std::runtime_error);
  EXPECT_THAT(lines.all(), ElementsAre(line("capture was abandoned")));
}

TEST_F(GraphLog, SaysWhyACaptureCouldNotBeginOrItsGraphNotBeInstantiated) {
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected on host devices";
  const LogLines lines(LogLevel::info);
  const InjectedFailure no_begin({.call = "cuStreamBeginCapture", .code = ErrorCode::out_of_memory});
  EXPECT_THROW(capture_step(), BackendError);
  const InjectedFailure no_executable({.call = "cuGraphInstantiateWithParams", .code = ErrorCode::out_of_memory});
  EXPECT_THROW(capture_step(), BackendError);
  EXPECT_THAT(
      lines.all(),
      ElementsAre(AllOf(StartsWith(line("capture failed: ")), HasSubstr("cuStreamBeginCapture returned 2")),
                  StartsWith(line("capture ended")),
                  AllOf(StartsWith(line("capture failed: ")), HasSubstr("cuGraphInstantiateWithParams returned 2"))));
}

TEST_F(GraphLog, HasUpdates) {
  capture_step();
  CUDAGraph same(KeepGraph::yes), other(KeepGraph::yes);
  capture(same, [&] { add(x_, 2); });
  capture(other, [&] { x_.fill_bytes_async(0); });
  const LogLines lines(LogLevel::info);
  graph_.update(same);
  EXPECT_THROW(graph_.update(other), GraphUpdateError);
  EXPECT_THAT(lines.all(), ElementsAre(line("updated in place")));
}

TEST_F(GraphLog, SaysWhetherARecaptureUpdatedInPlace) {
  capture_step();
  const LogLines lines(LogLevel::info);
  graph_.recapture([&] { add(x_, 2); });
  graph_.recapture([&] { x_.fill_bytes_async(0); });
  EXPECT_THAT(
      lines.all(),
      ElementsAre(StartsWith(line("capture ended")), line("updated in place"), StartsWith(line("capture ended")),
                  StartsWith(line("not updated in place: An update is not possible, ")), line("instantiated")));
}

}  // namespace
}  // namespace reprise::graphs::test
