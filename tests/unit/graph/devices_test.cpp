// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// Captures that take work on two devices of one kind. REPRISE_HOST_DEVICES=2 gives two simulated ones.

namespace reprise::graphs::test {
namespace {

constexpr std::size_t large = std::size_t{1} << 22;  // values: more than a small segment holds

class TwoDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    other_ = second_device();
    if (!other_.has_value()) GTEST_SKIP() << "there is no second device like " << default_device().str();
    other_stream_.emplace(*other_);
    settle_memory();
    const StreamGuard guard(*other_stream_);
    settle_memory();
    y_ = zeros();
  }

  CachingAllocator& allocator() { return CachingAllocator::of(*other_); }
  std::uint64_t reserved(MempoolId pool) { return allocator().statistics(pool).reserved_bytes; }

  /// The other device's stream works for the capture of the current stream while `body` runs.
  template <class F>
  void fork_and_join(F&& body) {
    const StreamRef here = current_stream();
    other_stream_->wait(here);
    {
      const StreamGuard guard(*other_stream_);
      body();
    }
    here.wait(*other_stream_);
  }
  /// After the work of the current stream.
  int first_of_other() {
    current_stream().synchronize();
    const StreamGuard guard(*other_stream_);
    return first(y_);
  }

  std::optional<Device> other_;
  std::optional<Stream> other_stream_;
  Buffer<int> x_ = zeros();  // of the default device
  Buffer<int> y_;            // of the other one
};

TEST_F(TwoDevices, OneCaptureTakesWorkOfBothWhenTheStreamsAreJoined) {
  CUDAGraph graph;
  capture(graph, [&] {
    add(x_);
    fork_and_join([&] { add(y_, 10); });
    add(x_);
  });
  EXPECT_EQ(graph.device(), default_device());
  EXPECT_EQ(graph.node_count(), 3U);
  for (int i = 0; i < 3; ++i) graph.replay();
  EXPECT_EQ(first(x_), 6);
  EXPECT_EQ(first_of_other(), 30);
}

TEST_F(TwoDevices, ObjectsKnowTheirDevice) {
  EXPECT_EQ(x_.device(), default_device());
  EXPECT_EQ(y_.device(), *other_);
  EXPECT_EQ(other_stream_->device(), *other_);
  EXPECT_EQ(Event(*other_).device(), *other_);
  const DeviceGuard guard(*other_);
  EXPECT_EQ(current_stream().device(), *other_);
  EXPECT_EQ(Buffer<int>(1).device(), *other_);
}

TEST_F(TwoDevices, ACopyBetweenThemIsANode) {
  CUDAGraph graph;
  capture(graph, [&] {
    add(x_, 5);
    copy_async(y_.data(), x_.data(), sizeof(int));
  });
  graph.replay();
  graph.replay();
  EXPECT_EQ(first(x_), 10);
  EXPECT_EQ(first_of_other(), 10);
}

TEST_F(TwoDevices, NodesOfBothChange) {
  CUDAGraph graph(KeepGraph::yes);
  capture(graph, {.enable_annotations = true}, [&] {
    x_.fill_bytes_async(1);
    fork_and_join([&] {
      const annotate scope("set");
      y_.fill_bytes_async(1);
    });
  });
  graph.replay();
  ASSERT_EQ(first_of_other(), 0x01010101);
  const GraphNode set = graph.node("set");
  const auto value_after_replay = [&] {
    graph.replay();
    return first_of_other();
  };
  MemsetNodeParams params = set.memset_params();
  params.value = 2;
  set.set_params(params);
  EXPECT_EQ(value_after_replay(), 0x02020202);
  params.value = 3;
  set.set_params(params);
  EXPECT_EQ(value_after_replay(), 0x03030303);
  graph.instantiate();
  EXPECT_EQ(value_after_replay(), 0x03030303) << "the template has it, too";
}

