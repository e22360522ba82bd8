// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// Graphs and their memory.

namespace reprise::graphs::test {
namespace {

constexpr std::size_t large = std::size_t{1} << 22;  // values: more than a small segment holds

class GraphPools : public ::testing::Test {
 protected:
  void SetUp() override { settle_memory(); }
  std::uint64_t reserved() const { return allocator_.statistics().reserved_bytes; }
  std::uint64_t reserved(MempoolId pool) const { return allocator_.statistics(pool).reserved_bytes; }

  CachingAllocator& allocator_ = CachingAllocator::of(default_device());
  Buffer<int> x_ = zeros();
};

TEST_F(GraphPools, EachGraphHasAPoolOfItsOwn) {
  CUDAGraph one, two;
  capture_increment(one, x_);
  capture_increment(two, x_);
  EXPECT_TRUE(static_cast<bool>(one.pool()));
  EXPECT_NE(one.pool(), two.pool());
}

TEST_F(GraphPools, AGivenPoolIsThatOfTheGraph) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  CUDAGraph one, two;
  capture_increment(one, x_, options);
  EXPECT_EQ(one.pool(), options.pool);
  options.pool = one.pool();
  capture_increment(two, x_, options);
  EXPECT_EQ(two.pool(), one.pool());
}

TEST_F(GraphPools, AnIdThatNoCallHasReturnedIsRefused) {
  const MempoolId made = graph_pool_handle();
  CUDAGraph graph;
  for (const MempoolId id : {MempoolId{0, made.second + 1000}, MempoolId{made.second + 1000, 0},
                             MempoolId{made.second, made.second}, MempoolId{0, UINT64_MAX}}) {
    const std::string what = text_of<UsageError>([&] { capture_increment(graph, x_, {.pool = id}); });
    EXPECT_TRUE(contains(what, "GraphOptions::pool expected an id of graph_pool_handle(), or the pool() of a graph"));
    EXPECT_TRUE(contains(what, "which no call has returned"));
  }
  capture_increment(graph, x_, {.pool = made});
  CUDAGraph own;
  capture_increment(own, x_);
  const MempoolId of_graph = own.pool();
  own.reset();
  capture_increment(own, x_, {.pool = of_graph});
  EXPECT_EQ(own.pool(), of_graph);
}

TEST_F(GraphPools, CaptureBeginTakesAPool) {
  const SideStream stream;
  const MempoolId pool = graph_pool_handle();
  CUDAGraph graph;
  graph.capture_begin(pool, CaptureMode::thread);
  add(x_);
  graph.capture_end();
  EXPECT_EQ(graph.pool(), pool);
}

// `capture_error_mode="thread_local"` of PyTorch.
TEST_F(GraphPools, CaptureBeginTakesAPoolAndPyTorchsNameOfAMode) {
  static_assert(CaptureErrorMode::thread_local_ == CaptureMode::thread);
  const SideStream stream;
  const MempoolId pool = graph_pool_handle();
  CUDAGraph graph;
  graph.capture_begin(pool, CaptureErrorMode::thread_local_);
  add(x_);
  graph.capture_end();
  EXPECT_EQ(graph.pool(), pool);
}

TEST_F(GraphPools, MemoryAllocatedInACaptureComesFromThePool) {
  CUDAGraph graph;
  std::optional<Buffer<int>> y;
  capture(graph, [&] {
    y.emplace(large);
    y->fill_bytes_async(0);
  });
  EXPECT_GE(reserved(graph.pool()), large * sizeof(int));
}

TEST_F(GraphPools, MemoryFreedInACaptureIsGivenOutAgainInside) {
  CUDAGraph graph;
  capture(graph, [&] {
    const int* before = nullptr;
    for (int i = 0; i < 3; ++i) {
      Buffer<int> scratch(large);
      scratch.fill_bytes_async(0);
      if (before != nullptr) {
        EXPECT_EQ(scratch.data(), before);
      }
      before = scratch.data();
    }
  });
  EXPECT_LT(reserved(graph.pool()), 2 * large * sizeof(int));
}

TEST_F(GraphPools, MemoryOfAGraphIsNotGivenOutToEagerWork) {
  CUDAGraph graph;
  int* inside = nullptr;
  capture(graph, [&] {
    Buffer<int> scratch(large);
    inside = scratch.data();
    scratch.fill_bytes_async(0);
  });
  const Buffer<int> eager(large);
  EXPECT_NE(eager.data(), inside);
}

TEST_F(GraphPools, ResetGivesThePoolBack) {
  const auto before = reserved();
  CUDAGraph graph;
  capture(graph, [&] {
    Buffer<int> scratch(large);
    scratch.fill_bytes_async(0);
  });
  EXPECT_GT(reserved(), before);
  graph.reset();
  EXPECT_EQ(reserved(), before);
}

TEST_F(GraphPools, ResetGivesThePoolBackWhenItsReplaysAreDone) {
  const auto before = reserved();
  CUDAGraph graph;
  capture(graph, [&] {
    Buffer<int> scratch(large);
    scratch.fill_bytes_async(0);
  });
  graph.replay();
  graph.reset();
  EXPECT_TRUE(eventually([&] { return reserved() == before; }));
}

TEST_F(GraphPools, TheDestructorGivesThePoolBack) {
  const auto before = reserved();
  {
    CUDAGraph graph;
    capture(graph, [&] {
      Buffer<int> scratch(large);
      scratch.fill_bytes_async(0);
    });
  }
  EXPECT_EQ(reserved(), before);
}

TEST_F(GraphPools, ASharedPoolLivesAsLongAsOneGraphNeedsIt) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  CUDAGraph one, two;
  const auto body = [&] {
    Buffer<int> scratch(large);
    scratch.fill_bytes_async(0);
  };
  capture(one, options, body);
  capture(two, options, body);
  const auto both = reserved(options.pool);
  EXPECT_LT(both, 2 * large * sizeof(int));  // the second one used the memory of the first
  one.reset();
  EXPECT_EQ(reserved(options.pool), both);
  two.reset();
  EXPECT_EQ(reserved(options.pool), 0u);
}

