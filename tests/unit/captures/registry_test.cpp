// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/captures/captures_fixture.h"

// Which capture a stream takes part in, and how many are underway.

namespace reprise::captures {
namespace {

using backend::Call;
using namespace std::chrono_literals;

constexpr auto long_enough = 50ms;

TEST_F(Captures, AStreamThatDoesNotCaptureTakesPartInNone) {
  const Found found = find(stream_);
  EXPECT_EQ(found.part, Part::none);
  EXPECT_EQ(found.capture, nullptr);
  EXPECT_EQ(found.info.status, CaptureStatus::none);
}

TEST_F(Captures, ACaptureOfTheLibraryIsFoundByItsStream) {
  const OwnCapture capture(stream_);
  const Found found = find(stream_);
  EXPECT_EQ(found.part, Part::own);
  EXPECT_EQ(found.capture.get(), &*capture);
  EXPECT_EQ(found.info.id, capture.id());
  EXPECT_NE(found.info.graph, nullptr);
  EXPECT_EQ(find(other_).part, Part::none);
}

TEST_F(Captures, ACaptureSaysHowItBegan) {
  const OwnCapture capture(stream_, CaptureMode::relaxed);
  EXPECT_EQ(capture->stream(), stream_.ref());
  EXPECT_EQ(capture->device(), device_);
  EXPECT_EQ(capture->mode(), CaptureMode::relaxed);
  EXPECT_EQ(capture->pool(), (MempoolId{77, 0}));
  EXPECT_EQ(capture->owner(), std::this_thread::get_id());
}

TEST_F(Captures, AStreamThatWasForkedOffTakesPartInTheSameOne) {
  const OwnCapture capture(stream_);
  other_.wait(stream_.ref());
  EXPECT_EQ(find(other_).capture.get(), &*capture);
  stream_.wait(other_.ref());
}

TEST_F(Captures, TheNumberOfOneIsThatOfItsBodiesAndForks) {
  EXPECT_EQ(find(stream_).id(), 0U);
  const OwnCapture capture(stream_);
  const RawCapture raw(other_);
  EXPECT_EQ(find(stream_).id(), capture.id());
  EXPECT_EQ(find(other_).id(), raw.id()) << "a capture of its own";
  auto body = std::make_shared<Body>(Body{.stream = other_});
  body->id = raw.id();
  capture->add_body(std::move(body));
  EXPECT_EQ(find(other_).info.id, raw.id());
  EXPECT_EQ(find(other_).id(), capture.id());
}

TEST_F(Captures, TheIdOfOneIsQueriedWhenItIsFirstNeeded) {
  const Registration registered = announce(stream_);
  const RawCapture raw(stream_);
  other_.wait(stream_.ref());
  EXPECT_FALSE(registered.capture().has_ids());
  backend_.forget_calls();
  EXPECT_EQ(find(other_).capture.get(), &registered.capture());
  EXPECT_EQ(backend_.calls(Call::stream_capture_info), 2);
  EXPECT_EQ(find(other_).part, Part::own);
  EXPECT_EQ(backend_.calls(Call::stream_capture_info), 3);
  EXPECT_TRUE(registered.capture().has_id(raw.id()));
  stream_.wait(other_.ref());
}

TEST_F(Captures, OneThatIsFoundByItsStreamHasItsIdFromThenOn) {
  const Registration registered = announce(stream_);
  const RawCapture raw(stream_);
  EXPECT_EQ(find(stream_).capture.get(), &registered.capture());
  EXPECT_TRUE(registered.capture().has_id(raw.id()));
}

TEST_F(Captures, AForeignOneBesideAnOwnOneWhoseIdIsUnknownIsForeign) {
  const Registration registered = announce(stream_);
  const RawCapture own(stream_), foreign(other_);
  EXPECT_EQ(find(other_).part, Part::foreign);
  EXPECT_EQ(find(other_).capture, nullptr);
  EXPECT_TRUE(registered.capture().has_id(own.id()));
}

TEST_F(Captures, AConditionalBodyIsPartOfItByAnIdOfItsOwn) {
  const OwnCapture capture(stream_);
  const RawCapture body(other_);
  EXPECT_EQ(find(other_).part, Part::foreign);
  capture->add_id(body.id());
  EXPECT_EQ(find(other_).part, Part::own);
  EXPECT_EQ(find(other_).capture.get(), &*capture);
  EXPECT_EQ(find(stream_).capture.get(), &*capture);
}

TEST_F(Captures, ACaptureThatTheLibraryDidNotBeginIsForeign) {
  const RawCapture capture(stream_);
  const Found found = find(stream_);
  EXPECT_EQ(found.part, Part::foreign);
  EXPECT_EQ(found.capture, nullptr);
  EXPECT_EQ(found.info.id, capture.id());
}

TEST_F(Captures, AForeignOneBesideAnOwnOneIsForeign) {
  const OwnCapture own(stream_);
  const RawCapture foreign(other_);
  EXPECT_EQ(find(other_).part, Part::foreign);
  EXPECT_EQ(find(other_).capture, nullptr);
}

TEST_F(Captures, AForeignOneOnTheStreamOfAnOwnOneThatWasEndedIsForeign) {
  const Registration registered = announce(stream_);
  registered.capture().add_id(4711);
  const RawCapture foreign(stream_);
  EXPECT_EQ(find(stream_).part, Part::foreign);
  EXPECT_EQ(find(stream_).capture, nullptr);
}

TEST_F(Captures, OneThatIsAnnouncedIsFoundByItsStreamBeforeItBegins) {
  const Registration registered = announce(stream_);
  const Found found = find(stream_);
  EXPECT_EQ(found.part, Part::none);
  EXPECT_EQ(found.capture.get(), &registered.capture());
  EXPECT_EQ(find(other_).capture, nullptr);
}

TEST_F(Captures, OneThatHasNoIdYetIsFoundByItsStream) {
  const Registration registered = announce(stream_);
  const RawCapture raw(stream_);
  EXPECT_EQ(find(stream_).part, Part::own);
  EXPECT_EQ(find(stream_).capture.get(), &registered.capture());
}

TEST_F(Captures, OneThatIsBrokenIsKnownByTheStreamThatItBeganOnAlone) {
  const Registration registered = announce(stream_);
  ASSERT_EQ(backend_.stream_begin_capture(stream_.native(), CaptureMode::global), ErrorCode::success);
  registered.capture().add_id(stream_.ref().capture_id());
  other_.wait(stream_.ref());
  EXPECT_THROW(stream_.synchronize(), BackendError);
  EXPECT_EQ(find(stream_).part, Part::invalidated);
  EXPECT_EQ(find(stream_).capture.get(), &registered.capture());
  EXPECT_EQ(find(other_).part, Part::invalidated);
  EXPECT_EQ(find(other_).capture, nullptr);
  GraphHandle graph = nullptr;
  EXPECT_EQ(backend_.stream_end_capture(stream_.native(), &graph), ErrorCode::stream_capture_invalidated);
}

TEST_F(Captures, TheLegacyDefaultStreamTakesPartInNoneAndIsNotQueried) {
  const Stream blocking(device_, StreamOptions{.blocking = true});
  const OwnCapture capture(blocking);
  backend_.forget_calls();
  EXPECT_EQ(find(device_.default_stream()).part, Part::none);
  EXPECT_EQ(find(device_.default_stream()).capture, nullptr);
  EXPECT_EQ(backend_.calls(), 0);
  EXPECT_TRUE(capture.is_whole());
}

TEST_F(Captures, TheLegacyDefaultStreamByAnotherNameTakesPartInNone) {
  const OwnCapture capture(stream_);
  backend_.fail(Call::stream_capture_info, ErrorCode::stream_capture_implicit);
  EXPECT_EQ(find(other_).part, Part::none);
  EXPECT_EQ(find(other_).capture, nullptr);
}

TEST_F(Captures, AQueryThatFailsOtherwiseThrows) {
  backend_.fail(Call::stream_capture_info, ErrorCode::launch_failure);
  EXPECT_THROW(find(stream_), BackendError);
  EXPECT_NO_THROW(find(stream_));
}

TEST_F(Captures, AQueryIsOneCallAndBreaksNoCaptureInTheStrictestMode) {
  const OwnCapture capture(stream_);
  backend_.forget_calls();
  std::thread([&] { find(stream_); }).join();
  EXPECT_EQ(backend_.calls(Call::stream_capture_info), 1);
  EXPECT_EQ(backend_.calls(), 1);
  EXPECT_TRUE(capture.is_whole());
}

TEST_F(Captures, WhileNoneIsUnderwayAnOwnOneIsLookedForWithoutACall) {
  const RawCapture foreign(stream_);
  backend_.forget_calls();
  EXPECT_EQ(find_own(stream_), nullptr);
  EXPECT_EQ(backend_.calls(), 0);
  const OwnCapture capture(other_);
  EXPECT_EQ(find_own(stream_), nullptr);
  EXPECT_EQ(find_own(other_).get(), &*capture);
}

TEST_F(Captures, AreCountedFromTheAnnouncementUntilTheyAreOver) {
  EXPECT_FALSE(any_underway());
  std::optional<Registration> first(std::in_place, stream_, options_, MempoolId{});
  std::optional<Registration> second(std::in_place, other_, options_, MempoolId{});
  first->over();
  first->over();
  EXPECT_TRUE(any_underway());
  second.reset();
  EXPECT_FALSE(any_underway());
}

TEST_F(Captures, OneThatIsOverIsFoundNoMore) {
  OwnCapture capture(stream_);
  const std::uint64_t id = capture.id();
  capture->add_id(4711);
  capture.registered().over();
  EXPECT_EQ(find(stream_).part, Part::foreign);
  EXPECT_EQ(find(stream_).capture, nullptr);
  EXPECT_FALSE(capture->has_id(id) || capture->has_id(4711));
  int registered = 0;
  for_each([&](const Capture& each) { registered += &each == &*capture; });
  EXPECT_EQ(registered, 1);
}

TEST_F(Captures, AreVisitedFromTheOldestOnAlsoWhenOneEndsMeanwhile) {
  std::optional<Registration> first(std::in_place, stream_, options_, MempoolId{1, 0});
  const Registration second(other_, options_, MempoolId{2, 0});
  const Registration third(other_, options_, MempoolId{3, 0});
  std::vector<std::uint64_t> visited;
  for_each([&](const Capture& each) {
    visited.push_back(each.pool().first);
    first.reset();
  });
  EXPECT_EQ(visited, (std::vector<std::uint64_t>{1, 2, 3}));
}

TEST_F(Captures, AGraphRegistersItsOwn) {
  CUDAGraph graph;
  GraphOptions options;
  options.capture_error_mode = CaptureMode::thread;
  std::shared_ptr<Capture> held;
  capture(graph, options, [&] {
    held = find(current_stream()).capture;
    EXPECT_TRUE(any_underway());
    void* const block = CachingAllocator::of(current_device()).allocate(512, current_stream());
    CachingAllocator::of(current_device()).deallocate(block);
    ASSERT_EQ(current_device().backend().set_async({block, 0, 1, 512}, current_stream().native()), ErrorCode::success);
  });
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(held->mode(), CaptureMode::thread);
  EXPECT_EQ(held->pool(), graph.pool());
  EXPECT_TRUE(held->is_over());
  EXPECT_FALSE(held->has_ids());
  EXPECT_FALSE(any_underway());
}

TEST_F(Captures, NoneBeginsWhileAThreadKeepsThemFromIt) {
  std::future<void> begun;
  {
    const NoneBegins none_begins;
    EXPECT_FALSE(none_begins.any_underway());
    begun = std::async(std::launch::async, [&] { announce(stream_); });
    EXPECT_EQ(begun.wait_for(long_enough), std::future_status::timeout);
    EXPECT_FALSE(none_begins.any_underway());
  }
  begun.get();
  const Registration registered = announce(stream_);
  EXPECT_TRUE(NoneBegins().any_underway());
}

TEST_F(Captures, NoneIsUnderwayWhileThatIsHeld) {
  std::future<void> begun;
  {
    const NoneUnderway none_underway;
    ASSERT_TRUE(none_underway);
    std::thread([] { EXPECT_TRUE(NoneUnderway()); }).join();
    begun = std::async(std::launch::async, [&] { announce(stream_); });
    EXPECT_EQ(begun.wait_for(long_enough), std::future_status::timeout);
    EXPECT_FALSE(any_underway());
  }
  begun.get();
  const Registration registered = announce(stream_);
  EXPECT_FALSE(NoneUnderway());
}

}  // namespace
}  // namespace reprise::captures
