// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "backend/objects/tracked_stream.h"
#include "reprise/event.h"
#include "reprise/stream.h"
#include "tests/unit/memory/memory_fixture.h"

// Tracked streams, whose end is notified.

namespace reprise::backend {
namespace {

using memory::test::new_device;
using memory::test::RawCapture;
using memory::test::Warnings;
using reprise::test::Gate;

class TrackedStreamTest : public ::testing::Test {
 protected:
  void close(Gate& gate, const StreamRef& stream) {
    ASSERT_EQ(backend_.launch_host_function({&Gate::pass, &gate}, stream.native()), ErrorCode::success);
  }

  test::FaultyBackend& backend_ = new_device();
  Device device_{backend_};
  std::optional<Stream> stream_{std::in_place, device_};
};

TEST_F(TrackedStreamTest, AreThoseOfTheLibraryAndTheLegacyDefaultStream) {
  EXPECT_NE(TrackedStream::find(*stream_), nullptr);
  EXPECT_NE(TrackedStream::find(device_.default_stream()), nullptr);
  StreamHandle foreign = nullptr;
  ASSERT_EQ(backend_.stream_create(&foreign, StreamFlags::non_blocking, 0), ErrorCode::success);
  EXPECT_EQ(TrackedStream::find(StreamRef(device_, foreign)), nullptr);
  EXPECT_EQ(backend_.stream_destroy(foreign), ErrorCode::success);
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

TEST_F(TrackedStreamTest, CostsNoCallWhenItEndsUnused) {
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

TEST_F(TrackedStreamTest, ThatEndsInACaptureWarnsThatTheEndOfItsWorkIsUnknown) {
  const Warnings warnings;
  const auto known = TrackedStream::find(*stream_);
  (void)backend_.stream_begin_capture(stream_->native(), CaptureMode::relaxed);
  stream_.reset();
  ASSERT_EQ(warnings.texts().size(), 1u);
  EXPECT_THAT(warnings.texts().front(), ::testing::HasSubstr("it was captured"));
  EXPECT_EQ(known->mark(), nullptr);
}

}  // namespace
}  // namespace reprise::backend
