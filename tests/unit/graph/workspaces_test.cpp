// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/unit/graph/graph_fixture.h"

// Memory that libraries use for captured work.

namespace reprise::graphs::test {
namespace {

using reprise::test::Gate;

constexpr std::size_t bytes = std::size_t{4} << 20;
constexpr std::size_t values = bytes / sizeof(int);

// What a library does with its workspace: writes there, and reads it again.
void use(const Workspace& workspace, int value, Buffer<int>& result, const StreamRef& stream = current_stream()) {
  ASSERT_TRUE(static_cast<bool>(workspace));
  int* const scratch = static_cast<int*>(workspace.data);
  const std::size_t n = workspace.bytes / sizeof(int);
  fill_async(scratch, 0, workspace.bytes, stream);
  launch(stream, n, Add{}, scratch, value, n);
  launch(stream, result.size(), Multiply{}, scratch + n - result.size(), 1, result.data(), result.size());
}

class GraphWorkspaces : public ::testing::Test {
 protected:
  void SetUp() override {
    settle_memory();
    options_.pool = graph_pool_handle();
  }
  PoolStatistics pool() const { return allocator_.statistics(options_.pool); }
  std::uint64_t allocated() const { return pool().allocated_bytes; }

  // A graph whose replay writes `value` to the result by way of a workspace, which it returns.
  Workspace capture_use(CUDAGraph& graph, int value, const GraphOptions& options) {
    Workspace workspace;
    capture(graph, options, [&] {
      workspace = library_workspace("test", bytes);
      use(workspace, value, result_);
    });
    return workspace;
  }
  Workspace capture_use(CUDAGraph& graph, int value) { return capture_use(graph, value, options_); }

  // What a replay leaves, after others had every chance to write to memory that is free.
  int replayed(CUDAGraph& graph) {
    std::vector<Buffer<int>> others;
    for (int i = 0; i < 3; ++i) {
      others.emplace_back(values);
      others.back().fill_bytes_async(0xff);
    }
    graph.replay();
    return first(result_);
  }

  CachingAllocator& allocator_ = CachingAllocator::of(default_device());
  GraphOptions options_;
  Buffer<int> result_ = zeros(16);
};

TEST_F(GraphWorkspaces, AreEmptyOutsideOfCaptures) {
  const Workspace workspace = library_workspace("test", bytes);
  EXPECT_FALSE(static_cast<bool>(workspace));
  EXPECT_EQ(workspace.data, nullptr);
  EXPECT_EQ(workspace.bytes, 0u);
}

TEST_F(GraphWorkspaces, AreEmptyOnAStreamOutsideOfTheCapture) {
  const Stream outside;
  CUDAGraph graph;
  capture(graph, options_, [&] {
    EXPECT_FALSE(static_cast<bool>(library_workspace("test", bytes, outside)));
    add(result_);
  });
}

TEST_F(GraphWorkspaces, AreEmptyInACaptureThatSomebodyElseBegan) {
  const SideStream raw;
  backend::Backend& backend = default_device().backend();
  CUDAGraph graph;
  capture(graph, options_, [&] {
    add(result_);
    ASSERT_EQ(backend.stream_begin_capture(raw.ref().native(), CaptureMode::relaxed), ErrorCode::success);
    EXPECT_FALSE(static_cast<bool>(library_workspace("test", bytes, raw.ref())));
    GraphHandle nothing = nullptr;
    ASSERT_EQ(backend.stream_end_capture(raw.ref().native(), &nothing), ErrorCode::success);
    EXPECT_EQ(backend.graph_destroy(nothing), ErrorCode::success);
  });
}

TEST_F(GraphWorkspaces, AreEmptyInABrokenCapture) {
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, options_,
                       [&] {
                         make_unsafe_call();
                         EXPECT_FALSE(static_cast<bool>(library_workspace("test", bytes)));
                       }),
               CaptureError);
  EXPECT_EQ(pool().reserved_bytes, 0u);
}

TEST_F(GraphWorkspaces, OfNoBytesAreEmpty) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    EXPECT_FALSE(static_cast<bool>(library_workspace("test", 0)));
    add(result_);
  });
  EXPECT_EQ(pool().reserved_bytes, 0u);
}

TEST_F(GraphWorkspaces, ComeFromThePoolOfTheCapture) {
  CUDAGraph graph;
  const Workspace workspace = capture_use(graph, 5);
  EXPECT_EQ(workspace.bytes, bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace.data) % 512, 0u);
  EXPECT_EQ(allocated(), bytes);
  EXPECT_EQ(replayed(graph), 5);
}

