// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "backend/monitor.h"
#include "backend/rules/call_stack.h"
#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"
#include "tests/unit/memory/memory_fixture.h"

// What a capture that failed says of the call that broke it, on every device and for every kind of failure.

namespace reprise::graphs::test {
namespace {

using backend::Backend;
using memory::test::Warnings;

class CaptureReports : public ::testing::Test {
 protected:
  // What capture() with this body leaves behind, whatever it throws.
  template <class Body>
  CaptureReport report_of(Body body, const GraphOptions& options = {}) {
    try {
      capture(graph_, options, body);
      ADD_FAILURE() << "the capture went well";
    } catch (const CaptureError& error) {
      thrown_ = error.report();
    } catch (const std::exception&) {
    }
    EXPECT_TRUE(graph_.capture_report().has_value());
    return graph_.capture_report().value_or(CaptureReport{});
  }

  // The report names this call, its code, and the rule; all of that is in the text, too.
  void expect_broken_by(const CaptureReport& report, const std::string& name, ErrorCode result, const std::string& rule,
                        const std::string& advice) {
    ASSERT_TRUE(report.broken_by.has_value()) << report.str();
    const CaptureReport::Call& call = *report.broken_by;
    EXPECT_EQ(call.name, name);
    EXPECT_EQ(call.result, result);
    EXPECT_TRUE(contains(call.rule, rule));
    EXPECT_TRUE(contains(call.advice, advice));
    EXPECT_FALSE(call.stack.empty());
    EXPECT_EQ(report.device, default_device().str());
    for (const std::string& part : {name, std::to_string(static_cast<int>(result)), call.rule, call.advice,
                                    std::to_string(call.thread), call.stack.front(), report.device, report.mode})
      EXPECT_TRUE(contains(report.str(), part));
  }

