// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/graph/graph_fixture.h"

// CUDAGraph::update() and what other code gave to a captured graph for its nodes, as user objects.

namespace reprise::graphs::test {
namespace {

class UpdateSources : public ::testing::TestWithParam<KeepGraph> {
 protected:
  static void count(void* destroyed) { ++*static_cast<std::atomic<int>*>(destroyed); }

  /// x += amount, with a user object.
  CUDAGraph captured(int amount, std::atomic<int>& destroyed) {
    CUDAGraph graph(GetParam());
    capture(graph, [&](const StreamRef& stream) {
      add(x_, amount);
      const backend::Checked runtime(stream.device().backend());
      backend::CaptureInfo info;
      runtime.stream_capture_info(stream.native(), &info);
      UserObjectHandle object = nullptr;
      runtime.user_object_create(&object, &destroyed, &count, 1);
      runtime.graph_retain_user_object(info.graph, object, 1, backend::RetainFlags::move);
    });
    graph.replay();
    current_stream().synchronize();
    return graph;
  }
  static bool eventually_is(const std::atomic<int>& destroyed, int number) {
    return eventually([&] {
      release_finished_graphs();
      return destroyed == number;
    });
  }

  Buffer<int> x_ = zeros();
};
INSTANTIATE_TEST_SUITE_P(Keeps, UpdateSources, ::testing::Values(KeepGraph::no, KeepGraph::yes));

TEST_P(UpdateSources, StayUntilTheGraphIsReset) {
  std::atomic<int> first{0}, second{0};
  CUDAGraph graph = captured(1, first), other = captured(10, second);
  graph.update(other);
  other.reset();
  release_finished_graphs();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // destructors run on a thread of the runtime
  EXPECT_EQ(second, 0) << "the values of its nodes are used";
  graph.replay();
  current_stream().synchronize();
  EXPECT_EQ(reprise::graphs::test::first(x_), 21);
  graph.reset();
  EXPECT_TRUE(eventually_is(first, 1));
  EXPECT_TRUE(eventually_is(second, 1));
}

TEST_P(UpdateSources, StayWithAParentOfTheGraph) {
  std::atomic<int> first{0}, second{0};
  CUDAGraph parent(GetParam());
  {
    CUDAGraph graph = captured(1, first), other = captured(10, second);
    graph.update(other);
    capture(parent, [&] { add_child(graph); });
  }
  release_finished_graphs();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(second, 0) << "the copy has the values";
  parent.replay();
  current_stream().synchronize();
  EXPECT_EQ(reprise::graphs::test::first(x_), 21);
  parent.reset();
  EXPECT_TRUE(eventually_is(first, 1));
  EXPECT_TRUE(eventually_is(second, 1));
}

TEST_P(UpdateSources, AreReleasedByTheNextUpdate) {
  std::atomic<int> first{0}, second{0}, third{0};
  CUDAGraph graph = captured(1, first);
  graph.update(captured(2, second));
  graph.update(captured(3, third));
  EXPECT_TRUE(eventually_is(second, 1));
  EXPECT_EQ(third, 0);
  graph.reset();
  EXPECT_TRUE(eventually_is(first, 1));
  EXPECT_TRUE(eventually_is(third, 1));
}

TEST_P(UpdateSources, OfGraphsThatUpdateEachOtherAreReleased) {
  std::array<std::atomic<int>, 3> destroyed{};
  {
    CUDAGraph a = captured(1, destroyed[0]), b = captured(2, destroyed[1]), c = captured(3, destroyed[2]);
    for (int i = 0; i < 3; ++i) {
      c.update(a);
      a.update(b);
      b.update(c);
      a.update(b);
    }
    a.replay();
    current_stream().synchronize();
  }
  for (const std::atomic<int>& each : destroyed) EXPECT_TRUE(eventually_is(each, 1));
}

}  // namespace
}  // namespace reprise::graphs::test
