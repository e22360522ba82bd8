// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "backend/lifetime/last_launch.h"
#include "backend/lifetime/tracked_stream.h"
#include "reprise/event.h"
#include "reprise/stream.h"
#include "tests/unit/memory/memory_fixture.h"

// Tracked streams, whose end is notified, and launches on them.

namespace reprise::backend {
namespace {

using memory::test::new_device;
using memory::test::RawCapture;
using memory::test::Warnings;
using reprise::test::Gate;

class TrackedStreamTest : public ::testing::Test {
 protected:
  void close(Gate& gate, const StreamRef& stream) {
    ASSERT_EQ(backend_.launch_host_function({&Gate::pass, &gate}, stream.native()), Result::success);
  }
  // As a graph launches its executable.
  void launch(LastLaunch& last, Gate& gate, const StreamRef& stream) {
    last.launch(stream, [&] { close(gate, stream); });
  }

  test::FaultyBackend& backend_ = new_device();
  Device device_{backend_};
  std::optional<Stream> stream_{std::in_place, device_};
};

TEST_F(TrackedStreamTest, AreThoseOfTheLibraryAndTheLegacyDefaultStream) {
  EXPECT_NE(TrackedStream::find(*stream_), nullptr);
  EXPECT_NE(TrackedStream::find(device_.default_stream()), nullptr);
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, StreamFlags::non_blocking, 0), Result::success);
  EXPECT_EQ(TrackedStream::find(StreamRef(device_, foreign)), nullptr);
  EXPECT_EQ(backend_.stream_destroy(foreign), Result::success);
}

TEST_F(TrackedStreamTest, IsNotTheOneThatGotItsHandleLater) {
  const StreamRef named = stream_->ref();
  const auto known = TrackedStream::find(named);
  EXPECT_TRUE(known->is(named));
  stream_.reset();
  EXPECT_FALSE(known->is(named));
  EXPECT_EQ(TrackedStream::find(named), nullptr);
  TrackedStream::add(named);  // as if it were handed out again
  EXPECT_TRUE(TrackedStream::find(named)->is(named));
  EXPECT_FALSE(known->is(named));
  TrackedStream::ends(named);
}

TEST_F(TrackedStreamTest, MarksTheEndOfItsWorkWhenItIsDestroyed) {
  const auto known = TrackedStream::find(*stream_);
  Gate gate;
  close(gate, *stream_);
  stream_.reset();
  const auto mark = known->mark();
  ASSERT_NE(mark, nullptr);
  EXPECT_FALSE(mark->query());
  gate.open();
  mark->synchronize();
  EXPECT_TRUE(mark->query());
}

TEST_F(TrackedStreamTest, CostsNoCallWhenItEndsAndNobodyWantsToKnow) {
  backend_.forget_calls();
  stream_.reset();
  EXPECT_EQ(backend_.calls(), 1) << "the stream is destroyed";
}

TEST_F(TrackedStreamTest, CannotBeMarkedWhileItIsCaptured) {
  const auto known = TrackedStream::find(*stream_);
  {
    RawCapture capture(stream_->ref());
    EXPECT_EQ(known->mark(), nullptr);
    EXPECT_EQ(stream_->capture_status(), CaptureStatus::active);
  }
  EXPECT_NE(known->mark(), nullptr);
}

TEST_F(TrackedStreamTest, CannotBeMarkedWhenACaptureBeginsMeanwhile) {
  const auto known = TrackedStream::find(*stream_);
  std::optional<RawCapture> capture;
  backend_.after(Call::event_create, [&] { capture.emplace(stream_->ref()); });
  EXPECT_EQ(known->mark(), nullptr);
  EXPECT_EQ(stream_->capture_status(), CaptureStatus::active);
  capture.reset();
  EXPECT_NE(known->mark(), nullptr);
}

TEST_F(TrackedStreamTest, ThatEndsInACaptureSaysThatNobodyKnowsWhatIsOver) {
  const Warnings warnings;
  LastLaunch last;
  Gate gate;
  gate.open();
  launch(last, gate, *stream_);
  stream_->synchronize();
  backend_.stream_begin_capture(stream_->native(), CaptureErrorMode::relaxed);
  stream_.reset();
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts().front(), ::testing::HasSubstr("it was captured"));
  EXPECT_FALSE(last.is_over());
}

using LastLaunchTest = TrackedStreamTest;

TEST_F(LastLaunchTest, IsOverIfThereWasNone) {
  EXPECT_TRUE(LastLaunch().is_over());
}

TEST_F(LastLaunchTest, IsOverWhenItsWorkIs) {
  Gate gate;
  LastLaunch last;
  launch(last, gate, *stream_);
  EXPECT_FALSE(last.is_over());
  gate.open();
  stream_->synchronize();
  EXPECT_TRUE(last.is_over());
  EXPECT_TRUE(last.is_over());
}

TEST_F(LastLaunchTest, IsWaitedFor) {
  Gate gate;
  LastLaunch last;
  last.wait();  // for none
  launch(last, gate, *stream_);
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
  launch(last, gate, *stream_);
  const Stream other(device_);
  EXPECT_THROW(last.launch(other.ref(), [] { throw Error("refused"); }), Error);
  EXPECT_FALSE(last.is_over()) << "the one before it still runs";
  gate.open();
  stream_->synchronize();
  EXPECT_TRUE(last.is_over());
}

TEST_F(LastLaunchTest, OnAForeignStreamThatFailedIsNone) {
  Gate gate;
  LastLaunch last;
  launch(last, gate, *stream_);
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, StreamFlags::non_blocking, 0), Result::success);
  EXPECT_THROW(last.launch(StreamRef(device_, foreign), [] { throw Error("refused"); }), Error);
  EXPECT_FALSE(last.is_over());
  gate.open();
  stream_->synchronize();
  EXPECT_TRUE(last.is_over());
  EXPECT_EQ(backend_.stream_destroy(foreign), Result::success);
}

TEST_F(LastLaunchTest, OnAForeignStreamThatWasBeingCapturedIsNeverOver) {
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, StreamFlags::non_blocking, 0), Result::success);
  const StreamRef stream(device_, foreign);
  LastLaunch last;
  {
    RawCapture capture(stream);
    last.launch(stream, [] {});
    EXPECT_EQ(stream.capture_status(), CaptureStatus::active);
  }
  EXPECT_FALSE(last.is_over());
  EXPECT_EQ(backend_.stream_destroy(foreign), Result::success);
}

TEST_F(LastLaunchTest, IsAskedForAgainWhenTheDeviceGivesNoAnswer) {
  const Warnings warnings;
  Gate gate;
  gate.open();
  LastLaunch last;
  launch(last, gate, *stream_);
  stream_->synchronize();
  backend_.fail(Call::event_create, Result::out_of_memory);
  EXPECT_FALSE(last.is_over());
  backend_.fail(Call::event_record, Result::out_of_memory);
  EXPECT_FALSE(last.is_over());
  backend_.fail(Call::event_query, Result::out_of_memory);
  EXPECT_FALSE(last.is_over());
  EXPECT_TRUE(last.is_over());
  ASSERT_EQ(warnings.texts().size(), 1u) << "once is enough";
  EXPECT_THAT(warnings.texts().front(), ::testing::HasSubstr("cuEventCreate"));
}

}  // namespace
}  // namespace reprise::backend
