// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "reprise/event.h"
#include "reprise/stream.h"
#include "tests/unit/memory/memory_fixture.h"

namespace reprise {
namespace {

using memory::test::new_device;
using memory::test::RawCapture;
using memory::test::Warnings;
using test::Gate;

class StreamTest : public ::testing::Test {
 protected:
  void close(Gate& gate, const StreamRef& stream) {
    ASSERT_EQ(backend_.launch_host_function({&Gate::pass, &gate}, stream.native()), ErrorCode::success);
  }

  backend::test::FaultyBackend& backend_ = new_device();
  Device device_{backend_};
  Stream stream_{device_};
  Stream other_{device_};
};

TEST_F(StreamTest, QueryTellsWhetherItsWorkIsDone) {
  EXPECT_TRUE(stream_.query());
  Gate gate;
  close(gate, stream_);
  EXPECT_FALSE(stream_.query());
  gate.open();
  stream_.synchronize();
  EXPECT_TRUE(stream_.query());
}

TEST_F(StreamTest, DoesNotWaitForTheLegacyStreamUnlessMadeBlocking) {
  const Stream blocking(device_, StreamOptions{.blocking = true});
  void* memory = nullptr;
  ASSERT_EQ(backend_.memory_allocate(&memory, 4), ErrorCode::success);
  Gate gate;
  close(gate, device_.default_stream());
  // No host function: CUDA executes those of all streams one after another.
  ASSERT_EQ(backend_.set_async({memory, 0, 4, 1}, stream_.native()), ErrorCode::success);
  stream_.synchronize();
  ASSERT_EQ(backend_.set_async({memory, 0, 4, 1}, blocking.ref().native()), ErrorCode::success);
  EXPECT_FALSE(blocking.query());
  gate.open();
  blocking.synchronize();
  EXPECT_EQ(backend_.memory_free(memory), ErrorCode::success);
}

TEST_F(StreamTest, WaitsForWhatAnotherStreamHasBeenGiven) {
  Gate gate;
  close(gate, other_);
  stream_.wait(other_.ref());
  EXPECT_FALSE(stream_.query());
  gate.open();
  stream_.synchronize();
  EXPECT_TRUE(other_.query());
}

TEST_F(StreamTest, WaitingForItselfDoesNothing) {
  backend_.forget_calls();
  stream_.wait(stream_.ref());
  EXPECT_EQ(backend_.calls(), 0);
}

TEST_F(StreamTest, WaitsForAStreamOfAnotherDevice) {
  const Device elsewhere(new_device());
  const Stream theirs(elsewhere);
  Gate gate;
  close(gate, theirs);
  stream_.wait(theirs.ref());
  EXPECT_FALSE(stream_.query());
  gate.open();
  stream_.synchronize();
}

TEST_F(StreamTest, AWaitThatFailsLeavesNoEventBehind) {
  backend_.forget_calls();
  backend_.fail(backend::Call::stream_wait_event, ErrorCode::stream_capture_merge);
  EXPECT_THROW(stream_.wait(other_.ref()), BackendError);
  EXPECT_EQ(backend_.calls(backend::Call::event_create), 1);
  EXPECT_EQ(backend_.calls(backend::Call::event_destroy), 1);
}

TEST_F(StreamTest, TellsItsCaptureAndBreaksNothingByAsking) {
  EXPECT_EQ(stream_.capture_status(), CaptureStatus::none);
  EXPECT_EQ(stream_.ref().capture_id(), 0u);
  const RawCapture capture(stream_);
  EXPECT_EQ(stream_.capture_status(), CaptureStatus::active);
  EXPECT_NE(stream_.ref().capture_id(), 0u);
  EXPECT_EQ(other_.capture_status(), CaptureStatus::none);
}

TEST_F(StreamTest, AStreamThatWaitsForACapturingOneJoinsItsCapture) {
  const RawCapture capture(stream_);
  other_.wait(stream_.ref());
  EXPECT_EQ(other_.ref().capture_id(), stream_.ref().capture_id());
  stream_.wait(other_.ref());
}

TEST_F(StreamTest, TheLegacyStreamIsInNoCaptureWhateverIsCaptured) {
  const Stream blocking(device_, StreamOptions{.blocking = true});
  const RawCapture capture(blocking);
  backend_.forget_calls();
  EXPECT_EQ(device_.default_stream().capture_status(), CaptureStatus::none);
  EXPECT_EQ(device_.default_stream().capture_id(), 0u);
  EXPECT_EQ(backend_.calls(), 0) << "the report of the capture would list the query";
  EXPECT_TRUE(capture.is_whole());
}

TEST_F(StreamTest, CanBeMadeAndDestroyedInAnyCapture) {
  const RawCapture capture(stream_);
  { const Stream short_lived(device_); }
  EXPECT_TRUE(capture.is_whole());
}

TEST_F(StreamTest, DestroyingItDoesNotWaitAndItsWorkStillRuns) {
  Gate gate;
  {
    const Stream short_lived(device_);
    close(gate, short_lived);
  }
  EXPECT_TRUE(gate.wait_until_reached());
  gate.open();
  device_.synchronize();
}

TEST_F(StreamTest, IsDestroyedOnceHoweverOftenItIsMoved) {
  backend_.forget_calls();
  {
    Stream first(device_);
    const StreamHandle handle = first.native();
    Stream second(std::move(first));
    EXPECT_EQ(second.native(), handle);
    Stream third(device_);
    third = std::move(second);
    EXPECT_EQ(third.native(), handle);
    EXPECT_EQ(backend_.calls(backend::Call::stream_destroy), 1);
    first = Stream(device_);
    EXPECT_NE(first.native(), nullptr);
  }
  EXPECT_EQ(backend_.calls(backend::Call::stream_create), 3);
  EXPECT_EQ(backend_.calls(backend::Call::stream_destroy), 3);
}

TEST_F(StreamTest, ThatCannotBeMadeIsABackendError) {
  backend_.fail(backend::Call::stream_create, ErrorCode::out_of_memory);
  EXPECT_THROW(Stream{device_}, BackendError);
  EXPECT_NO_THROW(Stream{device_});
}

TEST_F(StreamTest, ThatCannotBeDestroyedIsReported) {
  const Warnings warnings;
  backend_.fail(backend::Call::stream_destroy, ErrorCode::launch_failure);
  const StreamHandle leaked = Stream(device_).native();
  EXPECT_EQ(warnings.texts().size(), 1u);
  EXPECT_EQ(backend_.stream_destroy(leaked), ErrorCode::success);
}

TEST_F(StreamTest, OfAnyOriginCanBeUsed) {
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, backend::StreamFlags::non_blocking, 0), ErrorCode::success);
  const StreamRef stream(device_, foreign);
  EXPECT_FALSE(stream.is_default());
  EXPECT_TRUE(stream.query());
  const StreamGuard guard(stream);
  EXPECT_EQ(current_stream(), stream);
  EXPECT_EQ(backend_.stream_destroy(foreign), ErrorCode::success);
}

