// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <thread>

#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Beginning, ending and abandoning a capture.

namespace reprise::graphs::test {
namespace {

class CUDAGraphCapture : public ::testing::Test {
 protected:
  // The graph can capture on the stream, and its replay does what was captured.
  void expect_usable() {
    const StreamGuard guard(stream_);
    const int before = first(x_);
    graph_.capture_begin();
    add(x_);
    graph_.capture_end();
    EXPECT_EQ(first(x_), before);
    graph_.replay();
    EXPECT_EQ(first(x_), before + 1);
  }
  void expect_begin_refused(const GraphOptions& options, const char* part) {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.capture_begin(options); }), part));
  }

  Stream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

TEST_F(CUDAGraphCapture, DoesNotExecute) {
  const StreamGuard guard(stream_);
  graph_.capture_begin();
  add(x_);
  graph_.capture_end();
  EXPECT_EQ(first(x_), 0);
}

TEST_F(CUDAGraphCapture, OfTenIncrementsReplaysOnTheDefaultStream) {
  {
    const StreamGuard guard(stream_);
    graph_.capture_begin();
    for (int i = 0; i < 10; ++i) add(x_);
    graph_.capture_end();
  }
  EXPECT_TRUE(current_stream().is_default());
  graph_.replay();
  EXPECT_EQ(first(x_), 10);
}

TEST_F(CUDAGraphCapture, WorksAgainAfterReset) {
  expect_usable();
  graph_.reset();
  expect_usable();
}

TEST_F(CUDAGraphCapture, MakesTheStreamCaptureAndNotTheOthers) {
  const StreamGuard guard(stream_);
  const Stream other;
  EXPECT_FALSE(is_current_stream_capturing());
  graph_.capture_begin();
  EXPECT_TRUE(is_current_stream_capturing());
  EXPECT_EQ(other.capture_status(), CaptureStatus::none);
  add(x_);
  graph_.capture_end();
  EXPECT_FALSE(is_current_stream_capturing());
}

TEST_F(CUDAGraphCapture, IncludesStreamsThatAreForkedOffAndJoined) {
  const StreamGuard guard(stream_);
  const Stream fork;
  Buffer<int> y = zeros();
  graph_.capture_begin();
  add(x_);
  fork.wait(stream_.ref());
  multiply(x_, 10, y, fork);
  stream_.wait(fork.ref());
  add(y);
  graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(y), 11);
}

TEST_F(CUDAGraphCapture, IsRefusedOnTheLegacyDefaultStream) {
  expect_begin_refused({}, "legacy default stream");
  const StreamRef by_its_other_name(default_device(), reinterpret_cast<StreamHandle>(std::uintptr_t{1}));
  {
    const StreamGuard guard(by_its_other_name);
    expect_begin_refused({}, "legacy default stream");
  }
  expect_usable();
}

TEST_F(CUDAGraphCapture, IsRefusedOnAStreamThatIsCapturingAlready) {
  const StreamGuard guard(stream_);
  CUDAGraph other;
  other.capture_begin();
  expect_begin_refused({}, "takes part in a capture already");
  add(x_);
  other.capture_end();
  other.replay();
  EXPECT_EQ(first(x_), 1);
  expect_usable();
}

TEST_F(CUDAGraphCapture, IsRefusedOnAStreamThatJoinedACapture) {
  const Stream origin;
  CUDAGraph other;
  const StreamGuard outer(origin);
  other.capture_begin();
  stream_.wait(origin.ref());
  {
    const StreamGuard guard(stream_);
    expect_begin_refused({}, "takes part in a capture already");
    add(x_);
  }
  origin.wait(stream_.ref());
  other.capture_end();
  other.replay();
  EXPECT_EQ(first(x_), 1);
  expect_usable();
}

TEST_F(CUDAGraphCapture, IsRefusedWhenTheOptionsNameAStreamThatIsNotCurrent) {
  const Stream other;
  const StreamGuard guard(stream_);
  GraphOptions options;
  options.stream = other.ref();
  expect_begin_refused(options, "not the calling thread's current stream");
  EXPECT_EQ(stream_.capture_status(), CaptureStatus::none);
  EXPECT_EQ(other.capture_status(), CaptureStatus::none);
  expect_usable();
}

