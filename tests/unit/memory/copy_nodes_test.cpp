// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "graph/replays.h"
#include "memory/copy_nodes.h"
#include "reprise/host_device.h"
#include "reprise/reprise.h"

// Copies of a graph whose addresses change between its replays.

namespace reprise::memory::test {
namespace {

using Values = std::vector<int>;

class Copies : public ::testing::Test {
 protected:
  static Buffer<int> of(int value, std::size_t count = 100) {
    const Values values(count, value);
    return Buffer<int>(std::span<const int>(values));
  }
  static Values read(const Buffer<int>& buffer) {
    Values values(buffer.size());
    buffer.read_async(values);
    current_stream().synchronize();
    return values;
  }
  static Values all(int value, std::size_t count = 100) { return Values(count, value); }

  void record(std::size_t count) {
    capture(graph_, [&] { nodes_.capture(current_stream(), count); });
  }
  void set(std::size_t copy, const Buffer<int>& to, const Buffer<int>& from) {
    nodes_.set(copy, {to.data(), from.data(), from.size_bytes()});
  }
  void replay() {
    EXPECT_EQ(graphs::replay_changed(graph_, stream_, [&](GraphExecHandle exec) { nodes_.update(exec); }), nullptr);
  }
  /// How many kernel nodes the next replay changes.
  int changes() {
    for (std::uint64_t nth = 1;; ++nth) {
      const InjectedFailure failure({.call = "cuGraphExecNodeSetParams", .nth = nth});
      try {
        replay();
      } catch (const BackendError&) {
      }
      if (!failure.happened()) return static_cast<int>(nth) - 1;
    }
  }

  Stream stream_;
  StreamGuard guard_{stream_};
  CopyNodes nodes_;
  CUDAGraph graph_;
};

TEST_F(Copies, DoNothingAsTheyWereCaptured) {
  record(3);
  replay();
  stream_.synchronize();
  EXPECT_EQ(graph_.node_count(), 1U);
}

TEST_F(Copies, ComeFromAndGoToOtherMemoryAtEachReplay) {
  record(2);
  const Buffer<int> a = of(1), b = of(2, 5000), c = of(0);
  Buffer<int> d = of(0, 5000);
  set(0, c, a);
  set(1, d, b);
  replay();
  EXPECT_EQ(read(c), all(1));
  EXPECT_EQ(read(d), all(2, 5000));
  const Buffer<int> e = of(3), f = of(0);
  set(0, f, e);
  nodes_.set(1, {});
  d.fill_bytes_async(0);
  replay();
  EXPECT_EQ(read(f), all(3));
  EXPECT_EQ(read(c), all(1));
  EXPECT_EQ(read(d), all(0, 5000)) << "of no bytes";
}

TEST_F(Copies, AreAsManyAsOneLikes) {
  constexpr std::size_t count = 2 * batch_ops_per_kernel + 7;
  record(count);
  EXPECT_EQ(graph_.node_count(), 3U);
  Values values(count);
  std::iota(values.begin(), values.end(), 1);
  const Buffer<int> from{std::span<const int>(values)}, to = of(0, count);
  for (std::size_t i = 0; i < count; ++i) nodes_.set(i, {to.data() + i, from.data() + i, sizeof(int)});
  replay();
  EXPECT_EQ(read(to), values);
}

TEST_F(Copies, AreToldOfNodesThatHaveChangedOnly) {
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "calls of the simulated device are counted";
  record(batch_ops_per_kernel + 1);
  const Buffer<int> a = of(1), b = of(2), c = of(0);
  EXPECT_EQ(changes(), 0);
  set(0, c, a);
  EXPECT_EQ(changes(), 1);
  set(0, c, a);
  EXPECT_EQ(changes(), 0);
  set(0, c, b);
  set(batch_ops_per_kernel, c, a);
  EXPECT_EQ(changes(), 2);
  set(0, c, a);
  set(0, c, b);
  nodes_.set(1, {});
  EXPECT_EQ(changes(), 1) << "there and back is a change";
}

TEST_F(Copies, ThatCouldNotBeToldAreToldByTheNextReplay) {
  if (current_device().type() != DeviceType::host) GTEST_SKIP() << "calls of the simulated device are made to fail";
  record(batch_ops_per_kernel + 1);
  const Buffer<int> a = of(1), b = of(2), c = of(0), d = of(0);
  set(0, c, a);
  set(batch_ops_per_kernel, d, b);
  for (std::uint64_t nth = 1; nth <= 2; ++nth) {
    const InjectedFailure failure({.call = "cuGraphExecNodeSetParams", .nth = nth});
    if (nth == 2) nodes_.set(0, {d.data(), a.data(), 4}), set(0, c, a);
    EXPECT_THROW(replay(), BackendError);
  }
  EXPECT_EQ(read(c), all(0)) << "nothing was launched";
  replay();
  EXPECT_EQ(read(c), all(1));
  EXPECT_EQ(read(d), all(2));
}

TEST_F(Copies, OfSeveralThreadsDoNotMix) {
  record(1);
  const auto work = [&](int value) {
    const Stream stream;
    const Buffer<int> from = of(value);
    stream_.synchronize();
    for (int i = 0; i < 50; ++i) {
      const Buffer<int> to(100, stream);
      const StreamGuard guard(stream);
      static_cast<void>(graphs::replay_changed(graph_, stream, [&](GraphExecHandle exec) {
        nodes_.set(0, {to.data(), from.data(), from.size_bytes()});
        nodes_.update(exec);
      }));
      ASSERT_EQ(read(to), all(value));
    }
  };
  stream_.synchronize();
  std::thread other([&] {
    const StreamGuard guard(stream_);
    work(1);
  });
  work(2);
  other.join();
}

}  // namespace
}  // namespace reprise::memory::test
