// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <thread>
#include <vector>

#include "tests/unit/graph/workspaces_fixture.h"

// Memory that libraries use for captured work.

namespace reprise::graphs::test {
namespace {

TEST_F(GraphWorkspaces, AreEmptyOnAStreamOutsideOfTheCapture) {
  const Stream outside;
  CUDAGraph graph;
  capture(graph, options_, [&] {
    EXPECT_FALSE(static_cast<bool>(library_workspace("test", workspace_bytes, outside)));
    add(result_);
  });
}

TEST_F(GraphWorkspaces, AreEmptyInACaptureThatOtherCodeBegan) {
  const SideStream raw;
  backend::Backend& backend = default_device().backend();
  CUDAGraph graph;
  capture(graph, options_, [&] {
    add(result_);
    ASSERT_EQ(backend.stream_begin_capture(raw.ref().native(), CaptureMode::relaxed), ErrorCode::success);
    EXPECT_FALSE(static_cast<bool>(library_workspace("test", workspace_bytes, raw.ref())));
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
                         EXPECT_FALSE(static_cast<bool>(library_workspace("test", workspace_bytes)));
                       }),
               CaptureError);
  EXPECT_EQ(pool().reserved_bytes, 0u);
}

TEST_F(GraphWorkspaces, ComeFromThePoolOfTheCapture) {
  CUDAGraph graph;
  const Workspace workspace = capture_use(graph, 5);
  EXPECT_EQ(workspace.bytes, workspace_bytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace.data) % 512, 0u);
  EXPECT_EQ(allocated(), workspace_bytes);
  EXPECT_EQ(replayed(graph), 5);
}

TEST_F(GraphWorkspaces, AreTheSameForEachRequestOnAStream) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    const Workspace one = library_workspace("test", workspace_bytes);
    EXPECT_EQ(library_workspace("test", workspace_bytes).data, one.data);
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
    const Workspace one = library_workspace("test", workspace_bytes);
    const Workspace two = library_workspace("another", workspace_bytes);
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
    const Workspace other = library_workspace("another", workspace_bytes);
    EXPECT_NE(other.data, workspace.data);
    use(other, 2, result_);
  });
}

// A capture with a fork: each of the two streams uses its workspace.
void capture_fork(CUDAGraph& graph, const GraphOptions& options, Buffer<int>& a, Buffer<int>& b) {
  const Stream side;
  capture(graph, options, [&] {
    side.wait(current_stream());
    const Workspace here = library_workspace("test", workspace_bytes),
                    there = library_workspace("test", workspace_bytes, side);
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
  EXPECT_EQ(allocated(), 2 * workspace_bytes);
  EXPECT_EQ(replayed(graph), 3);
  EXPECT_EQ(first(other), 4);
}

TEST_F(GraphWorkspaces, OfForksAreSharedByTheGraphsOfAPoolEvenIfTheStreamsAreNew) {
  Buffer<int> other = zeros(16);
  std::vector<CUDAGraph> graphs(67);
  for (CUDAGraph& graph : graphs) capture_fork(graph, options_, result_, other);
  EXPECT_EQ(allocated(), 2 * workspace_bytes);
  EXPECT_EQ(replayed(graphs.back()), 3);
}

TEST_F(GraphWorkspaces, OfANewStreamAreNotThoseOfADestroyedOneInTheSameCapture) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    std::set<void*> seen;
    for (int i = 0; i < 4; ++i) {
      const Stream side;
      side.wait(current_stream());
      const Workspace workspace = library_workspace("test", workspace_bytes, side);
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
    std::thread([&] { use(library_workspace("test", workspace_bytes, side), 6, result_, side); }).join();
    current_stream().wait(side);
  });
  EXPECT_EQ(allocated(), workspace_bytes);
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
        for (int k = 0; k < 10; ++k) found[i] = library_workspace("test", workspace_bytes, streams[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Stream& stream : streams) current_stream().wait(stream);
  });
  std::set<void*> distinct;
  for (const Workspace& workspace : found) distinct.insert(workspace.data);
  EXPECT_EQ(distinct.size(), count);
  EXPECT_EQ(allocated(), count * workspace_bytes);
}

TEST_F(GraphWorkspaces, OfCapturesAtTheSameTimeAreTheirOwn) {
  constexpr std::size_t count = 4;
  std::vector<CUDAGraph> graphs(count);
  std::vector<Workspace> found(count);
  std::vector<Buffer<int>> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(zeros(16));
  reprise::test::Meeting all_are_capturing(count, reprise::test::by_steps_too);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      GraphOptions options;
      options.capture_error_mode = CaptureMode::thread;
      capture(graphs[i], options, [&] {
        all_are_capturing.meet();
        found[i] = library_workspace("test", workspace_bytes);
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

TEST_F(GraphWorkspaces, OfALargerRequestAreOthers) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    const Workspace small = library_workspace("test", workspace_bytes);
    use(small, 1, result_);
    const Workspace large = library_workspace("test", 2 * workspace_bytes);
    EXPECT_EQ(large.bytes, 2 * workspace_bytes);
    EXPECT_NE(large.data, small.data);
    EXPECT_EQ(library_workspace("test", workspace_bytes).data, large.data);
    use(large, 2, result_);
  });
  EXPECT_EQ(allocated(), 3 * workspace_bytes);
  EXPECT_EQ(replayed(graph), 2);
}

TEST_F(GraphWorkspaces, OfALargerRequestAreSharedByLaterGraphs) {
  CUDAGraph one, two, three;
  capture_use(one, 1);
  Workspace large;
  capture(two, options_, [&] {
    large = library_workspace("test", 2 * workspace_bytes);
    use(large, 2, result_);
  });
  EXPECT_EQ(capture_use(three, 3).data, large.data);
  one.reset();
  EXPECT_EQ(allocated(), 2 * workspace_bytes);
  EXPECT_EQ(replayed(three), 3);
}

TEST_F(GraphWorkspaces, ThatTheDeviceHasNoMemoryForAreRefusedAndTheCaptureGoesOn) {
  CUDAGraph graph;
  capture(graph, options_, [&] {
    EXPECT_THROW(library_workspace("test", default_device().memory_info().total + 1), OutOfMemoryError);
    use(library_workspace("test", workspace_bytes), 3, result_);
  });
  EXPECT_EQ(allocated(), workspace_bytes);
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
    workspace = library_workspace("test", workspace_bytes, there);
    fill_async(workspace.data, 0, workspace.bytes, there);
    current_stream().wait(there);
  });
  backend::PointerInfo info;
  ASSERT_EQ(second.backend().pointer_info(workspace.data, &info), ErrorCode::success);
  EXPECT_EQ(info.device_index, second.index());
}

}  // namespace
}  // namespace reprise::graphs::test
