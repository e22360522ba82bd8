// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Captures that fail: the first error is thrown, and everything is released.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using backend::test::FaultyBackend;

class FailedCapture : public ::testing::Test {
 protected:
  void expect_usable() {
    const int before = first(x_);
    capture_increment(graph_, x_);
    graph_.replay();
    EXPECT_EQ(first(x_), before + 1);
  }

  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
};

TEST_F(FailedCapture, NamesTheCallThatBrokeItWhenTheBodySwallowedTheError) {
  const auto body = [&] {
    add(x_);
    make_unsafe_call();  // refused, and the code ignored
    try {
      add(x_);  // refused as a consequence
    } catch (const BackendError&) {
    }
  };
  try {
    capture(graph_, body);
    FAIL() << "no exception";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.code(), ErrorCode::stream_capture_invalidated);
    EXPECT_TRUE(contains(error.what(), "cudaErrorStreamCaptureInvalidated"));
    // CUDA does not report which call it was.
    if (current_device().type() == DeviceType::host) {
      EXPECT_TRUE(contains(error.what(), backend::cuda_name(Call::memory_allocate)));
    }
    EXPECT_TRUE(contains(error.what(), "capture in mode `thread`"));
  }
  expect_usable();
}

TEST_F(FailedCapture, ByACallOfAnotherThreadIsNamedInTheErrorsOfBoth) {
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread}) {
    std::string of_call, of_work;
    const auto body = [&] {
      add(x_);
      std::thread([&] { of_call = text_of<BackendError>([] { default_device().synchronize(); }); }).join();
      of_work = text_of<BackendError>([&] { add(x_); });
    };
    const GraphOptions options{.capture_error_mode = mode, .name = "step"};
    const std::string of_capture = text_of<CaptureError>([&] { capture(graph_, options, body); });
    EXPECT_TRUE(contains(of_call, "it broke the capture of graph `step` on stream 0x"));
    EXPECT_TRUE(contains(of_call, " of " + default_device().str() + " (mode " + mode_name(mode) + "), which thread "));
    EXPECT_TRUE(contains(of_work, "the call that broke the capture: cuCtxSynchronize on thread "));
    EXPECT_TRUE(contains(of_work, ", not the one that captures, returned 9"));
    EXPECT_TRUE(contains(of_capture, mode == CaptureMode::thread
                                         ? "if it waits for the whole device, as cudaDeviceSynchronize() does, and "
                                           "cublasCreate()"
                                         : "CaptureMode::thread leaves those alone that do not wait for the "
                                           "whole device"));
  }
  EXPECT_FALSE(contains(text_of<BackendError>([&] { capture(graph_, [&] { current_stream().synchronize(); }); }),
                        "it broke the capture"))
      << "the thread knows its own";
  expect_usable();
}

TEST_F(FailedCapture, GivesBackWhatWasAllocatedAfterItWasBroken) {
  CachingAllocator& allocator = CachingAllocator::of(current_device());
  allocator.empty_cache();
  const std::uint64_t before = allocator.statistics().reserved_bytes;
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         add(x_);
                         make_unsafe_call();  // breaks the capture
                         const Buffer<float> late(1000);
                       }),
               CaptureError);
  EXPECT_EQ(allocator.statistics().reserved_bytes, before) << "it came from the pool of the capture";
}

TEST_F(FailedCapture, ThrowsTheFirstErrorOfTheBodyAndNotItsConsequence) {
  try {
    capture(graph_, [&] {
      add(x_);
      current_stream().synchronize();
    });
    FAIL() << "no exception";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), ErrorCode::stream_capture_unsupported);
    EXPECT_EQ(error.call(), backend::cuda_name(Call::stream_synchronize));
  }
  EXPECT_TRUE(current_stream().is_default());
  expect_usable();
}

TEST_F(FailedCapture, SaysThatAForkWasNotJoined) {
  const Stream fork;
  try {
    capture(graph_, [&] {
      add(x_);
      fork.wait(current_stream());
      add(x_, 1, fork);
    });
    FAIL() << "no exception";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.code(), ErrorCode::stream_capture_unjoined);
    EXPECT_TRUE(contains(error.what(), "joined"));
  }
  EXPECT_EQ(fork.capture_status(), CaptureStatus::none);
  expect_usable();
}

TEST_F(FailedCapture, LeavesStreamThreadAndMemoryUsable) {
  const CachingAllocator& allocator = CachingAllocator::of(default_device());
  settle_memory();
  const auto before = allocator.statistics();
  const SideStream stream;
  for (int i = 0; i < 3; ++i) {
    graph_.capture_begin();
    {
      Buffer<int> scratch(std::size_t{1} << 22);
      scratch.fill_bytes_async(0);
    }
    EXPECT_EQ(make_unsafe_call(), ErrorCode::stream_capture_unsupported);
    EXPECT_THROW(graph_.capture_end(), CaptureError);
    EXPECT_EQ(stream.ref().capture_status(), CaptureStatus::none);
    EXPECT_EQ(make_unsafe_call(), ErrorCode::success);
    EXPECT_EQ(allocator.statistics().reserved_bytes, before.reserved_bytes);
    EXPECT_EQ(allocator.statistics().allocations, before.allocations);
  }
  graph_.capture_begin();
  add(x_);
  graph_.capture_end();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FailedCapture, OutOfMemoryIsOutOfMemoryAndReservedBytesReturn) {
  const CachingAllocator& allocator = CachingAllocator::of(default_device());
  settle_memory();
  const auto before = allocator.statistics().reserved_bytes;
  EXPECT_THROW(capture(graph_, {},
                       [&] {
                         Buffer<int> fits(std::size_t{1} << 22);
                         fits.fill_bytes_async(0);
                         const Buffer<std::byte> too_much(default_device().memory_info().total);
                       }),
               OutOfMemoryError);
  EXPECT_EQ(allocator.statistics().reserved_bytes, before);
  expect_usable();
}

