// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <thread>

#include "backend/backend.h"
#include "backend/monitor.h"
#include "backend/rules/call_stack.h"
#include "tests/cuda_libraries/cuda_test.h"

// What a full capture report says of calls that this library does not make.

namespace reprise::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

__global__ void add_one(int* x) {
  *x += 1;
}

class FullCaptureReport : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    std::string why;
    // Under a sanitizer or a profiler, for one.
    if (device().backend().monitor().watch_calls(&why) == nullptr) GTEST_SKIP() << why;
    x_.emplace(1);
    x_->fill_bytes_async(0);
    work(stream().native());  // loads the kernel
    stream().synchronize();
    options_.report = ReportDetail::full;
    set_log_sink([](std::string_view) {});  // a capture that leaves something out warns
  }
  void TearDown() override { set_log_sink({}); }

  void work(cudaStream_t on) { add_one<<<1, 1, 0, on>>>(x_->data()); }

  /// The report of a capture of one kernel and then `body`; empty if there is nothing to report.
  template <class Body>
  CaptureReport report_of(Body&& body) {
    try {
      capture(graph_, options_, [&] {
        work(current_stream().native());
        body();
      });
    } catch (const Error&) {
    }
    (void)cudaGetLastError();
    EXPECT_TRUE(graph_.capture_report().has_value());
    return graph_.capture_report().value_or(CaptureReport{});
  }

  void expect_broken_by(const CaptureReport& report, const char* name, const char* driver_name, ErrorCode result,
                        const char* rule) {
    ASSERT_TRUE(report.broken_by.has_value()) << report.str();
    const CaptureReport::Call& call = *report.broken_by;
    EXPECT_THAT(call.name, HasSubstr(name));
    EXPECT_THAT(call.driver_name, HasSubstr(driver_name));
    EXPECT_EQ(call.result, result);
    EXPECT_THAT(call.rule, HasSubstr(rule));
    EXPECT_NE(call.advice, "");
    EXPECT_THAT(call.stack, Not(IsEmpty())) << report.str();
    EXPECT_EQ(report.code, ErrorCode::stream_capture_invalidated);
    EXPECT_EQ(report.nodes, 1U);
    EXPECT_THAT(report.str(), AllOf(HasSubstr(name), HasSubstr(call.rule), HasSubstr(call.advice)));
  }

  std::optional<Buffer<int>> x_;
  GraphOptions options_;
  CUDAGraph graph_;
};

TEST_F(FullCaptureReport, NamesAnAllocationByAnotherThread) {
  std::uint64_t other = 0;
  const CaptureReport report = report_of([&] {
    std::thread([&] {
      other = backend::thread_number();
      void* memory = nullptr;
      EXPECT_EQ(cudaMalloc(&memory, 64), cudaErrorStreamCaptureUnsupported);
    }).join();
  });
  expect_broken_by(report, "cudaMalloc", "cuMemAlloc", ErrorCode::stream_capture_unsupported, "potentially unsafe");
  EXPECT_EQ(report.broken_by->thread, other);
  EXPECT_FALSE(report.broken_by->capturing_thread);
}

TEST_F(FullCaptureReport, NamesAWaitForTheStream) {
  StreamHandle captured = nullptr;
  const CaptureReport report = report_of([&] {
    captured = current_stream().native();
    EXPECT_EQ(cudaStreamSynchronize(captured), cudaErrorStreamCaptureUnsupported);
  });
  expect_broken_by(report, "cudaStreamSynchronize", "cuStreamSynchronize", ErrorCode::stream_capture_unsupported,
                   "it cannot be synchronized");
  EXPECT_EQ(report.broken_by->stream, captured);
  EXPECT_TRUE(report.broken_by->capturing_thread);
  EXPECT_THAT(report.refused, IsEmpty());
}

TEST_F(FullCaptureReport, NamesAWaitForTheDevice) {
  const CaptureReport report = report_of([] { EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported); });
  expect_broken_by(report, "cudaDeviceSynchronize", "cuCtxSynchronize", ErrorCode::stream_capture_unsupported,
                   "waiting for the device waits for every stream");
}

