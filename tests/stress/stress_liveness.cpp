// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>
#include <vector>

#include "tests/stress/stress_test.h"

// Inputs of graphs that are freed by one thread while others replay.

namespace reprise::graphs::test {
namespace {

/// Replays until it is refused.
void replay_until_refused(CUDAGraph& graph, const Stream& stream, std::atomic<int>& refused) {
  try {
    for (;;) graph.replay(stream);
  } catch (const DeadInputError& error) {
    EXPECT_EQ(error.inputs().size(), 1U);
    ++refused;
  }
}

// What is freed during a replay has no effect on it: memory of the allocator stays memory.
TEST(StressLiveness, AnInputIsFreedWhileSeveralThreadsReplay) {
  const Stream stream, other;
  Buffer<int> result(n, stream);
  for (int round = 0; round < 50; ++round) {
    Buffer<int> x(n, stream), unrelated(n, other);
    x.fill_bytes_async(1, stream);
    CUDAGraph graph;
    GraphOptions options;
    options.check_input_liveness = true;
    capture(graph, options, [&] { add_to(current_stream(), x, 1, result); });
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) threads.emplace_back([&] { replay_until_refused(graph, stream, refused); });
    threads.emplace_back([&] { unrelated.reset(); });
    threads.emplace_back([&] { x.reset(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(refused, 2);
    stream.synchronize();
  }
}

TEST(StressLiveness, GraphsThatKeepAnInputComeAndGoWhileItsOwnerFreesIt) {
  const Stream stream;
  CachingAllocator& allocator = CachingAllocator::of(current_device());
  release_until(allocator, [&] { return true; });
  const std::uint64_t before = allocator.statistics(MempoolId{}).allocations;
  {
    Buffer<int> result(n, stream);
    for (int round = 0; round < 200; ++round) {
      Buffer<int> x(n, stream);
      x.fill_bytes_async(0, stream);
      CUDAGraph graphs[2];
      GraphOptions options;
      options.inputs.retain = true;
      for (CUDAGraph& graph : graphs) capture(graph, options, [&] { add_to(current_stream(), x, round, result); });
      std::vector<std::thread> threads;
      for (CUDAGraph& graph : graphs)
        threads.emplace_back([&] {
          for (int i = 0; i < 3; ++i) graph.replay(stream);
          graph.reset();
        });
      threads.emplace_back([&] { x.reset(); });
      for (std::thread& thread : threads) thread.join();
    }
    stream.synchronize();
  }
  release_until(allocator, [&] { return allocator.statistics(MempoolId{}).allocations == before; });
  EXPECT_EQ(allocator.statistics(MempoolId{}).allocations, before);
}

}  // namespace
}  // namespace reprise::graphs::test