TEST_F(FailedCapture, OutOfMemoryThatTheBodyHandlesLeavesTheCaptureAsItWas) {
  capture(graph_, [&] {
    EXPECT_THROW(Buffer<std::byte>(default_device().memory_info().total), OutOfMemoryError);
    add(x_);
  });
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FailedCapture, BrokenByAnotherThreadIsAbandonedWithoutComplaint) {
  const SideStream stream;
  graph_.capture_begin();
  std::thread([] { EXPECT_EQ(make_unsafe_call(), ErrorCode::stream_capture_unsupported); }).join();
  graph_.capture_abandon();
  EXPECT_FALSE(is_current_stream_capturing());
  expect_usable();
}

TEST_F(FailedCapture, EndedByADriverCallIsReportedAndReleased) {
  const SideStream stream;
  graph_.capture_begin();
  add(x_);
  backend::Backend& runtime = default_device().backend();
  GraphHandle stolen = nullptr;
  ASSERT_EQ(runtime.stream_end_capture(stream.ref().native(), &stolen), ErrorCode::success);
  EXPECT_EQ(runtime.graph_destroy(stolen), ErrorCode::success);
  try {
    graph_.capture_end();
    FAIL() << "no exception";
  } catch (const CaptureError& error) {
    EXPECT_EQ(error.code(), ErrorCode::illegal_state);
  }
  expect_usable();
}

// What the walk of failures does not look at. A device that fails is a device of its own.
class FailingDevice : public ::testing::Test {
 protected:
  FaultyBackend& faulty_ = *new FaultyBackend(default_device().backend());
  const Device device_{faulty_};
  const DeviceGuard guard_{device_};
  Buffer<int> x_ = zeros();
  CUDAGraph graph_{KeepGraph::yes};
};

TEST_F(FailingDevice, AnEmptyCaptureWhoseNodesCannotBeListedFails) {
  faulty_.fail(Call::graph_nodes, ErrorCode::launch_failure);
  const std::string text = text_of<BackendError>([&] { capture(graph_, [] {}); });
  EXPECT_TRUE(contains(text, "cuGraphGetNodes"));
  EXPECT_TRUE(faulty_.all_happened());
  capture_increment(graph_, x_);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FailingDevice, ThatCannotListNodesCapturesSome) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "the nodes are listed, to find copies";
  faulty_.fail(Call::graph_nodes, ErrorCode::launch_failure);
  capture_increment(graph_, x_);
  EXPECT_FALSE(faulty_.all_happened()) << "that there are some is known";
  faulty_.heal();
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FailingDevice, DoneAgainLeavesTheExecutableThatWasThere) {
  capture_increment(graph_, x_);
  graph_.instantiate();
  const GraphExecHandle exec = graph_.raw_cuda_graph_exec();
  faulty_.fail(Call::graph_instantiate, ErrorCode::out_of_memory);
  EXPECT_THROW(graph_.instantiate(), BackendError);
  EXPECT_EQ(graph_.raw_cuda_graph_exec(), exec);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

// On a thread on which no call failed, this runtime knows nothing beyond the code.
TEST_F(FailingDevice, ACaptureThatFailsForAReasonUnknownToTheRuntimeGetsAdvice) {
  const auto text_for = [&](ErrorCode code) {
    std::string text;
    std::thread([&] {
      const Stream stream(device_);
      const StreamGuard guard(stream);
      CUDAGraph graph;
      graph.capture_begin();
      faulty_.fail(Call::stream_end_capture, code);
      text = text_of<CaptureError>([&] { graph.capture_end(); });
      EXPECT_EQ(stream.capture_status(), CaptureStatus::none) << "the capture continues without its graph";
    }).join();
    return text;
  };
  faulty_.say_nothing();
  EXPECT_TRUE(contains(text_for(ErrorCode::stream_capture_unjoined), "forked off"));
  EXPECT_TRUE(contains(text_for(ErrorCode::stream_capture_invalidated), "CaptureMode::thread"));
}

// Templates with allocation or conditional nodes give 801 as long as another executable of them lives.
TEST_F(FailingDevice, MakesRoomWhenTheTemplateAllowsOneExecutable) {
  capture_increment(graph_, x_);
  graph_.instantiate();
  faulty_.fail(Call::graph_instantiate, ErrorCode::not_supported);
  faulty_.forget_calls();
  graph_.instantiate();
  EXPECT_EQ(faulty_.calls(Call::graph_exec_destroy), 1);
  EXPECT_EQ(faulty_.calls(Call::graph_instantiate), 2);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

// What a destructor cannot throw goes to the warnings.
TEST_F(FailingDevice, WhatFailsInResetIsReportedAsAWarning) {
  static std::vector<std::string>& warnings = *new std::vector<std::string>;
  warnings.clear();
  const LogSink previous = set_log_sink([](std::string_view text) { warnings.emplace_back(text); });
  capture_increment(graph_, x_);
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  const GraphExecHandle left_over = graph_.raw_cuda_graph_exec();
  faulty_.fail(Call::graph_exec_destroy, ErrorCode::launch_failure);
  EXPECT_NO_THROW(graph_.reset());
  set_log_sink(previous);
  EXPECT_EQ(faulty_.graph_exec_destroy(left_over), ErrorCode::success);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(contains(warnings[0], backend::cuda_name(Call::graph_exec_destroy)));
}

}  // namespace
}  // namespace reprise::graphs::test