TEST_F(GraphPools, WhatTheLastCaptureAddedToASharedPoolGoesBackWithItsGraph) {
  const GraphOptions options{.pool = graph_pool_handle()};
  const auto capture_with = [&](CUDAGraph& graph, std::size_t values) {
    capture(graph, options, [&] {
      Buffer<int> memory(values);
      memory.fill_bytes_async(0);
      add(x_);
    });
  };
  // Resources of a graph are released a moment after its last replay.
  const auto leaves = [&](CUDAGraph& graph, std::size_t buffers) {
    graph.reset();
    return eventually([&] {
      release_finished_graphs();
      return reserved(options.pool) == buffers * large * sizeof(int);
    });
  };
  CUDAGraph one, two, three, four;
  capture_with(one, large);
  capture_with(two, 2 * large);
  EXPECT_EQ(reserved(options.pool), 3 * large * sizeof(int));
  EXPECT_TRUE(leaves(two, 1));
  one.replay();
  // The fourth graph uses what the third one added.
  capture_with(three, 2 * large);
  capture_with(four, 2 * large);
  EXPECT_TRUE(leaves(three, 3));
  four.replay();
  EXPECT_EQ(read(x_), std::vector<int>{2});
  EXPECT_TRUE(leaves(four, 1)) << "no graph that is left uses what the third one added";
  EXPECT_TRUE(leaves(one, 0));
}

TEST_F(GraphPools, WhatACaptureThatFailsAddedToASharedPoolGoesBack) {
  const GraphOptions options{.pool = graph_pool_handle()};
  CUDAGraph one, two;
  capture_increment(one, x_, options);
  const std::uint64_t before = reserved(options.pool);
  EXPECT_THROW(capture(two, options,
                       [&] {
                         Buffer<int> memory(large);
                         memory.fill_bytes_async(0);
                         throw UsageError("of the body");
                       }),
               UsageError);
  EXPECT_EQ(reserved(options.pool), before);
}

TEST_F(GraphPools, ResultsStayValidAfterTheGraphIsDestroyed) {
  std::optional<Buffer<int>> y;
  {
    CUDAGraph graph;
    capture(graph, [&] {
      y.emplace(1000);
      y->fill_bytes_async(0);
      add(*y, 7);
    });
    graph.replay();
  }
  // An allocation now must not return the memory of the result.
  std::vector<Buffer<int>> others;
  for (int i = 0; i < 20; ++i) {
    others.emplace_back(1000);
    others.back().fill_bytes_async(0xff);
  }
  EXPECT_EQ(read(*y), std::vector<int>(1000, 7));
}

TEST_F(GraphPools, AHundredCapturesDoNotGrowMemory) {
  const auto once = [&] {
    CUDAGraph graph;
    capture(graph, [&] {
      Buffer<int> scratch(large);
      multiply(x_, 2, scratch);
      add(x_);
    });
    graph.replay();
    current_stream().synchronize();
  };
  once();
  settle_memory();
  const auto before = reserved();
  const auto free_before = default_device().memory_info().free;
  for (int i = 0; i < 100; ++i) once();
  settle_memory();
  EXPECT_EQ(reserved(), before);
  EXPECT_EQ(default_device().memory_info().free, free_before);
}