TEST_F(GraphWorkspaces, AreTheSameForEachRequestOnAStream) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    const Workspace one = library_workspace("test", bytes);
    EXPECT_EQ(library_workspace("test", bytes).data, one.data);
    const Workspace smaller = library_workspace("test", 1000);
    EXPECT_EQ(smaller.data, one.data);
    EXPECT_EQ(smaller.bytes, 1000u);
    use(one, 1, result_);
  });
  EXPECT_EQ(pool().allocations, 1u);
}

TEST_F(GraphWorkspaces, OfOnePoolAreSharedBy67LiveGraphs) {
  std::vector<CUDAGraph> graphs(67);
  const Workspace workspace = capture_use(graphs[0], 0);
  const PoolStatistics before = pool();
  const std::size_t free_before = default_device().memory_info().free;
  for (int i = 1; i < 67; ++i) EXPECT_EQ(capture_use(graphs[static_cast<std::size_t>(i)], i).data, workspace.data);
  EXPECT_EQ(pool().reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(pool().allocated_bytes, before.allocated_bytes);
  if (default_device().type() == DeviceType::host) {
    EXPECT_EQ(default_device().memory_info().free, free_before);  // a driver needs some for each graph
  }
  for (int i = 66; i >= 0; --i) EXPECT_EQ(replayed(graphs[static_cast<std::size_t>(i)]), i);
}

TEST_F(GraphWorkspaces, OfDifferentPoolsAreNotShared) {
  CUDAGraph one, two;
  const Workspace first_one = capture_use(one, 1, {});
  const Workspace second_one = capture_use(two, 2, {});
  EXPECT_NE(first_one.data, second_one.data);
  EXPECT_EQ(replayed(one), 1);
  EXPECT_EQ(replayed(two), 2);
}

TEST_F(GraphWorkspaces, OfTwoLibrariesAreTwo) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    const Workspace one = library_workspace("test", bytes);
    const Workspace two = library_workspace("another", bytes);
    EXPECT_NE(one.data, two.data);
    use(one, 1, result_);
    use(two, 2, result_);
  });
  EXPECT_EQ(pool().allocations, 2u);
}

TEST_F(GraphWorkspaces, OfAnotherLibraryAreNotSharedByLaterGraphs) {
  CUDAGraph one, two;
  const Workspace workspace = capture_use(one, 1);
  capture(two, options_, [&] {
    const Workspace other = library_workspace("another", bytes);
    EXPECT_NE(other.data, workspace.data);
    use(other, 2, result_);
  });
}

// A capture with a fork: each of the two streams uses its workspace.
void capture_fork(CUDAGraph& graph, const GraphOptions& options, Buffer<int>& a, Buffer<int>& b) {
  const Stream side;
  capture(graph, options, [&] {
    side.wait(current_stream());
    const Workspace here = library_workspace("test", bytes), there = library_workspace("test", bytes, side);
    EXPECT_NE(here.data, there.data);
    use(here, 3, a);
    use(there, 4, b, side);
    current_stream().wait(side);
  });
}

TEST_F(GraphWorkspaces, OfTwoForkedStreamsAreTwo) {
  Buffer<int> other = zeros(16);
  CUDAGraph graph;
  capture_fork(graph, options_, result_, other);
  EXPECT_EQ(allocated(), 2 * bytes);
  EXPECT_EQ(replayed(graph), 3);
  EXPECT_EQ(first(other), 4);
}

TEST_F(GraphWorkspaces, OfForksAreSharedByTheGraphsOfAPoolEvenIfTheStreamsAreNew) {
  Buffer<int> other = zeros(16);
  std::vector<CUDAGraph> graphs(67);
  for (CUDAGraph& graph : graphs) capture_fork(graph, options_, result_, other);
  EXPECT_EQ(allocated(), 2 * bytes);
  EXPECT_EQ(replayed(graphs.back()), 3);
}

TEST_F(GraphWorkspaces, OfANewStreamAreNotThoseOfADestroyedOneInTheSameCapture) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    std::set<void*> seen;
    for (int i = 0; i < 4; ++i) {
      const Stream side;
      side.wait(current_stream());
      const Workspace workspace = library_workspace("test", bytes, side);
      EXPECT_TRUE(seen.insert(workspace.data).second);
      use(workspace, i, result_, side);
      current_stream().wait(side);
    }
  });
}

