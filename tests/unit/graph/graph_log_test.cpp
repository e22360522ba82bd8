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
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
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

const std::string ms = " [0-9]+\\.[0-9][0-9][0-9] ms";

TEST_F(GraphLog, HasALineForTheBeginAndTheEndOfACaptureAndForItsExecutable) {
  const LogLines lines(LogLevel::info);
  capture(graph_, {.name = "step"}, [&] {
    const Buffer<int> y(4);
    add(x_);
    add(x_);
  });
  EXPECT_THAT(lines.all(),
              ElementsAre(AllOf(StartsWith(line("capture began on stream 0x")),
                                EndsWith(" of " + default_device().str() + ", mode global")),
                          MatchesRegex(line("capture ended after" + ms + ", 2 nodes, 2097152 bytes in its pool")),
                          MatchesRegex(line("instantiated in" + ms))));
}

TEST_F(GraphLog, ANameWithLinesStaysOnOneLine) {
  const LogLines lines(LogLevel::info);
  const CUDAGraph graph = capture({.name = "a\nb"}, [&] { add(x_); });
  EXPECT_THAT(lines.all(), ::testing::Each(AllOf(HasSubstr(" `a b`: "), ::testing::Not(HasSubstr("\n")))));
  EXPECT_THAT(lines.all(), SizeIs(3));
}

TEST_F(GraphLog, HasALineForACaptureThatIsRefusedBeforeItBegins) {
  const LogLines lines(LogLevel::info);
  GraphOptions options;
  options.name = "step";
  options.stream = StreamRef(current_device(), nullptr);
  EXPECT_THROW(capture(graph_, options, [&] { add(x_); }), UsageError);
  EXPECT_THAT(lines.all(),
              ElementsAre(StartsWith(line("capture refused: capture of graph `step`: the stream to capture is"))));
}

TEST_F(GraphLog, HasOneLineForACaptureOfAStreamThatCapturesAlready) {
  const Stream stream;
  const StreamGuard current(stream);
  CUDAGraph other;
  other.capture_begin();
  const LogLines lines(LogLevel::info);
  EXPECT_THROW(graph_.capture_begin({.name = "step"}), UsageError);
  EXPECT_THAT(lines.all(),
              ElementsAre(StartsWith(line("capture refused: CUDAGraph::capture_begin: the stream takes"))));
  other.capture_abandon();
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
  ASSERT_THAT(lines.all(), SizeIs(3));
  EXPECT_THAT(lines.all()[1], StartsWith("info: graph " + std::to_string(graph_.id()) + ": capture ended after "));
}

TEST_F(GraphLog, NamesTheCallThatBrokeACapture) {
  const LogLines lines(LogLevel::info);
  EXPECT_THROW(capture(graph_, {.name = "step"},
                       [&] {
                         add(x_);
                         make_unsafe_call();
                       }),
               CaptureError);
  ASSERT_THAT(lines.all(), SizeIs(2));
  EXPECT_THAT(lines.all()[1], AllOf(StartsWith(line("capture failed after ")),
                                    HasSubstr("failed with cudaErrorStreamCaptureInvalidated (901)"),
                                    ::testing::ContainsRegex(" broke.* cuMemAlloc.* returned "),
                                    ::testing::Not(::testing::ContainsRegex("cuMemAlloc.*cuMemAlloc"))));
}

TEST_F(GraphLog, SaysThatACaptureWasAbandoned) {
  const LogLines lines(LogLevel::info);
  EXPECT_THROW(capture(graph_, {.name = "step"}, [&] { throw std::runtime_error("of the body"); }), std::runtime_error);
  ASSERT_THAT(lines.all(), SizeIs(2));
  EXPECT_THAT(lines.all()[1], MatchesRegex(line("capture was abandoned after" + ms)));
}

TEST_F(GraphLog, SaysWhyACaptureCouldNotBeginOrItsGraphNotBeInstantiated) {
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "failures are injected on host devices";
  const LogLines lines(LogLevel::info);
  const InjectedFailure no_begin({.call = "cuStreamBeginCapture", .code = ErrorCode::out_of_memory});
  EXPECT_THROW(capture_step(), BackendError);
  const InjectedFailure no_executable({.call = "cuGraphInstantiateWithParams", .code = ErrorCode::out_of_memory});
  EXPECT_THROW(capture_step(), BackendError);
  EXPECT_THAT(lines.all(),
              ElementsAre(AllOf(StartsWith(line("capture refused: ")), HasSubstr("cuStreamBeginCapture returned 2")),
                          StartsWith(line("capture began")), StartsWith(line("capture ended")),
                          AllOf(StartsWith(line("instantiation failed after ")),
                                HasSubstr("cuGraphInstantiateWithParams returned 2")),
                          StartsWith(line("capture failed after "))));
}

TEST_F(GraphLog, HasUpdatesAndThoseThatWereRefused) {
  capture_step();
  CUDAGraph same(KeepGraph::yes), other(KeepGraph::yes);
  capture(same, [&] { add(x_, 2); });
  capture(other, [&] { x_.fill_bytes_async(0); });
  const LogLines lines(LogLevel::info);
  graph_.update(same);
  EXPECT_THROW(graph_.update(other), GraphUpdateError);
  EXPECT_THAT(lines.all(), ElementsAre(MatchesRegex(line("updated in place in" + ms)),
                                       AllOf(StartsWith(line("update failed after ")),
                                             HasSubstr("CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED"),
                                             EndsWith("no update is possible."))));
}

TEST_F(GraphLog, SaysWhetherARecaptureUpdatedInPlace) {
  capture_step();
  const LogLines lines(LogLevel::info);
  graph_.recapture([&] { add(x_, 2); });
  graph_.recapture([&] { x_.fill_bytes_async(0); });
  EXPECT_THAT(lines.all(), ElementsAre(StartsWith(line("capture began")), StartsWith(line("capture ended")),
                                       MatchesRegex(line("updated in place in" + ms)),
                                       StartsWith(line("capture began")), StartsWith(line("capture ended")),
                                       StartsWith(line("not updated in place: An update is not possible, ")),
                                       MatchesRegex(line("instantiated in" + ms))));
}

}  // namespace
}  // namespace reprise::graphs::test
