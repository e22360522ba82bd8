// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "backend/rules/call_stack.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/inspect/capture_report_fixture.h"
#include "tests/unit/memory/memory_fixture.h"

// What a capture that failed says of the call that broke it, on every device and for every kind of failure.

namespace reprise::graphs::test {
namespace {

using memory::test::Warnings;

TEST_F(CaptureReports, NameASynchronisationOfTheCapturingStream) {
  StreamHandle stream = nullptr;
  const CaptureReport report = report_of([&] {
    add(x_);
    add(x_);
    stream = current_stream().native();
    current_stream().synchronize();
  });
  expect_broken_by(report, "cuStreamSynchronize", ErrorCode::stream_capture_unsupported, "does not execute", "replay");
  EXPECT_EQ(report.nodes, 2u);
  EXPECT_EQ(report.stream, stream);
  EXPECT_EQ(report.broken_by->stream, stream);
  EXPECT_TRUE(report.broken_by->capturing_thread);
  EXPECT_EQ(report.thread, backend::thread_number());
  EXPECT_EQ(report.broken_by->thread, report.thread);
  EXPECT_EQ(report.code, ErrorCode::success) << "the exception of the body ended it";
  EXPECT_TRUE(contains(report.str(), "was broken after 2 nodes, and abandoned."));
}

TEST_F(CaptureReports, NameACallOfAnotherThread) {
  std::uint64_t other = 0;
  const CaptureReport report = report_of([&] {
    add(x_);
    std::thread([&] {
      other = backend::thread_number();
      EXPECT_EQ(make_unsafe_call(), ErrorCode::stream_capture_unsupported);
    }).join();
  });
  expect_broken_by(report, "cuMemAlloc", ErrorCode::stream_capture_unsupported, "potentially unsafe",
                   "in mode `thread`");
  EXPECT_EQ(report.broken_by->thread, other);
  EXPECT_FALSE(report.broken_by->capturing_thread);
  EXPECT_EQ(report.code, ErrorCode::stream_capture_invalidated);
  EXPECT_EQ(report.nodes, 1u);
  EXPECT_EQ(report.mode, "global");
  EXPECT_TRUE(contains(report.str(), "was broken after 1 node and ended with cudaErrorStreamCaptureInvalidated (901)"));
  EXPECT_TRUE(contains(report.str(),
                       std::to_string(other) + ", not the one that captures (" + std::to_string(report.thread) + ")"));
}

TEST_F(CaptureReports, AreCarriedByCaptureErrorAndInItsText) {
  std::string text;
  try {
    capture(graph_, [&] {
      add(x_);
      make_unsafe_call();
    });
    FAIL() << "no exception";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.report().broken_by->name, "cuMemAlloc");
    EXPECT_TRUE(contains(error.what(), error.report().str()));
    EXPECT_EQ(graph_.capture_report()->str(), error.report().str());
  }
}

TEST_F(CaptureReports, NameWorkOnTheLegacyStreamWhileABlockingStreamCaptures) {
  const Stream blocking(current_device(), {.blocking = true});
  GraphOptions options;
  options.stream = blocking;
  const CaptureReport report = report_of(
      [&] {
        add(x_);
        add(x_, 1, default_device().default_stream());
      },
      options);
  expect_broken_by(report, "cuLaunchKernelEx", ErrorCode::stream_capture_implicit, "legacy default stream",
                   "one that was forked off it");
  EXPECT_EQ(report.broken_by->stream, StreamHandle{});
  EXPECT_TRUE(contains(report.str(), "stream   the legacy default stream"));
}

TEST_F(CaptureReports, NameAnEndWithAForkThatIsNotJoined) {
  const Stream fork;
  const CaptureReport report = report_of([&] {
    add(x_);
    fork.wait(current_stream());
    add(x_, 1, fork);
  });
  expect_broken_by(report, "cuStreamEndCapture", ErrorCode::stream_capture_unjoined, "does not lead back",
                   "record an event");
  EXPECT_EQ(report.code, ErrorCode::stream_capture_unjoined);
  EXPECT_EQ(report.nodes, 2u);
  ASSERT_TRUE(thrown_.has_value());
}

TEST_F(CaptureReports, NameAWaitThatWouldMergeTwoCapturesInBoth) {
  const Stream other;
  CUDAGraph second;
  const CaptureReport report = report_of([&] {
    add(x_);
    const StreamRef first = current_stream();
    const StreamGuard guard(other);
    second.capture_begin();
    add(x_);
    other.wait(first);
  });
  expect_broken_by(report, "cuStreamWaitEvent", ErrorCode::stream_capture_merge, "two captures", "as one");
  second.capture_abandon();
  ASSERT_TRUE(second.capture_report().has_value());
  EXPECT_EQ(second.capture_report()->broken_by->name, "cuStreamWaitEvent");
}

TEST_F(CaptureReports, NameALaunchThatTheDeviceCannotDo) {
  const CaptureReport report = report_of([&] {
    add(x_);
    LaunchConfig config;
    config.block = {4096, 1, 1};
    launch(current_stream(), config, Add{}, x_.data(), 1, x_.size());
  });
  ASSERT_TRUE(report.broken_by.has_value());
  EXPECT_EQ(report.broken_by->name, "cuLaunchKernelEx");
  EXPECT_EQ(report.broken_by->result, ErrorCode::invalid_value);
  EXPECT_FALSE(report.broken_by->rule.empty());
}

TEST_F(CaptureReports, SayThatNothingWasCaptured) {
  const CaptureReport report = report_of([] {});
  EXPECT_EQ(report.nodes, 0u);
  EXPECT_FALSE(report.broken_by.has_value());
  EXPECT_TRUE(contains(report.str(), "ended after 0 nodes."));
}

TEST_F(CaptureReports, AreThereWhenTheBodySwallowedTheErrorAndThrewAnother) {
  const CaptureReport report = report_of([&] {
    add(x_);
    make_unsafe_call();
    throw std::runtime_error("something else");
  });
  ASSERT_TRUE(report.broken_by.has_value());
  EXPECT_EQ(report.broken_by->name, "cuMemAlloc");
}

TEST_F(CaptureReports, NameTheFirstCallAndNotItsConsequences) {
  std::string consequence;
  const CaptureReport report = report_of([&] {
    add(x_);
    make_unsafe_call();
    consequence = text_of<BackendError>([&] { add(x_); });
    current_stream().synchronize();
  });
  ASSERT_TRUE(report.broken_by.has_value());
  EXPECT_EQ(report.broken_by->name, "cuMemAlloc");
  EXPECT_TRUE(contains(consequence, "the call that broke the capture: cuMemAlloc returned 900"));
}

TEST_F(CaptureReports, NameAnInstantiationThatFailed) {
  auto& faulty = *new backend::test::FaultyBackend(runtime_);
  const DeviceGuard guard{Device(faulty)};
  Buffer<int> x = zeros();
  faulty.fail(backend::Call::graph_instantiate, ErrorCode::out_of_memory);
  EXPECT_THROW(capture_increment(graph_, x), BackendError);
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_EQ(graph_.capture_report()->broken_by->name, "cuGraphInstantiateWithParams");
  EXPECT_EQ(graph_.capture_report()->code, ErrorCode::out_of_memory);
}

TEST_F(CaptureReports, NameABeginningThatFailed) {
  auto& faulty = *new backend::test::FaultyBackend(runtime_);
  const DeviceGuard guard{Device(faulty)};
  Buffer<int> x = zeros();
  faulty.fail(backend::Call::stream_begin_capture, ErrorCode::launch_failure);
  EXPECT_THROW(capture_increment(graph_, x), BackendError);
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_EQ(graph_.capture_report()->broken_by->name, "cuStreamBeginCapture");
  EXPECT_EQ(graph_.capture_report()->code, ErrorCode::launch_failure);
}

TEST_F(CaptureReports, NameAnEndThatFailedForAReasonOfItsOwn) {
  auto& faulty = *new backend::test::FaultyBackend(runtime_);
  const DeviceGuard guard{Device(faulty)};
  Buffer<int> x = zeros();
  faulty.fail(backend::Call::stream_end_capture, ErrorCode::launch_failure);
  EXPECT_THROW(capture_increment(graph_, x), CaptureError);
  ASSERT_TRUE(graph_.capture_report().has_value());
  EXPECT_EQ(graph_.capture_report()->broken_by->name, "cuStreamEndCapture");
  EXPECT_TRUE(contains(graph_.capture_report()->broken_by->rule, "injected"));
}

TEST_F(CaptureReports, AreGoneWithTheNextCaptureThatGoesWell) {
  report_of([&] {
    add(x_);
    make_unsafe_call();
  });
  capture_increment(graph_, x_);
  EXPECT_FALSE(graph_.capture_report().has_value());
}

TEST_F(CaptureReports, AreNotMadeForABodyThatThrewAndBrokeNothing) {
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         add(x_);
                         throw std::runtime_error("of the user's own");
                       }),
               std::runtime_error);
  EXPECT_FALSE(graph_.capture_report().has_value());
}

TEST_F(CaptureReports, OfAnEmptyCaptureThatIsAllowedAreNotMade) {
  const Warnings warnings;
  GraphOptions options;
  options.allow_empty = true;
  capture(graph_, options, [] {});
  EXPECT_FALSE(graph_.capture_report().has_value());
  EXPECT_TRUE(warnings.texts().empty());
}

}  // namespace
}  // namespace reprise::graphs::test