TEST_F(GraphWorkspaces, OfAForkedStreamCanBeAskedForOnAnotherThread) {
  CUDAGraph graph;
  const Stream side;
  capture(graph, options_, [&] {
    side.wait(current_stream());
    std::thread([&] { use(library_workspace("test", bytes, side), 6, result_, side); }).join();
    current_stream().wait(side);
  });
  EXPECT_EQ(allocated(), bytes);
  EXPECT_EQ(replayed(graph), 6);
}

TEST_F(GraphWorkspaces, CanBeAskedForByManyThreadsAtOnce) {
  constexpr std::size_t count = 8;
  CUDAGraph graph;
  std::vector<Stream> streams(count);
  std::vector<Workspace> found(count);
  capture(graph, options_, [&] {
    add(result_);
    for (const Stream& stream : streams) stream.wait(current_stream());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < 10; ++k) found[i] = library_workspace("test", bytes, streams[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Stream& stream : streams) current_stream().wait(stream);
  });
  std::set<void*> distinct;
  for (const Workspace& workspace : found) distinct.insert(workspace.data);
  EXPECT_EQ(distinct.size(), count);
  EXPECT_EQ(allocated(), count * bytes);
}

TEST_F(GraphWorkspaces, OfCapturesAtTheSameTimeAreTheirOwn) {
  constexpr std::size_t count = 4;
  std::vector<CUDAGraph> graphs(count);
  std::vector<Workspace> found(count);
  std::vector<Buffer<int>> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(zeros(16));
  reprise::test::Meeting all_are_capturing(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      GraphOptions options;
      options.capture_error_mode = CaptureMode::thread;
      capture(graphs[i], options, [&] {
        all_are_capturing.meet();
        found[i] = library_workspace("test", bytes);
        use(found[i], static_cast<int>(i), results[i]);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(all_are_capturing.all_met());
  std::set<void*> distinct;
  for (const Workspace& workspace : found) distinct.insert(workspace.data);
  EXPECT_EQ(distinct.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    graphs[i].replay();
    EXPECT_EQ(first(results[i]), static_cast<int>(i));
  }
}

TEST_F(GraphWorkspaces, SurviveTheGraphThatAskedFirst) {
  std::optional<CUDAGraph> one(std::in_place);
  CUDAGraph two;
  capture_use(*one, 1);
  capture_use(two, 2);
  one.reset();
  EXPECT_EQ(allocated(), bytes);
  EXPECT_EQ(replayed(two), 2);
}

TEST_F(GraphWorkspaces, SurviveTheThreadThatCaptured) {
  CUDAGraph graph;
  std::thread([&] {
    const Stream stream;
    options_.stream = stream;
    capture_use(graph, 8);
  }).join();
  EXPECT_EQ(allocated(), bytes);
  EXPECT_EQ(replayed(graph), 8);
}

TEST_F(GraphWorkspaces, AreNotGivenToWhatIsCapturedLaterIntoThePool) {
  CUDAGraph one, two;
  const Workspace workspace = capture_use(one, 1);
  std::optional<Buffer<int>> kept;
  capture(two, options_, [&] {
    kept.emplace(values);
    EXPECT_NE(static_cast<void*>(kept->data()), workspace.data);
    kept->fill_bytes_async(0);
  });
  two.replay();
  EXPECT_EQ(replayed(one), 1);
  EXPECT_EQ(first(*kept), 0);
}

TEST_F(GraphWorkspaces, GoBackWithTheLastGraph) {
  const PoolStatistics before = allocator_.statistics();
  CUDAGraph one, two;
  capture_use(one, 1);
  capture_use(two, 2);
  one.reset();
  EXPECT_GT(allocator_.statistics().reserved_bytes, before.reserved_bytes);
  two.reset();
  EXPECT_EQ(pool().reserved_bytes, 0u);
  EXPECT_EQ(allocator_.statistics().reserved_bytes, before.reserved_bytes);
  EXPECT_EQ(allocator_.statistics().allocated_bytes, before.allocated_bytes);
}

TEST_F(GraphWorkspaces, GoBackToAPoolThatOtherGraphsHold) {
  CUDAGraph without, with;
  capture(without, options_, [&] { add(result_); });
  capture_use(with, 1);
  EXPECT_EQ(allocated(), bytes);
  with.reset();
  EXPECT_EQ(allocated(), 0u);
}

TEST_F(GraphWorkspaces, StayWhileAReplayRuns) {
  Gate gate;
  const Stream stream;
  CUDAGraph graph;
  capture(graph, options_, [&] {
    call_on_host(current_stream(), &Gate::pass, &gate);
    use(library_workspace("test", bytes), 9, result_);
  });
  graph.replay(stream);
  EXPECT_TRUE(gate.wait_until_reached());
  graph.reset();
  EXPECT_EQ(allocated(), bytes);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(first(result_), 9);
  EXPECT_TRUE(eventually([&] { return pool().reserved_bytes == 0; }));
}

TEST_F(GraphWorkspaces, OfACaptureThatFailsGoBack) {
  struct Stop {};
  const PoolStatistics before = allocator_.statistics();
  CUDAGraph graph;
  EXPECT_THROW(capture(graph, options_,
                       [&] {
                         use(library_workspace("test", bytes), 1, result_);
                         throw Stop();
                       }),
               Stop);
  EXPECT_EQ(allocator_.statistics().reserved_bytes, before.reserved_bytes);
  EXPECT_THROW(capture(graph, options_,
                       [&] {
                         use(library_workspace("test", bytes), 1, result_);
                         make_unsafe_call();
                       }),
               CaptureError);
  EXPECT_EQ(allocator_.statistics().reserved_bytes, before.reserved_bytes);
  capture_use(graph, 2);
  EXPECT_EQ(replayed(graph), 2);
}

TEST_F(GraphWorkspaces, OfACaptureThatFailsStayWithTheGraphsThatUseThem) {
  struct Stop {};
  CUDAGraph graph, failing;
  capture_use(graph, 1);
  EXPECT_THROW(capture(failing, options_,
                       [&] {
                         use(library_workspace("test", bytes), 2, result_);
                         throw Stop();
                       }),
               Stop);
  EXPECT_EQ(allocated(), bytes);
  EXPECT_EQ(replayed(graph), 1);
}

TEST_F(GraphWorkspaces, OfALargerRequestAreOthers) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    const Workspace small = library_workspace("test", bytes);
    use(small, 1, result_);
    const Workspace large = library_workspace("test", 2 * bytes);
    EXPECT_EQ(large.bytes, 2 * bytes);
    EXPECT_NE(large.data, small.data);
    EXPECT_EQ(library_workspace("test", bytes).data, large.data);
    use(large, 2, result_);
  });
  EXPECT_EQ(allocated(), 3 * bytes);
  EXPECT_EQ(replayed(graph), 2);
}