TEST_F(StreamTest, TheCurrentOneIsTheLegacyStreamOutsideOfAllGuards) {
  EXPECT_EQ(current_stream(), default_device().default_stream());
  EXPECT_EQ(current_stream(device_), device_.default_stream());
  EXPECT_TRUE(current_stream().is_default());
}

TEST_F(StreamTest, TheCurrentOneIsThatOfTheInnermostGuardOfTheDevice) {
  const Device elsewhere(new_device());
  const Stream theirs(elsewhere);
  {
    const StreamGuard outer(stream_);
    const StreamGuard inner(theirs);
    EXPECT_EQ(current_stream(), theirs.ref());
    EXPECT_EQ(current_stream(device_), stream_.ref());
    const DeviceGuard back(device_);
    EXPECT_EQ(current_stream(), stream_.ref());
    {
      const StreamGuard innermost(other_);
      EXPECT_EQ(current_stream(), other_.ref());
    }
    EXPECT_EQ(current_stream(), stream_.ref());
  }
  EXPECT_EQ(current_stream(), default_device().default_stream());
  EXPECT_EQ(current_stream(device_), device_.default_stream());
}

TEST_F(StreamTest, TheCurrentOneIsRestoredByAnException) {
  try {
    const StreamGuard guard(stream_);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(current_stream(), default_device().default_stream());
}

TEST_F(StreamTest, TheCurrentOneIsEachThreadsOwn) {
  const StreamGuard guard(stream_);
  std::thread([&] { EXPECT_EQ(current_stream(device_), device_.default_stream()); }).join();
}

TEST_F(StreamTest, WhetherTheCurrentOneIsCapturing) {
  EXPECT_FALSE(is_current_stream_capturing());
  const RawCapture capture(stream_);
  EXPECT_FALSE(is_current_stream_capturing());
  const StreamGuard guard(stream_);
  EXPECT_TRUE(is_current_stream_capturing());
}

}  // namespace
}  // namespace reprise