TEST_F(FullCaptureReport, NamesAWaitForAStreamThatJoined) {
  const Stream joined(device());
  const Event event(device());
  const CaptureReport report = report_of([&] {
    EXPECT_EQ(cudaEventRecord(event.native(), current_stream().native()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(joined.native(), event.native(), 0), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(joined.native()), cudaErrorStreamCaptureUnsupported);
  });
  expect_broken_by(report, "cudaStreamSynchronize", "cuStreamSynchronize", ErrorCode::stream_capture_unsupported,
                   "it cannot be synchronized");
  EXPECT_EQ(report.broken_by->stream, joined.native());
}

TEST_F(FullCaptureReport, NamesAWaitForAnEventOfTheOutside) {
  const Stream other(device());
  const Event event(device());
  ASSERT_EQ(cudaEventRecord(event.native(), other.native()), cudaSuccess);
  const CaptureReport report = report_of([&] {
    EXPECT_EQ(cudaStreamWaitEvent(current_stream().native(), event.native(), 0), cudaErrorStreamCaptureIsolation);
  });
  expect_broken_by(report, "cudaStreamWaitEvent", "cuStreamWaitEvent", ErrorCode::stream_capture_isolation,
                   "recorded outside of its capture");
}

TEST_F(FullCaptureReport, NamesAWaitThatWouldMergeTwoCaptures) {
  const Stream other(device());
  const Event event(device());
  const CaptureReport report = report_of([&] {
    EXPECT_EQ(cudaStreamBeginCapture(other.native(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event.native(), other.native()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(current_stream().native(), event.native(), 0), cudaErrorStreamCaptureMerge);
  });
  expect_broken_by(report, "cudaStreamWaitEvent", "cuStreamWaitEvent", ErrorCode::stream_capture_merge,
                   "take part in two captures");
  cudaGraph_t none = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other.native(), &none), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(none, nullptr);
  (void)cudaGetLastError();
}

TEST_F(FullCaptureReport, NamesTheEndOfACaptureWithAForkThatIsNotJoined) {
  const Stream fork(device());
  const Event event(device());
  const CaptureReport report = report_of([&] {
    EXPECT_EQ(cudaEventRecord(event.native(), current_stream().native()), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(fork.native(), event.native(), 0), cudaSuccess);
    work(fork.native());
  });
  EXPECT_EQ(report.code, ErrorCode::stream_capture_unjoined);
  EXPECT_EQ(report.nodes, 2U);
  ASSERT_TRUE(report.broken_by.has_value()) << report.str();
  EXPECT_EQ(report.broken_by->name, "cuStreamEndCapture");  // the library's own call
  EXPECT_EQ(report.broken_by->result, ErrorCode::stream_capture_unjoined);
  EXPECT_THAT(report.broken_by->rule, HasSubstr("does not lead back to the stream that it began on"));
  EXPECT_THAT(report.broken_by->advice, HasSubstr("record an event after the last work of each stream"));
}

TEST_F(FullCaptureReport, NamesALaunchOnTheLegacyStreamWhileABlockingStreamCaptures) {
  const Stream blocking(device(), {.blocking = true});
  options_.stream = blocking;
  const CaptureReport report = report_of([&] { work(nullptr); });
  expect_broken_by(report, "LaunchKernel", "cuLaunchKernel", ErrorCode::stream_capture_implicit,
                   "the legacy default stream waits for every blocking stream");
}

TEST_F(FullCaptureReport, TellsOfALaunchOnTheLegacyStreamThatWasNotCaptured) {
  const CaptureReport report = report_of([&] { work(nullptr); });
  EXPECT_EQ(report.code, ErrorCode::success);
  EXPECT_FALSE(report.broken_by.has_value());
  ASSERT_THAT(report.not_captured, SizeIs(1)) << report.str();
  EXPECT_THAT(report.not_captured[0].name, HasSubstr("LaunchKernel"));
  EXPECT_EQ(report.not_captured[0].stream, StreamHandle{nullptr});
  EXPECT_THAT(report.str(), AllOf(HasSubstr("Work was executed at once and is missing in the graph"),
                                  HasSubstr("while a non-blocking stream captures")));
  EXPECT_EQ(graph_.node_count(), 1U);
}

TEST_F(FullCaptureReport, TellsOfWorkOnAStreamThatDoesNotTakePart) {
  const Stream other(device());
  const CaptureReport report = report_of([&] { work(other.native()); });
  ASSERT_THAT(report.not_captured, SizeIs(1)) << report.str();
  EXPECT_EQ(report.not_captured[0].stream, other.native());
  EXPECT_THAT(report.str(), HasSubstr("does not take part in the capture"));
}

TEST_F(FullCaptureReport, TellsOfABatchOfCopiesThatWasRefused) {
  Buffer<int> y(1);
  const CaptureReport report = report_of([&] {
    std::array<void*, 1> to = {y.data()};
    std::array<const void*, 1> from = {x_->data()};
    std::array<std::size_t, 1> bytes = {sizeof(int)};
    std::array<std::size_t, 1> first = {0};
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    EXPECT_EQ(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), 1, &attributes, first.data(), 1,
                                   current_stream().native()),
              cudaErrorStreamCaptureUnsupported);
  });
  EXPECT_EQ(report.code, ErrorCode::success);
  EXPECT_FALSE(report.broken_by.has_value()) << report.str();
  ASSERT_THAT(report.refused, SizeIs(1)) << report.str();
  EXPECT_THAT(report.refused[0].name, HasSubstr("cudaMemcpyBatchAsync"));
  EXPECT_EQ(report.refused[0].result, ErrorCode::stream_capture_unsupported);
  EXPECT_THAT(report.str(), AllOf(HasSubstr("A call failed without breaking the capture"),
                                  HasSubstr("a batch of copies cannot be captured")));
}

