// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "backend/backend.h"
#include "reprise/reprise.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/warnings.h"

// Guards that end on another thread than they began on.

namespace reprise {
namespace {

using reprise::test::Warnings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Runs `f` on another thread, to its end.
template <class F>
void on_another_thread(const F& f) {
  std::thread(f).join();
}

Device another_device() {
  // Devices live until the process ends.
  static auto& device = *new backend::test::FaultyBackend(default_device().backend());
  return Device(device);
}

TEST(Guards, AStreamGuardThatEndsElsewhereLeavesTheStreamOfThatThread) {
  const Warnings warnings;
  on_another_thread([&] {  // one whose current stream stays as it is
    const Stream first, theirs;
    std::optional<StreamGuard> guard(std::in_place, first);
    on_another_thread([&] {
      const StreamGuard of_thread(theirs);
      guard.reset();
      EXPECT_EQ(current_stream(), theirs.ref());
    });
    EXPECT_EQ(current_stream(), first.ref()) << "no thread but its own may restore it";
  });
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("A StreamGuard or DeviceGuard ended on another thread")));
}

TEST(Guards, ADeviceGuardThatEndsElsewhereLeavesTheDeviceOfThatThread) {
  const Warnings warnings;
  on_another_thread([&] {  // one whose current device stays as it is
    std::optional<DeviceGuard> guard(std::in_place, default_device());
    on_another_thread([&] {
      const DeviceGuard of_thread(another_device());
      guard.reset();
      EXPECT_EQ(current_device(), another_device());
    });
  });
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("A StreamGuard or DeviceGuard ended on another thread")));
}

CaptureMode mode_of_thread(const Device& device) {
  CaptureMode mode = CaptureMode::global;
  EXPECT_EQ(device.backend().thread_exchange_capture_mode(&mode), ErrorCode::success);
  CaptureMode found = mode;
  EXPECT_EQ(device.backend().thread_exchange_capture_mode(&mode), ErrorCode::success);
  return found;
}

TEST(Guards, ACaptureModeGuardThatEndsElsewhereLeavesTheModeOfThatThread) {
  const Warnings warnings;
  const Device device = default_device();
  on_another_thread([&] {  // one whose mode stays as it is
    std::optional<CaptureModeGuard> guard(std::in_place, CaptureMode::relaxed, device);
    on_another_thread([&] {
      const CaptureModeGuard of_thread(CaptureMode::thread, device);
      guard.reset();
      EXPECT_EQ(mode_of_thread(device), CaptureMode::thread);
    });
    EXPECT_EQ(mode_of_thread(device), CaptureMode::relaxed);
  });
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("A CaptureModeGuard ended on another thread")));
}

TEST(Guards, AScopeOfACaptureThatEndsElsewhereIsAbandonedAndLeavesTheStreamOfThatThread) {
  const Warnings warnings;
  on_another_thread([&] {
    CUDAGraph captured;
    Buffer<int> x(1);
    auto* const scope = new graph(captured);
    x.fill_bytes_async(0, scope->stream());
    on_another_thread([&] {
      const Stream theirs;
      const StreamGuard of_thread(theirs);
      EXPECT_THROW(delete scope, UsageError);
      EXPECT_EQ(current_stream(), theirs.ref());
    });
    EXPECT_THROW(static_cast<void>(captured.node_count()), UsageError) << "nothing was captured";
  });
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("A StreamGuard or DeviceGuard ended on another thread")));
}

TEST(Guards, StreamGuardsThatEndInAnotherOrderLeaveNoStreamCurrentThatIsGone) {
  const StreamRef before = current_stream();
  std::optional<Stream> first(std::in_place), second(std::in_place), third(std::in_place);
  std::optional<StreamGuard> of_first(std::in_place, *first), of_second(std::in_place, *second),
      of_third(std::in_place, *third);
  of_second.reset();
  second.reset();
  EXPECT_EQ(current_stream(), *third);
  of_first.reset();
  first.reset();
  EXPECT_EQ(current_stream(), *third);
  of_third.reset();
  EXPECT_EQ(current_stream(), before);
}

TEST(Guards, StreamGuardsOfTwoDevicesThatEndInAnotherOrderRestoreBoth) {
  const Device before = current_device(), other = another_device();
  const StreamRef stream_before = current_stream();
  const Stream mine, theirs(other);
  std::optional<StreamGuard> of_mine(std::in_place, mine), of_theirs(std::in_place, theirs);
  of_mine.reset();
  EXPECT_EQ(current_device(), other);
  EXPECT_EQ(current_stream(), theirs);
  EXPECT_EQ(current_stream(before), stream_before);
  of_theirs.reset();
  EXPECT_EQ(current_device(), before);
  EXPECT_TRUE(current_stream(other).is_default());
}

TEST(Guards, DeviceGuardsThatEndInAnotherOrderLeaveNoDeviceCurrentThatIsGone) {
  const Device before = current_device();
  std::optional<HostSimulator> first(std::in_place), second(std::in_place);
  std::optional<DeviceGuard> of_first(std::in_place, first->device()), of_second(std::in_place, second->device());
  of_first.reset();
  first.reset();
  EXPECT_EQ(current_device(), second->device());
  of_second.reset();
  EXPECT_EQ(current_device(), before);
}

TEST(Guards, OneAroundAGuardThatEndedElsewhereRestoresWhatWasCurrentBefore) {
  const Warnings warnings;
  on_another_thread([&] {
    const StreamRef before = current_stream();
    const Stream first, second;
    std::optional<StreamGuard> of_first(std::in_place, first), of_second(std::in_place, second);
    on_another_thread([&] { of_second.reset(); });
    of_first.reset();
    EXPECT_EQ(current_stream(), before);
  });
  EXPECT_EQ(warnings.texts().size(), 1u);
}

TEST(Guards, ThatEndOnTheirThreadGiveNoWarning) {
  const Warnings warnings;
  {
    const Stream stream;
    const DeviceGuard device(stream.device());
    const StreamGuard guard(stream);
    const CaptureModeGuard mode(CaptureMode::thread);
  }
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

}  // namespace
}  // namespace reprise