TEST_F(GraphPools, AHundredCapturesIntoOneGraphAndPoolDoNotGrowMemory) {
  GraphOptions options;
  options.pool = graph_pool_handle();
  CUDAGraph keeps_the_pool, graph;
  const auto body = [&] {
    Buffer<int> scratch(large);
    multiply(x_, 2, scratch);
  };
  capture(keeps_the_pool, options, body);
  const auto before = reserved(options.pool);
  for (int i = 0; i < 100; ++i) {
    capture(graph, options, body);
    graph.replay();
    graph.reset();
  }
  EXPECT_EQ(reserved(options.pool), before);
}

/// Captures work on memory that a side stream uses, too, and that the capture frees.
void capture_with_side_stream(CUDAGraph& graph, const GraphOptions& options, const Stream& side) {
  graph.capture_begin(options);
  Buffer<int> scratch(large);
  scratch.fill_bytes_async(0);
  side.wait(current_stream());
  scratch.record_stream(side);
  fill_async(scratch.data(), 1, sizeof(int), side);
  current_stream().wait(side);
  scratch.reset();
  graph.capture_end();
}

TEST_F(GraphPools, MemoryThatASideStreamUsedInACaptureIsThereForTheNextOne) {
  const SideStream stream;
  const Stream side;
  GraphOptions options;
  options.pool = graph_pool_handle();
  CUDAGraph one, two;
  capture_with_side_stream(one, options, side);
  const auto before = reserved(options.pool);
  default_device().synchronize();
  capture_with_side_stream(two, options, side);
  EXPECT_EQ(reserved(options.pool), before);
}

TEST_F(GraphPools, SoItIsWhenAnotherCaptureWasUnderwayMeanwhile) {
  const SideStream stream;
  const Stream side;
  GraphOptions options;
  options.pool = graph_pool_handle();
  options.capture_error_mode = CaptureMode::relaxed;
  CUDAGraph one, two, other;
  const Stream of_other;
  {
    const StreamGuard guard(of_other);
    other.capture_begin({}, CaptureMode::relaxed);
  }
  capture_with_side_stream(one, options, side);
  const auto before = reserved(options.pool);
  other.capture_abandon();
  default_device().synchronize();
  two.capture_begin(options);  // records an event on the idle side stream, and waits for nothing
  two.capture_abandon();
  default_device().synchronize();
  capture_with_side_stream(two, options, side);
  EXPECT_EQ(reserved(options.pool), before);
}

enum class Sharing { none, pool_of_the_first, handle };

class TwoGraphs : public GraphPools, public ::testing::WithParamInterface<Sharing> {};

TEST_P(TwoGraphs, GiveTheResultsOfEagerWorkWhenInterleavedWithIt) {
  constexpr std::size_t n = 1000;
  Buffer<int> input = zeros(n);
  std::optional<Buffer<int>> a, b;
  CUDAGraph one, two;
  GraphOptions options;
  if (GetParam() == Sharing::handle) options.pool = graph_pool_handle();
  capture(one, options, [&] {
    Buffer<int> scratch(n);
    multiply(input, 2, scratch);
    add(scratch, 1);
    a.emplace(n);
    multiply(scratch, 3, *a);
  });
  if (GetParam() == Sharing::pool_of_the_first) options.pool = one.pool();
  capture(two, options, [&] {
    Buffer<int> scratch(n);
    multiply(*a, 5, scratch);
    add(scratch, 1);
    b.emplace(n);
    multiply(scratch, 7, *b);
  });
  for (int value = 1; value < 5; ++value) {
    input.write_async(std::vector<int>(n, value));
    one.replay();
    add(*a, 1);
    Buffer<int> eager(n);
    multiply(*a, 1, eager);
    two.replay();
    const int after_one = (2 * value + 1) * 3 + 1;
    EXPECT_EQ(read(eager), std::vector<int>(n, after_one));
    EXPECT_EQ(read(*b), std::vector<int>(n, (after_one * 5 + 1) * 7));
  }
}

INSTANTIATE_TEST_SUITE_P(Pools, TwoGraphs,
                         ::testing::Values(Sharing::none, Sharing::pool_of_the_first, Sharing::handle),
                         [](const auto& test) {
                           return test.param == Sharing::none                ? "not_shared"
                                  : test.param == Sharing::pool_of_the_first ? "pool_of_the_first"
                                                                             : "handle";
                         });

}  // namespace
}  // namespace reprise::graphs::test