  Backend& runtime_ = default_device().backend();
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
  std::optional<CaptureReport> thrown_;  // what a CaptureError carried
};

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
                   "non-blocking stream");
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

TEST_F(CaptureReports, NameAQueryOfACapturedEvent) {
  const Event event;
  const CaptureReport report = report_of([&] {
    add(x_);
    event.record(current_stream());
    event.query();
  });
  expect_broken_by(report, "cuEventQuery", ErrorCode::captured_event, "where it is a point of the graph",
                   "external flag");
}

TEST_F(CaptureReports, NameAWaitForAnEventOfTheOutside) {
  const Event event;
  const Stream other;
  event.record(other);
  const CaptureReport report = report_of([&] {
    add(x_);
    current_stream().wait(event);
  });
  expect_broken_by(report, "cuStreamWaitEvent", ErrorCode::stream_capture_isolation, "outside", "external flag");
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

TEST_F(CaptureReports, NameAWaitForTheDevice) {
  const CaptureReport report = report_of([&] {
    add(x_);
    default_device().synchronize();
  });
  expect_broken_by(report, "cuCtxSynchronize", ErrorCode::stream_capture_unsupported, "waits for every stream",
                   "before the capture");
}

TEST_F(CaptureReports, NameAReplayOnTheCapturingStream) {
  CUDAGraph inner;
  capture_increment(inner, x_);
  const CaptureReport report = report_of([&] {
    add(x_);
    EXPECT_EQ(runtime_.graph_launch(inner.raw_cuda_graph_exec(), current_stream().native()),
              ErrorCode::stream_capture_unsupported);
  });
  expect_broken_by(report, "cuGraphLaunch", ErrorCode::stream_capture_unsupported, "cannot be captured", "child graph");
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
  EXPECT_TRUE(contains(report.str(), "was over after 0 nodes."));
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

// What only `full` finds. Everything but the host device needs CUPTI for it.
class FullCaptureReports : public CaptureReports {
 protected:
  void SetUp() override {
    std::string why;
    if (runtime_.monitor().watch_calls(&why) == nullptr) GTEST_SKIP() << why;
    options_.report = ReportDetail::full;
  }
  GraphOptions options_;
};

TEST_F(FullCaptureReports, TellOfWorkOnTheLegacyStreamThatWasNotCaptured) {
  const Warnings warnings;
  capture(graph_, options_, [&] {
    add(x_);
    for (int i = 0; i < 3; ++i) add(x_, 1, default_device().default_stream());
  });
  default_device().synchronize();
  ASSERT_TRUE(graph_.capture_report().has_value());
  const CaptureReport& report = *graph_.capture_report();
  EXPECT_EQ(report.code, ErrorCode::success);
  EXPECT_EQ(report.nodes, 1u);
  ASSERT_EQ(report.not_captured.size(), 1u);
  EXPECT_EQ(report.not_captured[0].times, 3u);
  EXPECT_EQ(report.not_captured[0].stream, StreamHandle{});
  EXPECT_TRUE(contains(report.not_captured[0].rule, "is not captured"));
  EXPECT_TRUE(contains(report.str(), "Work was executed at once and is missing in the graph"));
  EXPECT_TRUE(contains(report.str(), "3 times"));
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_TRUE(contains(warnings.texts()[0], report.str()));
}

TEST_F(FullCaptureReports, TellOfWorkOfTheCapturingThreadOnAnotherStream) {
  const Warnings warnings;
  const Stream other;
  capture(graph_, options_, [&] {
    add(x_);
    add(x_, 1, other);
    std::thread([&] { add(x_, 1, other); }).join();  // it may have nothing to do with the capture
  });
  default_device().synchronize();
  ASSERT_TRUE(graph_.capture_report().has_value());
  ASSERT_EQ(graph_.capture_report()->not_captured.size(), 1u);
  EXPECT_EQ(graph_.capture_report()->not_captured[0].stream, other.native());
  EXPECT_EQ(graph_.capture_report()->not_captured[0].times, 1u);
}

TEST_F(FullCaptureReports, SayNothingOfWorkOfAnotherThreadOnAnotherDevice) {
  std::optional<Device> other;
  for (const Device& device : devices())
    if (device.type() == default_device().type() && device != default_device()) other = device;
  if (!other) GTEST_SKIP() << "there is one device";
  const Warnings warnings;
  options_.capture_error_mode = CaptureMode::thread;
  capture(graph_, options_, [&] {
    add(x_);
    std::thread([&] {
      const DeviceGuard guard(*other);
      Buffer<int> far(1);
      far.fill_bytes_async(0, other->default_stream());
      other->default_stream().synchronize();
    }).join();
  });
  EXPECT_FALSE(graph_.capture_report().has_value()) << graph_.capture_report()->str();
}

TEST_F(FullCaptureReports, TellOfCallsThatFailedAndBrokeNothing) {
  const Warnings warnings;
  capture(graph_, options_, [&] {
    add(x_);
    EXPECT_EQ(runtime_.stream_begin_capture(current_stream().native(), CaptureMode::relaxed), ErrorCode::illegal_state);
  });
  ASSERT_TRUE(graph_.capture_report().has_value());
  ASSERT_EQ(graph_.capture_report()->refused.size(), 1u);
  const CaptureReport::Call& call = graph_.capture_report()->refused[0];
  EXPECT_TRUE(contains(call.name, "cuStreamBeginCapture"));  // CUPTI's names have versions
  EXPECT_EQ(call.result, ErrorCode::illegal_state);
  EXPECT_TRUE(contains(call.rule, "takes part in a capture already"));
  EXPECT_TRUE(contains(graph_.capture_report()->str(), "without breaking the capture"));
}

TEST_F(FullCaptureReports, SayNothingWhenEverythingWasCaptured) {
  const Warnings warnings;
  capture(graph_, options_, [&] { add(x_); });
  EXPECT_FALSE(graph_.capture_report().has_value());
  EXPECT_TRUE(warnings.texts().empty());
}

TEST_F(FullCaptureReports, NameTheCallThatBrokeTheCapture) {
  const CaptureReport report = report_of(
      [&] {
        add(x_);
        make_unsafe_call();
      },
      options_);
  ASSERT_TRUE(report.broken_by.has_value());
  EXPECT_TRUE(contains(report.broken_by->name, "cuMemAlloc"));
  EXPECT_EQ(report.nodes, 1u);
}

TEST(CaptureReportText, HasEverythingInItsPlace) {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  report.device = "cuda:0";
  report.mode = "global";
  report.stream = reinterpret_cast<StreamHandle>(0x1000);
  report.thread = 10;
  report.nodes = 3;
  CaptureReport::Call call;
  call.name = "cudaMalloc";
  call.driver_name = "cuMemAlloc_v2";
  call.result = ErrorCode::stream_capture_unsupported;
  call.rule = "the rule";
  call.advice = "the advice";
  call.thread = 11;
  call.capturing_thread = false;
  call.stack = {"inner at program+0x10", "outer at program+0x20"};
  report.broken_by = call;
  CaptureReport::Call work;
  work.name = "cudaLaunchKernel";
  work.driver_name = "cudaLaunchKernel";
  work.thread = 10;
  work.stream = StreamHandle{};
  work.times = 2;
  report.not_captured = {work};
  report.notes = {"A note."};
  EXPECT_EQ(report.str(),
            "The capture of stream 0x1000 of cuda:0 (mode global) was broken after 3 nodes and ended with "
            "cudaErrorStreamCaptureInvalidated (901).\n"
            "  call     cudaMalloc (cuMemAlloc_v2) returned cudaErrorStreamCaptureUnsupported (900)\n"
            "  rule     the rule\n"
            "  instead  the advice\n"
            "  thread   11, not the one that captures (10)\n"
            "  stack    inner at program+0x10\n"
            "           outer at program+0x20\n"
            "Work was executed at once and is missing in the graph:\n"
            "  call     cudaLaunchKernel, 2 times\n"
            "  thread   10\n"
            "  stream   the legacy default stream\n"
            "  note     A note.\n");
}

TEST(CaptureReportText, SaysThatTheCallIsNotKnown) {
  CaptureReport report;
  report.code = ErrorCode::stream_capture_invalidated;
  EXPECT_EQ(report.str(),
            "The capture of the legacy default stream failed and ended with cudaErrorStreamCaptureInvalidated (901); "
            "the call that broke it is not known.\n");
}

}  // namespace
}  // namespace reprise::graphs::test