TEST_F(CUDAGraphCapture, TakesTheCurrentStreamWhenTheOptionsNameIt) {
  const StreamGuard guard(stream_);
  GraphOptions options;
  options.stream = stream_.ref();
  graph_.capture_begin(options);
  add(x_);
  graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(CUDAGraphCapture, IsRefusedWhileAnotherCaptureFillsTheSamePool) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  const SideStream other_stream;
  CUDAGraph other;
  other.capture_begin(options);
  {
    const StreamGuard guard(stream_);
    EXPECT_THROW(graph_.capture_begin(options), UsageError);
    EXPECT_EQ(stream_.capture_status(), CaptureStatus::none);
  }
  add(x_);
  other.capture_end();
  other.replay();
  EXPECT_EQ(first(x_), 1);
  expect_usable();
}

TEST_F(CUDAGraphCapture, EndIsRefusedOnAnotherStreamAndTheCaptureGoesOn) {
  const StreamGuard guard(stream_);
  graph_.capture_begin();
  {
    const SideStream other;
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.capture_end(); }), "stream that the capture began on"));
  }
  EXPECT_TRUE(is_current_stream_capturing());
  add(x_);
  graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

class CUDAGraphCaptureInMode : public CUDAGraphCapture, public ::testing::WithParamInterface<CaptureMode> {};

