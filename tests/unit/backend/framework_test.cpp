// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <thread>

#include "backend/framework.h"
#include "backend/objects/tracked_stream.h"
#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/support/scoped_framework.h"
#include "tests/unit/graph/graph_fixture.h"

// A framework that keeps the current streams and the current device itself.

namespace reprise::graphs::test {
namespace {

using reprise::test::ScopedFramework;

thread_local StreamHandle their_stream = nullptr;
thread_local int their_device = 0;

class Theirs final : public backend::Framework {
 public:
  explicit Theirs(std::string_view name = "theirs") : name_(name) {}
  std::string_view name() const noexcept override { return name_; }
  bool keeps_current(DeviceType type) const noexcept override { return type == default_device().type(); }
  StreamHandle current_stream(int /*device*/) const noexcept override { return their_stream; }
  void set_current_stream(int /*device*/, StreamHandle stream) const noexcept override { their_stream = stream; }
  int current_device() const noexcept override { return their_device; }
  void set_current_device(int device) const noexcept override { their_device = device; }
  bool owns_forever(const StreamRef& stream) const noexcept override { return forever && stream.native() == forever; }

  StreamHandle forever = nullptr;

 private:
  std::string_view name_;
};

/// Is installed until the end of the scope.
class Following {
 public:
  Following() {
    their_stream = nullptr;
    their_device = default_device().index();
    scope_.emplace(theirs_);
  }

 private:
  const Theirs theirs_;
  std::optional<ScopedFramework> scope_;
};

TEST(Framework, IsInstalledOnce) {
  const Theirs one("one"), other("other");
  EXPECT_EQ(backend::installed_framework(), nullptr);
  {
    const ScopedFramework scope(one);
    backend::install_framework(one);  // does nothing
    const std::string text = text_of<UsageError>([&] { backend::install_framework(other); });
    EXPECT_TRUE(contains(text, "found other, where one was installed before")) << text;
    EXPECT_EQ(backend::installed_framework(), &one);
  }
  EXPECT_EQ(backend::installed_framework(), nullptr);
}

TEST(Framework, HasStreamsWhoseEndNeedsNoNotification) {
  const Stream stream;
  const StreamRef foreign(default_device(), reinterpret_cast<StreamHandle>(0x1234));
  Theirs theirs;
  const ScopedFramework scope(theirs);
  EXPECT_EQ(backend::TrackedStream::find(foreign), nullptr);
  theirs.forever = foreign.native();
  EXPECT_NE(backend::TrackedStream::find(foreign), nullptr);
  backend::TrackedStream::ends(foreign);  // for the tests that follow
}

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

TEST(FrameworkCurrent, IsForgottenWhenItIsInstalledNoMore) {
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
