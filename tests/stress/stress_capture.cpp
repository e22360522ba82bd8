// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "reprise/reprise.h"
#include "tests/stress/stress_test.h"

// Many threads that capture, replay, reset, allocate and fail at once. What each of them computes is checked, and at
// the end the device's memory is back where it was.

namespace reprise::graphs::test {
namespace {

constexpr int thread_count = 8;
constexpr int rounds = 300;  // of each thread

struct Count {
  REPRISE_KERNEL void operator()(Thread, int* counter) const { atomic_add(counter, 1); }
};

// Graphs that a thread no longer needs: destroyed by the next thread, while their replays may be running.
class Graveyard {
 public:
  void bury(CUDAGraph graph) {
    std::optional<CUDAGraph> oldest;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    graphs_.push_back(std::move(graph));
    if (graphs_.size() > 4) {
      oldest = std::move(graphs_.front());
      graphs_.pop_front();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<CUDAGraph> graphs_;
};

class Worker {
 public:
  Worker(unsigned seed, Graveyard& graveyard) : random_(seed), graveyard_(graveyard), guard_(stream_) {
    std::iota(host_.begin(), host_.end(), static_cast<int>(seed) * 1000);
    input_.write_async(host_);
  }

  void round() {
    switch (random_() % 6) {
      case 0:
        return fail_by_exception();
      case 1:
        return fail_by_an_unsafe_call();
      case 2:
        return capture_into_one_pool();
      default:
        return capture_and_replay();
    }
  }

 private:
  GraphOptions options() { return random_options(random_); }
  void expect_input_plus(const Buffer<int>& result, int amount) { expect_plus(host_, result, amount, stream_); }

  // input + 3, by way of memory of the graph's pool.
  Buffer<int> capture_chain(CUDAGraph& graph, const GraphOptions& with) {
    std::optional<Buffer<int>> result;
    capture(graph, with, [&] {
      Buffer<int> one(n), two(n);
      add_to(current_stream(), input_, 1, one);
      add_to(current_stream(), one, 1, two);
      result.emplace(n);
      add_to(current_stream(), two, 1, *result);
    });
    return std::move(*result);
  }

  void capture_and_replay() {
    CUDAGraph graph;
    const Buffer<int> result = capture_chain(graph, options());
    graph.replay();
    const Buffer<int> eager(n * (1 + random_() % 100));  // for the same stream, while the replay runs
    graph.replay();
    expect_input_plus(result, 3);
    graph.reset();
    Buffer<int> later = capture_chain(graph, options());
    graph.replay();
    graveyard_.bury(std::move(graph));
    expect_input_plus(later, 3);
  }

  void capture_into_one_pool() {
    GraphOptions with = options();
    with.pool = graph_pool_handle();
    CUDAGraph first, second;
    const Buffer<int> a = capture_chain(first, with);
    const Buffer<int> b = capture_chain(second, with);
    first.replay();
    second.replay();
    graveyard_.bury(std::move(first));
    expect_input_plus(a, 3);
    expect_input_plus(b, 3);
  }

  void fail_by_exception() {
    CUDAGraph graph;
    EXPECT_THROW(capture(graph, options(),
                         [&] {
                           Buffer<int> scratch(n);
                           add_to(current_stream(), input_, 1, scratch);
                           throw std::runtime_error("on purpose");
                         }),
                 std::runtime_error);
    expect_input_plus(capture_and_replay_once(graph), 3);
  }

  void fail_by_an_unsafe_call() {
    CUDAGraph graph;
    GraphOptions with = options();
    with.capture_error_mode = CaptureMode::thread;
    EXPECT_THROW(capture(graph, with,
                         [&] {
                           Buffer<int> scratch(n);
                           add_to(current_stream(), input_, 1, scratch);
                           void* memory = nullptr;
                           EXPECT_EQ(default_device().backend().memory_allocate(&memory, 512),
                                     ErrorCode::stream_capture_unsupported);
                         }),
                 CaptureError);
    expect_input_plus(capture_and_replay_once(graph), 3);
  }

  Buffer<int> capture_and_replay_once(CUDAGraph& graph) {
    Buffer<int> result = capture_chain(graph, options());
    graph.replay();
    return result;
  }

  std::mt19937 random_;
  Graveyard& graveyard_;
  Stream stream_;
  StreamGuard guard_;
  std::vector<int> host_ = std::vector<int>(n);
  Buffer<int> input_ = Buffer<int>(n);
};

// All threads replay one graph, which the first one instantiates.
class SharedGraph {
 public:
  SharedGraph() {
    counter_.fill_bytes_async(0);
    capture(graph_, [&] { launch(LaunchConfig{}, Count{}, counter_.data()); });
  }
  void replay() {
    graph_.replay();
    ++replays_;
  }
  void expect_all_counted() const {
    int counted = 0;
    counter_.read_async({&counted, 1});
    current_stream().synchronize();
    EXPECT_EQ(counted, replays_.load());
  }

 private:
  Buffer<int> counter_ = Buffer<int>(1);
  CUDAGraph graph_{KeepGraph::yes};
  std::atomic<int> replays_{0};
};

TEST(StressCapture, ManyThreadsCaptureReplayResetAllocateAndFailAtOnce) {
  CachingAllocator& allocator = CachingAllocator::of(default_device());
  {
    SharedGraph shared;
    Graveyard graveyard;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < thread_count; ++t)
      threads.emplace_back([&, t] {
        Worker worker(t + 1, graveyard);
        for (int i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) {
          worker.round();
          shared.replay();
        }
        current_stream().synchronize();
      });
    for (auto& thread : threads) thread.join();
    shared.expect_all_counted();
  }
  default_device().synchronize();
  release_until(allocator, [&] { return allocator.statistics().reserved_bytes == 0; });
  EXPECT_EQ(allocator.statistics().reserved_bytes, 0u);
  EXPECT_EQ(allocator.statistics().allocations, 0u);
}

// The default mode and the default stream: nothing but captures and replays, which break no capture.
TEST(StressCapture, ManyThreadsUseTheDefaultScopeAtOnce) {
  std::vector<Buffer<int>> counters;
  for (int t = 0; t < thread_count; ++t) {
    counters.emplace_back(1);
    counters.back().fill_bytes_async(0);
  }
  default_device().synchronize();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      const Stream stream;
      for (int i = 0; i < rounds; ++i) {
        CUDAGraph graph;
        capture(graph, [&] { launch(LaunchConfig{}, Count{}, counters[t].data()); });
        graph.replay(stream);
        graph.replay(stream);
      }
    });
  for (auto& thread : threads) thread.join();
  default_device().synchronize();
  for (const Buffer<int>& counter : counters) {
    int counted = 0;
    counter.read_async({&counted, 1});
    current_stream().synchronize();
    EXPECT_EQ(counted, 2 * rounds);
  }
}

}  // namespace
}  // namespace reprise::graphs::test
