// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/captures/captures_fixture.h"

// What concerns attach to a capture.

namespace reprise::captures {
namespace {

struct Plain {
  int value;
};
struct KnowsStreams {
  std::vector<StreamHandle> ended;
  void stream_ends(const StreamRef& stream) noexcept { ended.push_back(stream.native()); }
};
struct KnowsItsCapture {
  int ended = 0;
  void capture_ends() noexcept { ++ended; }
};

constinit Slot<Plain> plain, another;
constinit Slot<KnowsStreams> knows_streams;
constinit Slot<KnowsItsCapture> knows_its_capture;

TEST_F(Captures, HoldWhatIsAttachedUntilItIsDetached) {
  const Registration registered = announce(stream_);
  Capture& capture = registered.capture();
  EXPECT_EQ(capture.get(plain), nullptr);
  EXPECT_EQ(capture.detach(plain), nullptr);
  capture.attach(plain, std::make_shared<Plain>(Plain{1}));
  EXPECT_EQ(capture.get(another), nullptr);
  capture.attach(another, std::make_shared<Plain>(Plain{2}));
  ASSERT_NE(capture.get(plain), nullptr);
  EXPECT_EQ(capture.get(plain)->value, 1);
  EXPECT_EQ(capture.get(another)->value, 2);
  capture.attach(plain, std::make_shared<Plain>(Plain{3}));
  EXPECT_EQ(capture.detach(plain)->value, 3);
  EXPECT_EQ(capture.get(plain), nullptr);
  EXPECT_EQ(capture.get(another)->value, 2);
}

TEST_F(Captures, MakeWhatAConcernNeedsAtFirstUse) {
  const Registration registered = announce(stream_);
  const std::shared_ptr<Plain> made = registered.capture().get_or_attach(plain, Plain{1});
  EXPECT_EQ(made->value, 1);
  EXPECT_EQ(registered.capture().get_or_attach(plain, Plain{2}), made);
  EXPECT_EQ(registered.capture().detach(plain), made);
}

TEST_F(Captures, MakeNothingForAConcernWhenTheyAreOver) {
  Registration registered = announce(stream_);
  const auto made = registered.capture().get_or_attach(plain, Plain{1});
  registered.over();
  EXPECT_EQ(registered.capture().get_or_attach(plain, Plain{2}), made);
  EXPECT_EQ(registered.capture().get_or_attach(another, Plain{3}), nullptr);
  EXPECT_EQ(registered.capture().get(another), nullptr);
}

TEST_F(Captures, EachHoldsItsOwn) {
  const Registration first = announce(stream_), second = announce(other_);
  first.capture().attach(plain, std::make_shared<Plain>(Plain{1}));
  EXPECT_EQ(second.capture().get(plain), nullptr);
}

TEST_F(Captures, ReleaseWhatIsAttachedAtTheirEnd) {
  std::weak_ptr<Plain> attached;
  std::shared_ptr<Capture> held;
  {
    Registration registered = announce(stream_);
    auto value = std::make_shared<Plain>(Plain{1});
    attached = value;
    registered.capture().attach(plain, std::move(value));
    held = find(stream_).capture;
    registered.over();
    EXPECT_FALSE(attached.expired());
  }
  EXPECT_TRUE(attached.expired());
  EXPECT_EQ(held->get(plain), nullptr);
}

TEST_F(Captures, NotifyWhatIsAttachedOfTheEndOfAStream) {
  const Registration first = announce(stream_), second = announce(other_);
  const auto a = std::make_shared<KnowsStreams>(), b = std::make_shared<KnowsStreams>();
  first.capture().attach(plain, std::make_shared<Plain>(Plain{1}));
  first.capture().attach(knows_streams, a);
  second.capture().attach(knows_streams, b);
  std::optional<Stream> ending(device_);
  const StreamHandle handle = ending->native();
  ending.reset();
  EXPECT_EQ(a->ended, std::vector<StreamHandle>{handle});
  EXPECT_EQ(b->ended, std::vector<StreamHandle>{handle});
  first.capture().detach(knows_streams);
  ending.emplace(device_);
  ending.reset();
  EXPECT_EQ(a->ended.size(), 1u);
  EXPECT_EQ(b->ended.size(), 2u);
}

TEST_F(Captures, NotifyWhatIsAttachedOfTheirEnd) {
  const Registration registered = announce(stream_);
  Capture& capture = registered.capture();
  capture.capture_ends();
  capture.attach(plain, std::make_shared<Plain>(Plain{1}));
  const std::shared_ptr<KnowsItsCapture> part = capture.get_or_attach(knows_its_capture);
  capture.capture_ends();
  EXPECT_EQ(part->ended, 1);
  capture.detach(knows_its_capture);
  capture.capture_ends();
  EXPECT_EQ(part->ended, 1);
}

// Threads.

TEST_F(Captures, OfManyThreadsAtOnceHoldTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      const Stream mine(device_);
      for (int i = 0; i < 50; ++i) {
        const OwnCapture capture(mine, CaptureMode::thread);
        capture->attach(plain, std::make_shared<Plain>(Plain{t}));
        const Found found = find(mine);
        ASSERT_EQ(found.capture.get(), &*capture);
        EXPECT_EQ(found.capture->get(plain)->value, t);
        const Stream passing(device_);
        for_each([](const Capture& each) { static_cast<void>(each.get(plain)); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(any_underway());
}

}  // namespace
}  // namespace reprise::captures