TEST_F(TwoDevices, AnUpdateLeavesMemoryWhereItIs) {
  const auto set_other = [&] { fork_and_join([&] { y_.fill_bytes_async(1); }); };
  CUDAGraph graph, other;
  capture(graph, [&] { x_.fill_bytes_async(1); });
  capture(other, set_other);
  try {
    graph.update(other);
    FAIL() << "an update to the other device";
  } catch (const GraphUpdateError& error) {
    ASSERT_FALSE(error.differences().empty()) << error.what();
    EXPECT_EQ(error.differences()[0].field, "destination") << error.what();
  }
  graph.replay();
  EXPECT_EQ(first(x_), 0x01010101) << "as before";
  EXPECT_EQ(first_of_other(), 0);
  const Recapture again = graph.recapture(set_other);
  EXPECT_FALSE(again.in_place) << "a new executable";
  EXPECT_FALSE(again.differences.empty());
  graph.replay();
  EXPECT_EQ(first_of_other(), 0x01010101);
}

TEST_F(TwoDevices, AnUpdateLeavesKernelsWhereTheyAre) {
  if (default_device().type() == DeviceType::host)
    GTEST_SKIP() << "all host devices have the same functions, so that the kernel stays on its device";
  const auto on_other = [&] { fork_and_join([&] { add(y_); }); };
  CUDAGraph graph, other;
  capture(graph, [&] { add(x_); });
  capture(other, on_other);
  try {
    graph.update(other);
    FAIL() << "an update to the other device";
  } catch (const GraphUpdateError& error) {
    EXPECT_EQ(error.result(), UpdateResult::unsupported_function_change) << error.what();
  }
  graph.replay();
  EXPECT_EQ(first(x_), 1) << "as before";
  EXPECT_FALSE(graph.recapture(on_other).in_place) << "a new executable";
  graph.replay();
  EXPECT_EQ(first_of_other(), 1);
}

TEST_F(TwoDevices, WhatIsAllocatedForAJoinedStreamComesFromThePoolOnItsDevice) {
  CUDAGraph graph;
  const std::uint64_t eager = reserved(MempoolId{});
  capture(graph, [&] {
    add(x_);
    fork_and_join([&] {
      Buffer<int> scratch(large);
      multiply(y_, 1, scratch);
      add(y_);
    });
  });
  EXPECT_GE(reserved(graph.pool()), large * sizeof(int));
  EXPECT_EQ(reserved(MempoolId{}), eager);
  allocator().empty_cache();
  EXPECT_GE(reserved(graph.pool()), large * sizeof(int)) << "the graph still needs it";
  const MempoolId pool = graph.pool();
  graph.replay();
  EXPECT_EQ(first_of_other(), 1);
  graph.reset();
  EXPECT_TRUE(eventually([&] { return reserved(pool) == 0; }));
}

TEST_F(TwoDevices, AllocationsOfAnotherThreadForTheJoinedStreamComeFromThePoolToo) {
  CUDAGraph graph;
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  std::optional<Buffer<int>> made;
  capture(graph, options, [&] {
    add(x_);
    fork_and_join([&] {
      std::thread([&] { made.emplace(large, *other_stream_); }).join();
      made->fill_bytes_async(0);
    });
  });
  EXPECT_GE(reserved(graph.pool()), large * sizeof(int));
}

TEST_F(TwoDevices, ThreadsThatAllocateFirstForTheJoinedStreamOpenThePoolOnce) {
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  for (int round = 0; round < 20; ++round) {
    CUDAGraph graph;
    std::vector<Buffer<int>> made(4);
    capture(graph, options, [&] {
      add(x_);
      fork_and_join([&] {
        reprise::test::Meeting meeting(4, reprise::test::by_steps_too);
        std::vector<std::thread> threads;
        for (Buffer<int>& buffer : made)
          threads.emplace_back([&] {
            meeting.meet();
            buffer = Buffer<int>(16, *other_stream_);
          });
        for (std::thread& thread : threads) thread.join();
        made[0].fill_bytes_async(0);
      });
    });
    const MempoolId pool = graph.pool();
    EXPECT_EQ(allocator().statistics(pool).allocations, 4U);
    made.clear();
    graph.reset();
    ASSERT_TRUE(eventually([&] { return reserved(pool) == 0; })) << "the pool was opened more often than closed";
  }
}

