// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include "backend/check.h"
#include "captures/registry.h"
#include "reprise/reprise.h"
#include "tests/support/gate.h"

// Memory of allocate_async(), outside of captures and in them.

namespace reprise::stream_ordered_test {
namespace {

using reprise::test::Gate;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct SetTo {
  REPRISE_KERNEL void operator()(Thread, int* x, int value) const { *x = value; }
};
struct AddTo {
  REPRISE_KERNEL void operator()(Thread, int* x, int value) const { *x += value; }
};

class StreamOrderedMemory : public ::testing::Test {
 protected:
  HostSimulator simulator_{{.memory_bytes = std::size_t{256} << 20}};
  DeviceGuard device_guard_{simulator_.device()};
  Stream stream_;
  StreamGuard guard_{stream_};

  int* allocate(std::size_t bytes = 4096) { return static_cast<int*>(allocate_async(bytes)); }
  int value_at(const int* memory) {
    int value = 0;
    copy_async(&value, memory, sizeof value);
    stream_.synchronize();
    return value;
  }
  /// Releases what graphs that have ended held, until as much is free.
  bool comes_back(std::size_t free) {
    const auto end = std::chrono::steady_clock::now() + reprise::test::patience;
    do {
      release_finished_graphs();
      simulator_.device().synchronize();
      if (simulator_.device().memory_info().free == free) return true;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }
  std::size_t free_bytes() {
    stream_.synchronize();
    return simulator_.device().memory_info().free;
  }
  /// The text of the error that `body` must throw.
  template <class E, class F>
  static std::string text_of(F&& body) {
    try {
      body();
    } catch (const E& error) {
      return error.what();
    }
    ADD_FAILURE() << "no such error";
    return {};
  }
};

TEST_F(StreamOrderedMemory, IsUsedByTheWorkThatFollowsAndFreedAfterIt) {
  const std::size_t before = free_bytes();
  for (int i = 0; i < 10; ++i) {
    int* const memory = allocate();
    launch(LaunchConfig{}, SetTo{}, memory, i);
    EXPECT_EQ(value_at(memory), i);
    free_async(memory);
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(StreamOrderedMemory, OfNoBytesIsNullWhichIsFreedByDoingNothing) {
  EXPECT_EQ(allocate_async(0), nullptr);
  free_async(nullptr);
  CUDAGraph graph;
  graph.capture_begin();
  free_async(allocate_async(0));
  launch(LaunchConfig{}, SetTo{}, allocate(), 1);
  graph.capture_end();
  EXPECT_EQ(graph.node_count(), 2U);
}

TEST_F(StreamOrderedMemory, ThatTheDeviceDoesNotHaveIsOutOfMemoryWithNumbers) {
  const std::string text = text_of<OutOfMemoryError>([] { (void)allocate_async(std::size_t{1} << 40); });
  EXPECT_THAT(text, AllOf(HasSubstr("allocate_async: out of memory"), HasSubstr("1099511627776 bytes were requested")));
  free_async(allocate());
}

constexpr std::size_t most = std::size_t{200} << 20;  // of the 256 MiB that the devices of these tests have

TEST_F(StreamOrderedMemory, IsWaitedForWhereItsFreeIsPending) {
  test::Gate gate(reprise::test::by_steps_too);
  void* const first = allocate_async(most);
  launch_host([&] { gate.stand(); });
  free_async(first);
  std::jthread opener([&] {
    gate.wait_until_reached();
    gate.open();
  });
  const Stream other;
  void* const second = allocate_async(most, other);
  EXPECT_TRUE(gate.is_open());
  free_async(second, other);
  for (int i = 0; i < 100; ++i) free_async(allocate_async(most));
  opener.join();
  stream_.synchronize();
}

/// Work runs while the host waits, and only then. The runtime's call itself: the library queries the device when it
/// fails.
class PendingFrees : public ::testing::Test {
 protected:
  HostSimulator simulator_{{.memory_bytes = std::size_t{256} << 20, .scheduler_seed = 1}};
  DeviceGuard device_guard_{simulator_.device()};
  Stream stream_, other_;

  backend::Result allocate(void** memory, std::size_t bytes, const Stream& stream) {
    return simulator_.device().backend().memory_allocate_async(memory, bytes, stream.native());
  }
};

TEST_F(PendingFrees, AreWaitedForUntilThereIsEnough) {
  constexpr std::size_t quarter = std::size_t{64} << 20;
  void* blocks[4];
  for (void*& block : blocks) block = allocate_async(quarter, stream_);
  int freed = 0;
  for (void* const block : blocks) {
    free_async(block, stream_);
    launch_host(stream_, [&] { ++freed; });
  }
  void *block = nullptr, *none = nullptr;
  EXPECT_EQ(allocate(&block, 2 * quarter, other_), ErrorCode::success);
  EXPECT_EQ(freed, 1);  // what follows the free of the second block has not run
  EXPECT_EQ(allocate(&none, most, other_), ErrorCode::out_of_memory);
  EXPECT_EQ(freed, 3);  // all frees have run
  free_async(block, other_);
  stream_.synchronize();
}

TEST_F(PendingFrees, AreNotWaitedForByWhatTheDeviceCanNeverHave) {
  bool ran = false;
  void* const block = allocate_async(most, stream_);
  launch_host(stream_, [&] { ran = true; });
  free_async(block, stream_);
  void* none = nullptr;
  EXPECT_EQ(allocate(&none, std::size_t{1} << 40, stream_), ErrorCode::out_of_memory);
  EXPECT_FALSE(ran);
  stream_.synchronize();
}

TEST_F(PendingFrees, AreNotWaitedForByNodesOfACapture) {
  bool ran = false;
  void* const block = allocate_async(most, stream_);
  launch_host(stream_, [&] { ran = true; });
  free_async(block, stream_);
  const backend::Checked runtime(simulator_.device().backend());
  GraphHandle graph = nullptr;
  void* captured = nullptr;
  runtime.stream_begin_capture(other_.native(), CaptureMode::relaxed);
  runtime.memory_allocate_async(&captured, most, other_.native());
  runtime.memory_free_async(captured, other_.native());
  runtime.stream_end_capture(other_.native(), &graph);
  EXPECT_FALSE(ran);
  runtime.graph_destroy(graph);
  stream_.synchronize();
  EXPECT_TRUE(ran);
}

TEST_F(PendingFrees, AreNotWaitedForWhereAnotherThreadRunsAnOperation) {
  test::Gate gate(reprise::test::by_steps_too);
  void* const block = allocate_async(most, stream_);
  launch_host(stream_, [&] { gate.stand(); });
  free_async(block, stream_);
  std::jthread waiter([&] { stream_.synchronize(); });
  EXPECT_TRUE(gate.wait_until_reached());
  void* none = nullptr;
  EXPECT_EQ(allocate(&none, most, other_), ErrorCode::out_of_memory);
  gate.open();
  waiter.join();
  free_async(allocate_async(most, other_), other_);
}

TEST_F(StreamOrderedMemory, TakesWhatTheCachingAllocatorHasCached) {
  { const Buffer<char> large(std::size_t{200} << 20); }
  void* const memory = allocate_async(std::size_t{200} << 20);
  EXPECT_NE(memory, nullptr);
  free_async(memory);
}

TEST_F(StreamOrderedMemory, IsAllocatedAndFreedByNodesInACapture) {
  Buffer<int> result(1);
  CUDAGraph graph;
  capture(graph, [&] {
    int* const memory = allocate();
    launch(LaunchConfig{}, SetTo{}, memory, 5);
    launch(LaunchConfig{}, AddTo{}, memory, 2);
    copy_async(result.data(), memory, sizeof(int));
    free_async(memory);
  });
  EXPECT_EQ(graph.node_count(), 5U);
  for (int i = 0; i < 3; ++i) {
    result.write(std::vector<int>{0});
    graph.replay();
    EXPECT_EQ(result.read()[0], 7);
  }
}

TEST_F(StreamOrderedMemory, ThatAReplayLeftIsUsedAfterItAndFreedByTheNextReplay) {
  int* memory = nullptr;
  CUDAGraph graph;
  capture(graph, [&] {
    memory = allocate();
    launch(LaunchConfig{}, SetTo{}, memory, 5);
  });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    launch(LaunchConfig{}, AddTo{}, memory, i);
    EXPECT_EQ(value_at(memory), 5 + i);
  }
  free_async(memory);
  graph.replay();
  graph.reset();
  EXPECT_EQ(value_at(memory), 5) << "it outlives the graph";
  free_async(memory);
}

constexpr std::size_t large = std::size_t{30} << 20;

GraphOptions without_auto_free() {
  GraphOptions options;
  options.instantiate_flags = InstantiateFlags::none;
  return options;
}

TEST_F(StreamOrderedMemory, ThatReplaysLeftIsFreedWithTheirGraph) {
  const std::size_t before = free_bytes();
  for (const KeepGraph keep : {KeepGraph::no, KeepGraph::yes})
    for (int i = 0; i < 10; ++i) {
      {
        CUDAGraph graph(keep);
        capture(graph, [&] { fill_async(allocate(large), 1, large); });
        graph.replay();
        graph.replay();
        EXPECT_EQ(graph.memory().left_bytes, large);
        EXPECT_EQ(graph_memory().left_bytes, large);
      }
      EXPECT_TRUE(comes_back(before));
    }
  EXPECT_EQ(graph_memory().left_bytes, 0U);
  EXPECT_EQ(graph_memory().left_by_ended_bytes, 0U);
}

TEST_F(StreamOrderedMemory, ThatARunningReplayLeavesIsFreedAfterIt) {
  const std::size_t before = free_bytes();
  Gate gate(reprise::test::by_steps_too);
  {
    CUDAGraph graph = capture([&] { fill_async(allocate(large), 1, large); });
    backend::Checked(simulator_.device().backend()).launch_host_function({&Gate::pass, &gate}, stream_.native());
    graph.replay();
  }
  release_finished_graphs();
  gate.open();
  EXPECT_TRUE(comes_back(before));
}

TEST_F(StreamOrderedMemory, FreedWithItsGraphCannotBeFreedAgain) {
  void* memory = nullptr;
  const std::size_t before = free_bytes();
  {
    CUDAGraph graph = capture({.name = "maker"}, [&] { memory = allocate(large); });
    graph.replay();
  }
  EXPECT_TRUE(comes_back(before));
  EXPECT_THAT(text_of<UsageError>([&] { free_async(memory); }),
              AllOf(HasSubstr("which the end of the graph `maker` freed"), HasSubstr("auto_free_on_launch")));
}

TEST_F(StreamOrderedMemory, AtAnAddressThatAGraphFreedBeforeIsFreedTwiceByTheProgramAlone) {
  void *of_graph = nullptr, *again = nullptr;
  const std::size_t before = free_bytes();
  {
    CUDAGraph graph = capture([&] { of_graph = allocate(large); });
    graph.replay();
  }
  ASSERT_TRUE(comes_back(before));
  {
    CUDAGraph graph = capture(without_auto_free(), [&] { again = allocate(large); });
    graph.replay();
    stream_.synchronize();
  }
  release_finished_graphs();
  ASSERT_EQ(again, of_graph);
  free_async(again);
  EXPECT_THROW(free_async(again), BackendError);
}

TEST_F(StreamOrderedMemory, WithoutAutoFreeItIsTheProgramsAndOutlivesTheGraph) {
  const std::size_t before = free_bytes();
  int* memory = nullptr;
  {
    CUDAGraph graph = capture(without_auto_free(), [&] {
      memory = allocate(large);
      launch(LaunchConfig{}, SetTo{}, memory, 5);
      free_async(allocate());
    });
    graph.replay();
    stream_.synchronize();  // the end of a graph that still runs is later
  }
  release_finished_graphs();
  EXPECT_EQ(value_at(memory), 5);
  const GraphMemory listed = graph_memory();
  EXPECT_EQ(listed.left_bytes, 0U);
  EXPECT_EQ(listed.left_by_ended_bytes, large);
  EXPECT_THAT(listed.str(), HasSubstr("0 bytes that replays leave allocated, 30.0 MiB left by graphs that have ended"));
  const std::string out_of_memory = "30.0 MiB left by graphs that have ended";
  EXPECT_THAT(text_of<OutOfMemoryError>([&] { (void)allocate(9 * large); }), HasSubstr(out_of_memory));
  EXPECT_THAT(text_of<OutOfMemoryError>([&] { const Buffer<char> buffer(9 * large); }), HasSubstr(out_of_memory));
  free_async(memory);
  EXPECT_EQ(graph_memory().left_by_ended_bytes, 0U);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(StreamOrderedMemory, ThatAnotherGraphFreesOutlivesItsGraph) {
  int* memory = nullptr;
  Buffer<int> result(1);
  std::optional<CUDAGraph> maker = capture([&] {
    memory = allocate(large);
    launch(LaunchConfig{}, SetTo{}, memory, 5);
  });
  CUDAGraph user = capture([&] {
    copy_async(result.data(), memory, sizeof(int));
    free_async(memory);
  });
  maker->replay();
  stream_.synchronize();
  maker.reset();
  release_finished_graphs();
  EXPECT_EQ(graph_memory().left_by_ended_bytes, large);
  user.replay();
  EXPECT_EQ(result.read()[0], 5);
  user.reset();
  EXPECT_EQ(graph_memory().left_by_ended_bytes, 0U);
}

TEST_F(StreamOrderedMemory, ThatWasNeverAllocatedIsNotListed) {
  {
    const CUDAGraph graph = capture(without_auto_free(), [&] { (void)allocate(large); });
  }
  EXPECT_THROW(capture([&] {
                 (void)allocate(large);
                 throw std::runtime_error("the body fails");
               }),
               std::runtime_error);
  release_finished_graphs();
  EXPECT_EQ(graph_memory().left_by_ended_bytes, 0U);
  EXPECT_EQ(graph_memory().left_bytes, 0U);
}

TEST_F(StreamOrderedMemory, WithoutAutoFreeAReplayIsRefusedWhileItIsAllocated) {
  int* memory = nullptr;
  GraphOptions options;
  options.instantiate_flags = InstantiateFlags::none;
  CUDAGraph graph;
  capture(graph, options, [&] {
    memory = allocate();
    launch(LaunchConfig{}, SetTo{}, memory, 5);
  });
  graph.replay();
  const std::string text = text_of<BackendError>([&] { graph.replay(); });
  EXPECT_THAT(text, AllOf(HasSubstr("cuGraphLaunch returned 1"), HasSubstr("auto_free_on_launch")));
  EXPECT_EQ(value_at(memory), 5);
  free_async(memory);
  graph.replay();
  free_async(memory);
}

TEST_F(StreamOrderedMemory, IsNoInputOfTheGraphThatAllocatesIt) {
  GraphOptions options;
  options.check_input_liveness = true;
  CUDAGraph graph;
  capture(graph, options, [&] {
    int* const memory = allocate();
    launch(LaunchConfig{}, SetTo{}, memory, 5);
    free_async(memory);
  });
  graph.replay();
  EXPECT_TRUE(graph.inputs().empty());
}

TEST_F(StreamOrderedMemory, AGraphWithItIsInstantiatedAgainInThePlaceOfTheFirstExecutable) {
  int* memory = nullptr;
  CUDAGraph graph(KeepGraph::yes);
  capture(graph, [&] {
    memory = allocate();
    launch(LaunchConfig{}, SetTo{}, memory, 6);
  });
  graph.instantiate();
  graph.replay();
  graph.instantiate();
  graph.replay();
  EXPECT_EQ(value_at(memory), 6);
  free_async(memory);
}

TEST_F(StreamOrderedMemory, MemoryOfTheCachingAllocatorIsRefused) {
  Buffer<int> buffer(10);
  const std::string text = text_of<UsageError>([&] { free_async(buffer.data()); });
  EXPECT_THAT(text, AllOf(HasSubstr("expected memory of allocate_async()"), HasSubstr("CachingAllocator::deallocate")));
  buffer.write(std::vector<int>(10, 3));
  EXPECT_EQ(buffer.read()[9], 3);
}

TEST_F(StreamOrderedMemory, FreesThatNoAllocationMatchesAreRefusedAndTheCaptureGoesOn) {
  int on_the_stack = 0;
  EXPECT_THAT(text_of<BackendError>([&] { free_async(&on_the_stack); }),
              HasSubstr("free_async: cuMemFreeAsync returned 1"));
  int* const outside = allocate();
  int* inside = nullptr;
  CUDAGraph graph;
  capture(graph, [&] {
    EXPECT_THAT(text_of<BackendError>([&] { free_async(outside); }), HasSubstr("what an allocation node allocated"));
    inside = allocate();
    launch(LaunchConfig{}, SetTo{}, inside, 1);
    free_async(inside);
    EXPECT_THAT(text_of<BackendError>([&] { free_async(inside); }), HasSubstr("frees this memory already"));
  });
  EXPECT_EQ(graph.node_count(), 3U);
  graph.replay();
  EXPECT_THAT(text_of<BackendError>([&] { free_async(inside); }), HasSubstr("frees it, too"));
  free_async(outside);
}

TEST_F(StreamOrderedMemory, OfAnotherGraphThatWasNotReplayedIsNotFreed) {
  int* memory = nullptr;
  CUDAGraph graph;
  capture(graph, [&] { memory = allocate(); });
  EXPECT_THAT(text_of<BackendError>([&] { free_async(memory); }), HasSubstr("no launch of its graph"));
}

TEST_F(StreamOrderedMemory, InTheBodyOfAConditionalNodeItIsRefusedAndTheCaptureGoesOn) {
  Buffer<std::uint32_t> condition(std::array{1U});
  Buffer<int> result(1);
  CUDAGraph graph = capture([&] {
    if_(condition.data(), [&](const StreamRef& inside) {
      for (const auto& call : {std::function<void()>([&] { (void)allocate_async(64, inside); }),
                               std::function<void()>([&] { free_async(&result, inside); })})
        EXPECT_THAT(text_of<UsageError>(call), HasSubstr("bodies of conditional nodes"));
      launch(inside, LaunchConfig{}, SetTo{}, result.data(), 4);
    });
  });
  graph.replay();
  EXPECT_EQ(result.read()[0], 4);
}

}  // namespace
}  // namespace reprise::stream_ordered_test
