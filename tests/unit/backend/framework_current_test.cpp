// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "backend/current.h"
#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/unit/graph/graph_fixture.h"

// A framework that keeps the current streams and the current device itself.

namespace reprise::graphs::test {
namespace {

thread_local StreamHandle their_stream = nullptr;
thread_local int their_device = 0;

StreamHandle stream_of_framework(int /*device*/) noexcept {
  return their_stream;
}
void set_stream_of_framework(int /*device*/, StreamHandle stream) noexcept {
  their_stream = stream;
}
int device_of_framework() noexcept {
  return their_device;
}
void set_device_of_framework(int device) noexcept {
  their_device = device;
}

/// Follows it until the end of the scope.
class Following {
 public:
  Following()
      : functions_{default_device().type(), &stream_of_framework, &set_stream_of_framework, &device_of_framework,
                   &set_device_of_framework} {
    their_stream = nullptr;
    their_device = default_device().index();
    before_ = backend::follow(&functions_);
  }
  ~Following() { backend::follow(before_); }
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;

 private:
  backend::FrameworkCurrent functions_;
  const backend::FrameworkCurrent* before_;
};

TEST(FrameworkCurrent, IsWhatGuardsSetAndReadAndRestore) {
  const Following following;
  const Stream theirs, ours;
  their_stream = theirs.native();
  EXPECT_EQ(current_stream(), theirs.ref());
  {
    const StreamGuard guard(ours);
    EXPECT_EQ(their_stream, ours.native());
    EXPECT_EQ(backend::exchange_current_stream(default_device().default_stream()), ours.ref());
    EXPECT_EQ(their_stream, nullptr);
  }
  EXPECT_EQ(their_stream, theirs.native());
}

TEST(FrameworkCurrent, GetsTheStreamThatAGuardHadMadeCurrentBefore) {
  const Stream stream;
  const StreamGuard guard(stream);
  const Following following;
  EXPECT_EQ(their_stream, stream.native());
  EXPECT_EQ(current_stream(), stream.ref());
}

TEST(FrameworkCurrent, GetsTheStreamsOfOtherThreadsWhenTheyNextAsk) {
  const Stream stream;
  std::optional<Following> following;
  std::thread([&] {
    const StreamGuard guard(stream);
    std::thread([&] { following.emplace(); }).join();
    their_stream = nullptr;
    EXPECT_EQ(current_stream(), stream.ref());
    EXPECT_EQ(their_stream, stream.native());
  }).join();
}

TEST(FrameworkCurrent, IsTheStreamOfTheCapturesOfAScope) {
  const Following following;
  Buffer<int> x = zeros();
  CUDAGraph graph;
  {
    const class graph scope(graph);
    EXPECT_EQ(their_stream, scope.stream().native());
    add(x);
  }
  EXPECT_EQ(their_stream, nullptr);
  graph.replay();
  EXPECT_EQ(first(x), 1);
}

TEST(FrameworkCurrent, IsForgottenWhenNobodyFollowsIt) {
  const Stream stream;
  {
    const Following following;
    their_stream = stream.native();
  }
  EXPECT_TRUE(current_stream().is_default());
}

TEST(FrameworkCurrent, DeviceIsWhatGuardsSetAndReadAndRestore) {
  const std::optional<Device> second = second_device();
  if (!second) GTEST_SKIP() << "there is one device here";
  const Device one = default_device();
  const Following following;
  {
    const DeviceGuard guard(*second);
    EXPECT_EQ(their_device, second->index());
    their_device = one.index();
    EXPECT_EQ(current_device(), one);
  }
  EXPECT_EQ(their_device, one.index());
  {
    const Stream stream(*second);
    const StreamGuard guard(stream);
    EXPECT_EQ(their_device, second->index());
    EXPECT_EQ(current_stream(), stream.ref());
  }
  EXPECT_EQ(their_device, one.index());
  their_device = second->index();
  EXPECT_EQ(current_device(), *second);
}

TEST(FrameworkCurrent, DeviceIsTheOneOfTheGuardThatWasThereBefore) {
  const std::optional<Device> second = second_device();
  if (!second) GTEST_SKIP() << "there is one device here";
  const DeviceGuard guard(*second);
  const Following following;
  EXPECT_EQ(their_device, second->index());
}

}  // namespace
}  // namespace reprise::graphs::test