TEST_F(TwoDevices, EagerWorkOfTheOtherDeviceIsLeftAlone) {
  CUDAGraph graph;
  const Stream aside(*other_);
  const std::uint64_t before = reserved(MempoolId{});
  capture(graph, [&] {
    add(x_);
    const Buffer<int> eager(large, aside);
    EXPECT_GE(reserved(MempoolId{}), before + large * sizeof(int));
  });
  EXPECT_EQ(reserved(graph.pool()), 0U);
}

TEST_F(TwoDevices, AFailedCaptureGivesThePoolsOfBothBack) {
  const std::uint64_t before = allocator().statistics().reserved_bytes;
  GraphOptions options;
  options.pool = graph_pool_handle();
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, options,
                       [&] {
                         add(x_);
                         fork_and_join([&] { Buffer<int>(large).fill_bytes_async(0); });
                         throw std::runtime_error("the body failed");
                       }),
               std::runtime_error);
  EXPECT_EQ(reserved(options.pool), 0U);
  EXPECT_EQ(allocator().statistics().reserved_bytes, before);
  capture(graph, options, [&] { fork_and_join([&] { add(y_); }); });
  graph.replay();
  EXPECT_EQ(first_of_other(), 1);
}

TEST_F(TwoDevices, OnePoolIdServesOneCaptureOnEachDevice) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  options.capture_error_mode = CaptureMode::relaxed;
  CUDAGraph here, there;
  std::optional<Buffer<int>> kept_here, kept_there;
  graph scope_here(here, options);
  {
    const DeviceGuard device(*other_);
    graph scope_there(there, options);
    kept_there.emplace(large);
    kept_there->fill_bytes_async(1);
  }
  kept_here.emplace(large);
  kept_here->fill_bytes_async(1);
  scope_here.end();
  EXPECT_EQ(here.device(), default_device());
  EXPECT_EQ(there.device(), *other_);
  EXPECT_GE(reserved(options.pool), large * sizeof(int));
}

TEST_F(TwoDevices, APoolThatACaptureFillsOnTheOtherDeviceIsRefusedThere) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  options.capture_error_mode = CaptureMode::relaxed;
  CUDAGraph here, there;
  {
    const DeviceGuard device(*other_);
    graph scope_there(there, options);
    y_.fill_bytes_async(2);
    {
      const DeviceGuard back(default_device());
      EXPECT_TRUE(contains(text_of<UsageError>([&] {
                             capture(here, options, [&] {
                               add(x_);
                               fork_and_join([&] { Buffer<int>{large}; });
                             });
                           }),
                           "another capture is filling"));
    }
  }
  capture(here, options, [&] { fork_and_join([&] { Buffer<int>(large).fill_bytes_async(0); }); });
  here.replay();
  current_stream().synchronize();
}

TEST_F(TwoDevices, AGraphIsNotReplayedOnAStreamOfTheOtherDevice) {
  CUDAGraph graph;
  capture_increment(graph, x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(*other_stream_); }), other_->str()));
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(TwoDevices, ScopesNameWorkOnBoth) {
  GraphOptions options;
  options.enable_annotations = true;
  CUDAGraph graph;
  capture(graph, options, [&] {
    const annotate outer("outer");
    add(x_);
    fork_and_join([&] {
      add(y_);
      const annotate inner("inner");  // entered where the other device is current
      add(y_);
    });
    add(x_);
  });
  std::vector<std::string> names;
  for (const AnnotatedNode& each : graph.annotations()) names.push_back(each.annotation.at("name"));
  EXPECT_EQ(names, (std::vector<std::string>{"outer", "outer", "inner", "outer"}));
}

TEST_F(TwoDevices, ReplaysOnBothDevicesRunSideBySide) {
  CUDAGraph here, there;
  capture_increment(here, x_);
  {
    const StreamGuard guard(*other_stream_);
    capture_increment(there, y_);
    for (int i = 0; i < 5; ++i) there.replay();
  }
  for (int i = 0; i < 5; ++i) here.replay();
  EXPECT_EQ(first(x_), 5);
  EXPECT_EQ(first_of_other(), 5);
}

}  // namespace
}  // namespace reprise::graphs::test
