// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "tests/support/gate.h"
#include "tests/unit/graph/workspaces_fixture.h"

// How long the memory lives that libraries use for captured work.

namespace reprise::graphs::test {
namespace {

using reprise::test::Gate;

TEST_F(GraphWorkspaces, SurviveTheGraphThatAskedFirst) {
  std::optional<CUDAGraph> one(std::in_place);
  CUDAGraph two;
  capture_use(*one, 1);
  capture_use(two, 2);
  one.reset();
  EXPECT_EQ(allocated(), workspace_bytes);
  EXPECT_EQ(replayed(two), 2);
}

TEST_F(GraphWorkspaces, SurviveTheThreadThatCaptured) {
  CUDAGraph graph;
  std::thread([&] {
    const Stream stream;
    options_.stream = stream;
    capture_use(graph, 8);
  }).join();
  EXPECT_EQ(allocated(), workspace_bytes);
  EXPECT_EQ(replayed(graph), 8);
}

TEST_F(GraphWorkspaces, AreNotGivenToWhatIsCapturedLaterIntoThePool) {
  CUDAGraph one, two;
  const Workspace workspace = capture_use(one, 1);
  std::optional<Buffer<int>> kept;
  capture(two, options_, [&] {
    kept.emplace(workspace_values);
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
  EXPECT_EQ(allocated(), workspace_bytes);
  with.reset();
  EXPECT_EQ(allocated(), 0u);
}

TEST_F(GraphWorkspaces, StayWhileAReplayRuns) {
  Gate gate;
  const Stream stream;
  CUDAGraph graph;
  capture(graph, options_, [&] {
    call_on_host(current_stream(), &Gate::pass, &gate);
    use(library_workspace("test", workspace_bytes), 9, result_);
  });
  graph.replay(stream);
  EXPECT_TRUE(gate.wait_until_reached());
  graph.reset();
  EXPECT_EQ(allocated(), workspace_bytes);
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
                         use(library_workspace("test", workspace_bytes), 1, result_);
                         throw Stop();
                       }),
               Stop);
  EXPECT_EQ(allocator_.statistics().reserved_bytes, before.reserved_bytes);
  EXPECT_THROW(capture(graph, options_,
                       [&] {
                         use(library_workspace("test", workspace_bytes), 1, result_);
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
                         use(library_workspace("test", workspace_bytes), 2, result_);
                         throw Stop();
                       }),
               Stop);
  EXPECT_EQ(allocated(), workspace_bytes);
  EXPECT_EQ(replayed(graph), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
