// SPDX-License-Identifier: Apache-2.0
#include "memory/lifetime/last_launch.h"

#include <chrono>
#include <future>
#include <optional>
#include <thread>

#include "tests/unit/memory/memory_fixture.h"

// When the last launch of a graph is over.

namespace reprise::memory::test {
namespace {

class LastLaunchTest : public MemoryTest {
 protected:
  // As a graph launches its executable.
  void launch(LastLaunch& last, Gate& gate, const StreamRef& stream) {
    last.launch(stream, [&] { close(gate, stream); });
  }
};

TEST_F(LastLaunchTest, IsOverIfThereWasNone) {
  EXPECT_TRUE(LastLaunch().is_over());
}

TEST_F(LastLaunchTest, IsOverWhenItsWorkIs) {
  Gate gate;
  LastLaunch last;
  launch(last, gate, stream_);
  EXPECT_FALSE(last.is_over());
  gate.open();
  stream_.synchronize();
  EXPECT_TRUE(last.is_over());
  EXPECT_TRUE(last.is_over());
}

TEST_F(LastLaunchTest, IsWaitedFor) {
  Gate gate;
  LastLaunch last;
  last.wait();  // for none
  launch(last, gate, stream_);
  std::thread opener([&] {
    EXPECT_TRUE(gate.wait_until_reached());
    gate.open();
  });
  last.wait();
  EXPECT_TRUE(gate.is_open());
  EXPECT_TRUE(last.is_over());
  opener.join();
}

TEST_F(LastLaunchTest, ThatFailedIsNone) {
  Gate gate, open;
  open.open();
  LastLaunch last;
  launch(last, gate, stream_);
  const Stream other(device_);
  EXPECT_THROW(last.launch(other.ref(), [] { throw Error("refused"); }), Error);
  EXPECT_FALSE(last.is_over()) << "the one before it still runs";
  gate.open();
  stream_.synchronize();
  EXPECT_TRUE(last.is_over());
}

TEST_F(LastLaunchTest, OnAForeignStreamThatFailedIsNone) {
  Gate gate;
  LastLaunch last;
  launch(last, gate, stream_);
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, backend::StreamFlags::non_blocking, 0), ErrorCode::success);
  EXPECT_THROW(last.launch(StreamRef(device_, foreign), [] { throw Error("refused"); }), Error);
  EXPECT_FALSE(last.is_over());
  gate.open();
  stream_.synchronize();
  EXPECT_TRUE(last.is_over());
  EXPECT_EQ(backend_.stream_destroy(foreign), ErrorCode::success);
}

TEST_F(LastLaunchTest, WhichWasCopiedIsOverBeforeALaterOneOnItsForeignStream) {
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, backend::StreamFlags::non_blocking, 0), ErrorCode::success);
  const StreamRef stream(device_, foreign);
  LastLaunch last;
  last.launch(stream, [] {});
  stream.synchronize();
  LastLaunch copy = last;
  Gate gate;
  last.launch(stream, [&] {
    ASSERT_EQ(backend_.launch_host_function({&Gate::pass, &gate}, stream.native()), ErrorCode::success);
  });
  EXPECT_TRUE(copy.is_over());
  EXPECT_FALSE(last.is_over());
  gate.open();
  stream.synchronize();
  EXPECT_EQ(backend_.stream_destroy(foreign), ErrorCode::success);
}

TEST_F(LastLaunchTest, OnAForeignStreamThatWasBeingCapturedIsNeverOver) {
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, backend::StreamFlags::non_blocking, 0), ErrorCode::success);
  const StreamRef stream(device_, foreign);
  LastLaunch last;
  {
    RawCapture capture(stream);
    last.launch(stream, [] {});
    EXPECT_EQ(stream.capture_status(), CaptureStatus::active);
  }
  EXPECT_FALSE(last.is_over());
  EXPECT_EQ(backend_.stream_destroy(foreign), ErrorCode::success);
}

TEST_F(LastLaunchTest, IsAskedForAgainWhenTheDeviceGivesNoAnswer) {
  const Warnings warnings;
  Gate gate(reprise::test::by_steps_too);
  gate.open();
  LastLaunch last;
  launch(last, gate, stream_);
  stream_.synchronize();
  backend_.fail(Call::event_create, ErrorCode::out_of_memory);
  EXPECT_FALSE(last.is_over());
  backend_.fail(Call::event_record, ErrorCode::out_of_memory);
  EXPECT_FALSE(last.is_over());
  backend_.fail(Call::event_query, ErrorCode::out_of_memory);
  EXPECT_FALSE(last.is_over());
  EXPECT_TRUE(last.is_over());
  ASSERT_EQ(warnings.texts().size(), 1u) << "once is enough";
  EXPECT_THAT(warnings.texts().front(), ::testing::HasSubstr("cuEventCreate"));
}

TEST_F(LastLaunchTest, OnTheLegacyDefaultStreamIsAskedForWhenNoCaptureIsUnderway) {
  const StreamRef legacy = device_.default_stream();
  LastLaunch last;
  last.launch(legacy, [] {});
  const Stream blocking(device_, StreamOptions{.blocking = true});
  {
    const GraphOptions options{.capture_error_mode = CaptureMode::global};
    const captures::Registration registered(blocking, options, {});
    const RawCapture capture(blocking);
    backend_.forget_calls();
    EXPECT_FALSE(last.is_over());
    EXPECT_EQ(backend_.calls(), 0) << "the report of the capture would list the query";
  }
  static_cast<void>(last.is_over());  // records the event
  legacy.synchronize();
  EXPECT_TRUE(last.is_over());
}

TEST_F(LastLaunchTest, OnTheLegacyDefaultStreamGetsIntoNoCaptureThatBeginsMeanwhile) {
  LastLaunch last;
  last.launch(device_.default_stream(), [] {});
  const Stream blocking(device_, StreamOptions{.blocking = true});
  std::promise<void> begun, queried;
  std::thread capturing;
  bool whole = false;
  // Between the query of the stream and the record of the event.
  backend_.after(Call::stream_is_capturing, [&] {
    capturing = std::thread([&] {
      const GraphOptions options{.capture_error_mode = CaptureMode::thread};
      const captures::Registration registered(blocking, options, {});
      const RawCapture capture(blocking, CaptureMode::thread);
      begun.set_value();
      queried.get_future().wait();
      whole = capture.is_whole();
    });
    begun.get_future().wait_for(std::chrono::milliseconds(50));
  });
  static_cast<void>(last.is_over());
  queried.set_value();
  ASSERT_TRUE(capturing.joinable());
  capturing.join();
  EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace reprise::memory::test