TEST_F(FullCaptureReport, HasNothingToTellOfACaptureThatWentWell) {
  capture(graph_, options_, [&] { work(current_stream().native()); });
  EXPECT_FALSE(graph_.capture_report().has_value()) << graph_.capture_report()->str();
}

TEST_F(FullCaptureReport, ListsNoWorkOfThisLibraryForALoop) {
  const Buffer<std::uint32_t> condition(1);
  capture(graph_, options_,
          [&] { (void)while_(condition.data(), [&] { work(current_stream().native()); }, {.max_iterations = 3}); });
  EXPECT_FALSE(graph_.capture_report()) << graph_.capture_report()->str();
}

// CUPTI, as another tool in the process would use it.
class AnotherTool {
 public:
  AnotherTool() {
    void* const cupti = dlopen("libcupti.so.13", RTLD_NOW);  // it was opened before
    const auto subscribe = cupti != nullptr ? reinterpret_cast<Subscribe>(dlsym(cupti, "cuptiSubscribe")) : nullptr;
    unsubscribe_ = cupti != nullptr ? reinterpret_cast<Unsubscribe>(dlsym(cupti, "cuptiUnsubscribe")) : nullptr;
    subscribed_ = subscribe != nullptr && unsubscribe_ != nullptr && subscribe(&handle_, &on_call, nullptr) == 0;
  }
  ~AnotherTool() {
    if (subscribed_) unsubscribe_(handle_);
  }
  AnotherTool(const AnotherTool&) = delete;
  AnotherTool& operator=(const AnotherTool&) = delete;
  bool subscribed() const { return subscribed_; }

 private:
  using Callback = void (*)(void*, int, unsigned, const void*);
  using Subscribe = int (*)(void**, Callback, void*);
  using Unsubscribe = int (*)(void*);
  static void on_call(void*, int, unsigned, const void*) {}
  Unsubscribe unsubscribe_ = nullptr;
  void* handle_ = nullptr;
  bool subscribed_ = false;
};

TEST_F(FullCaptureReport, SaysThatAnotherToolHoldsCuptiAndGoesOnWithout) {
  const AnotherTool tool;
  ASSERT_TRUE(tool.subscribed());
  const CaptureReport report = report_of([] { current_stream().query(); });
  ASSERT_TRUE(report.broken_by.has_value()) << "our own calls are known nevertheless";
  EXPECT_THAT(report.notes, Contains(AllOf(HasSubstr("Another tool"), HasSubstr("holds CUPTI's subscriber"))));
}

}  // namespace
}  // namespace reprise::test
