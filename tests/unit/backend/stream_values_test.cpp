// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "reprise/error.h"
#include "reprise/event.h"
#include "reprise/stream.h"

// Owners and views as values: what converts to what, what is equal, what a move leaves.

namespace reprise {
namespace {

TEST(StreamValues, OwnersMoveAndViewsCopy) {
  static_assert(!std::is_copy_constructible_v<Stream> && !std::is_copy_assignable_v<Stream>);
  static_assert(std::is_nothrow_move_constructible_v<Stream> && std::is_nothrow_move_assignable_v<Stream>);
  static_assert(!std::is_copy_constructible_v<Event> && std::is_nothrow_move_constructible_v<Event>);
  static_assert(std::is_trivially_copyable_v<StreamRef> && std::is_trivially_copyable_v<EventRef>);
  static_assert(!std::is_move_constructible_v<StreamGuard> && !std::is_move_constructible_v<DeviceGuard>);
}

TEST(StreamValues, AnOwnerConvertsToAViewButAViewToNoOwner) {
  static_assert(std::is_convertible_v<const Stream&, StreamRef>);
  static_assert(std::is_convertible_v<const Event&, EventRef>);
  static_assert(!std::is_constructible_v<Stream, StreamRef>);
  static_assert(!std::is_constructible_v<Event, EventRef>);
}

TEST(StreamValues, NumbersAreNoHandles) {
  static_assert(!std::is_constructible_v<StreamRef, Device, int>);
  static_assert(!std::is_constructible_v<EventRef, Device, int>);
  static_assert(std::is_constructible_v<StreamRef, Device, std::nullptr_t>, "null is the legacy default stream");
  static_assert(!std::is_convertible_v<Device, Stream>, "a stream is never made by accident");
}

TEST(StreamValues, TwoViewsOfOneStreamAreEqual) {
  const Device device = Device::parse("host");
  const Stream stream(device);
  const Stream other(device);
  EXPECT_EQ(stream.ref(), StreamRef(device, stream.native()));
  EXPECT_NE(stream.ref(), other.ref());
  EXPECT_NE(stream.ref(), device.default_stream());
  EXPECT_EQ(device.default_stream(), StreamRef(device, nullptr));
}

TEST(StreamValues, TheDefaultStreamKnowsThatItIs) {
  const Device device = Device::parse("host");
  const Stream stream(device);
  EXPECT_TRUE(device.default_stream().is_default());
  EXPECT_FALSE(stream.ref().is_default());
  EXPECT_EQ(device.default_stream().device(), device);
  EXPECT_EQ(stream.device(), device);
}

TEST(StreamValues, TheTwoHandlesOfTheDefaultStreamAreOneStream) {
  const Device device = Device::parse("host");
  const StreamRef by_its_other_handle(device, reinterpret_cast<StreamHandle>(std::uintptr_t{1}));
  EXPECT_TRUE(by_its_other_handle.is_default());
  EXPECT_EQ(by_its_other_handle, device.default_stream());
  EXPECT_EQ(by_its_other_handle.native(), nullptr);
}

TEST(StreamValues, AMovedFromStreamCanBeAssignedTo) {
  const Device device = Device::parse("host");
  Stream first(device);
  StreamHandle handle = first.native();
  Stream second = std::move(first);
  EXPECT_EQ(second.native(), handle);
  first = Stream(device);  // NOLINT(bugprone-use-after-move): this is what is allowed
  EXPECT_TRUE(first.query());
  second = std::move(first);
  EXPECT_TRUE(second.query());
}

TEST(StreamValues, AMovedFromEventCanBeAssignedTo) {
  const Device device = Device::parse("host");
  const Stream stream(device);
  Event first(device);
  EventHandle handle = first.native();
  Event second = std::move(first);
  EXPECT_EQ(second.native(), handle);
  first = Event(device);  // NOLINT(bugprone-use-after-move): this is what is allowed
  first.record(stream);
  first.synchronize();
  EXPECT_TRUE(first.query());
}

/// What a use of a moved-from object throws.
auto refuses_moved_from(const std::string& name) {
  return ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("expected " + name + " that was not moved from"));
}

TEST(StreamValues, AMovedFromStreamIsNotTheDefaultStream) {
  const Device device = Device::parse("host");
  Stream gone(device);
  const Stream stream = std::move(gone);
  const Event event(device);
  EXPECT_EQ(gone.device(), device);  // NOLINT(bugprone-use-after-move): that is the test, so below
  EXPECT_THAT([&] { (void)gone.ref(); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { (void)gone.native(); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { (void)StreamRef(gone); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { (void)StreamGuard(gone); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { gone.synchronize(); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { (void)gone.query(); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { gone.wait(event); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { gone.wait(stream); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { stream.wait(gone); }, refuses_moved_from("a stream"));
  EXPECT_THAT([&] { (void)gone.capture_status(); }, refuses_moved_from("a stream"));
}

TEST(StreamValues, AMovedFromEventIsRefusedWhereItIsUsed) {
  const Device device = Device::parse("host");
  const Stream stream(device);
  Event gone(device);
  const Event event = std::move(gone);
  event.record(stream);
  EXPECT_EQ(gone.device(), device);  // NOLINT(bugprone-use-after-move): that is the test, so below
  EXPECT_THAT([&] { (void)gone.ref(); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { (void)gone.native(); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { gone.record(stream); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { gone.wait(stream); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { stream.wait(gone); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { gone.synchronize(); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { (void)gone.query(); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { (void)elapsed_ms(gone, event); }, refuses_moved_from("an event"));
  EXPECT_THAT([&] { (void)elapsed_ms(event, gone); }, refuses_moved_from("an event"));
  stream.synchronize();
}

TEST(DeviceValues, AreEqualIfTheyAreTheSameDevice) {
  EXPECT_EQ(Device::parse("host"), Device::parse("host:0"));
  EXPECT_EQ(Device::parse("host").str(), "host:0");
  EXPECT_EQ(Device::parse("host").type(), DeviceType::host);
  EXPECT_EQ(Device::parse("host").index(), 0);
  EXPECT_EQ(Device::parse("host").name(), "simulated host device");
}

}  // namespace
}  // namespace reprise