TEST_F(GraphWorkspaces, OfALargerRequestAreSharedByLaterGraphs) {
  CUDAGraph one, two, three;
  capture_use(one, 1);
  Workspace large;
  capture(two, options_, [&] {
    large = library_workspace("test", 2 * bytes);
    use(large, 2, result_);
  });
  EXPECT_EQ(capture_use(three, 3).data, large.data);
  one.reset();
  EXPECT_EQ(allocated(), 2 * bytes);
  EXPECT_EQ(replayed(three), 3);
}

TEST_F(GraphWorkspaces, ThatTheDeviceHasNoMemoryForAreRefusedAndTheCaptureGoesOn) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    EXPECT_THROW(library_workspace("test", default_device().memory_info().total + 1), OutOfMemoryError);
    use(library_workspace("test", bytes), 3, result_);
  });
  EXPECT_EQ(allocated(), bytes);
  EXPECT_EQ(replayed(graph), 3);
}

TEST_F(GraphWorkspaces, LieOnTheDeviceOfTheStream) {
  std::vector<Device> same_type;
  for (const Device device : devices())
    if (device.type() == default_device().type()) same_type.push_back(device);
  if (same_type.size() < 2) GTEST_SKIP() << "needs two devices (REPRISE_HOST_DEVICES=2 gives two host devices)";
  const Device second = same_type[0] == default_device() ? same_type[1] : same_type[0];
  const Stream there(second);
  CUDAGraph graph;
  Workspace workspace;
  capture(graph, options_, [&] {
    there.ref().wait(current_stream());
    workspace = library_workspace("test", bytes, there);
    fill_async(workspace.data, 0, workspace.bytes, there);
    current_stream().wait(there);
  });
  backend::PointerInfo info;
  ASSERT_EQ(second.backend().pointer_info(workspace.data, &info), ErrorCode::success);
  EXPECT_EQ(info.device_index, second.index());
}

}  // namespace
}  // namespace reprise::graphs::test