TEST_P(CUDAGraphCaptureInMode, EndIsRefusedOnAnotherThreadUnlessTheModeIsRelaxed) {
  const StreamGuard guard(stream_);
  graph_.capture_begin({}, GetParam());
  add(x_);
  std::thread([&] {
    const StreamGuard there(stream_);
    if (GetParam() == CaptureMode::relaxed)
      graph_.capture_end();
    else
      EXPECT_TRUE(contains(text_of<UsageError>([&] { graph_.capture_end(); }), "another thread"));
  }).join();
  if (GetParam() != CaptureMode::relaxed) graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_P(CUDAGraphCaptureInMode, IsAbandonedByAnyThread) {
  const StreamGuard guard(stream_);
  graph_.capture_begin({}, GetParam());
  add(x_);
  std::thread([&] { graph_.capture_abandon(); }).join();
  EXPECT_FALSE(is_current_stream_capturing());
  EXPECT_EQ(make_unsafe_call(), ErrorCode::success);
  expect_usable();
}

TEST_P(CUDAGraphCaptureInMode, LetsAnotherThreadAllocateUnlessTheModeIsGlobal) {
  const StreamGuard guard(stream_);
  graph_.capture_begin({}, GetParam());
  add(x_);
  ErrorCode there = ErrorCode::unknown;
  std::thread([&] { there = make_unsafe_call(); }).join();
  if (GetParam() == CaptureMode::global) {
    EXPECT_EQ(there, ErrorCode::stream_capture_unsupported);
    EXPECT_EQ(stream_.capture_status(), CaptureStatus::invalidated);
    EXPECT_THROW(graph_.capture_end(), CaptureError);
    expect_usable();
  } else {
    EXPECT_EQ(there, ErrorCode::success);
    graph_.capture_end();
    graph_.replay();
    EXPECT_EQ(first(x_), 1);
  }
}

TEST_P(CUDAGraphCaptureInMode, LetsItsOwnThreadAllocateOnlyIfTheModeIsRelaxed) {
  const StreamGuard guard(stream_);
  graph_.capture_begin({}, GetParam());
  add(x_);
  if (GetParam() == CaptureMode::relaxed) {
    EXPECT_EQ(make_unsafe_call(), ErrorCode::success);
    graph_.capture_end();
    graph_.replay();
    EXPECT_EQ(first(x_), 1);
  } else {
    EXPECT_EQ(make_unsafe_call(), ErrorCode::stream_capture_unsupported);
    EXPECT_THROW(graph_.capture_end(), CaptureError);
    expect_usable();
  }
}

TEST_P(CUDAGraphCaptureInMode, LetsTheCachingAllocatorWorkOnAnyThread) {
  const StreamGuard guard(stream_);
  graph_.capture_begin({}, GetParam());
  const Buffer<int> captured(1 << 20);
  add(x_);
  std::thread([&] {
    const Buffer<int> eager(1 << 22);
    EXPECT_NE(eager.data(), captured.data());
  }).join();
  CachingAllocator::of(default_device()).empty_cache();
  graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, CUDAGraphCaptureInMode,
                         ::testing::Values(CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed),
                         [](const auto& test) { return mode_name(test.param); });

TEST_F(CUDAGraphCapture, AbandonDropsWhatWasCapturedAndDoesNothingInOtherStates) {
  graph_.capture_abandon();
  const StreamGuard guard(stream_);
  graph_.capture_begin();
  add(x_);
  graph_.capture_abandon();
  EXPECT_FALSE(is_current_stream_capturing());
  EXPECT_THROW(graph_.replay(), UsageError);
  expect_usable();
  graph_.capture_abandon();
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(CUDAGraphCapture, IsAbandonedWhenTheGraphIsDestroyed) {
  const StreamGuard guard(stream_);
  const CachingAllocator& allocator = CachingAllocator::of(default_device());
  settle_memory();
  const auto before = allocator.statistics().reserved_bytes;
  {
    CUDAGraph doomed;
    doomed.capture_begin();
    const Buffer<int> scratch(1 << 20);
    EXPECT_GT(allocator.statistics().reserved_bytes, before);
  }
  EXPECT_FALSE(is_current_stream_capturing());
  EXPECT_EQ(allocator.statistics().reserved_bytes, before);
  expect_usable();
}

TEST_F(CUDAGraphCapture, WithoutAnyWorkIsAnErrorThatSaysWhy) {
  const StreamGuard guard(stream_);
  const Stream elsewhere;
  graph_.capture_begin();
  add(x_, 1, elsewhere);  // executed: that stream takes no part
  const std::string text = text_of<CaptureError>([&] { graph_.capture_end(); });
  EXPECT_TRUE(contains(text, "Nothing was captured"));
  EXPECT_TRUE(contains(text, "another stream"));
  EXPECT_TRUE(contains(text, "allow_empty"));
  elsewhere.synchronize();
  EXPECT_EQ(first(x_), 1);
  expect_usable();
}

TEST_F(CUDAGraphCapture, WithoutAnyWorkOnAHostDeviceSaysThatCallsOfCudaDoNotGoThere) {
  const HostSimulator simulator;
  const std::string text = text_of<EmptyCaptureError>([&] { capture(simulator.device(), [] {}); });
  EXPECT_TRUE(contains(text, "one of " + simulator.device().str() + ", a simulated device, which is current "));
  EXPECT_TRUE(contains(text, "kernels launched by `<<<>>>` and work of CUDA's libraries cannot go there"));
  if (default_device().type() == DeviceType::cuda) {
    EXPECT_TRUE(contains(text, "make the CUDA device current"));
    EXPECT_FALSE(contains(text_of<EmptyCaptureError>([] { capture([] {}); }), "simulated"));
  }
}

TEST_F(CUDAGraphCapture, WithoutAnyWorkHasTheCodeOfSuccess) {
  const StreamGuard guard(stream_);
  graph_.capture_begin();
  try {
    graph_.capture_end();
    FAIL() << "no exception";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.code(), ErrorCode::success);
  }
}

TEST_F(CUDAGraphCapture, WithoutAnyWorkIsAllowedOnRequest) {
  const StreamGuard guard(stream_);
  GraphOptions options;
  options.allow_empty = true;
  graph_.capture_begin(options);
  graph_.capture_end();
  EXPECT_EQ(graph_.node_count(), 0u);
  graph_.replay();
  current_stream().synchronize();
}

// Everything else is done when something needs it.
TEST_F(CUDAGraphCapture, OfOneKernelMakesTheBareCallsOfTheRuntime) {
  auto& counted = *new backend::test::FaultyBackend(default_device().backend());
  const DeviceGuard device{Device(counted)};
  const SideStream stream;
  Buffer<int> x = zeros();
  const auto capture_one = [&] {
    graph_.capture_begin();
    add(x);
    graph_.capture_end();
  };
  capture_one();
  graph_.reset();
  counted.forget_calls();
  capture_one();
  using backend::Call;
  int others = counted.calls() - counted.calls(Call::thread_exchange_capture_mode);
  for (const Call call : {Call::stream_begin_capture, Call::kernel_function, Call::launch_kernel,
                          Call::stream_end_capture, Call::graph_instantiate}) {
    EXPECT_EQ(counted.calls(call), 1) << backend::cuda_name(call);
    --others;
  }
  // A device that does not know whether there is a copy lists the nodes and their types.
  const int to_find_copies = default_device().type() == DeviceType::host ? 0 : 2;
  EXPECT_EQ(others, to_find_copies);
}

TEST_F(CUDAGraphCapture, HasAnIdOfItsOwn) {
  const StreamGuard guard(stream_);
  graph_.capture_begin();
  const auto one = stream_.ref().capture_id();
  EXPECT_NE(one, 0u);
  add(x_);
  graph_.capture_end();
  EXPECT_EQ(stream_.ref().capture_id(), 0u);
  CUDAGraph other;
  other.capture_begin();
  EXPECT_NE(stream_.ref().capture_id(), one);
}

}  // namespace
}  // namespace reprise::graphs::test
