// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "tests/stress/stress_test.h"
#include "tests/support/accounting_backend.h"
#include "tests/support/environment_number.h"

// Many threads that capture, replay, reset and allocate at once, while calls of the runtime fail at random: the
// thread whose call fails finds everything usable, what the others compute is right, and at the end nothing is lost.

namespace reprise::graphs::test {
namespace {

using backend::test::AccountingBackend;
using backend::test::Living;

constexpr int thread_count = 6;
constexpr int rounds = 250;  // of each thread

// REPRISE_STRESS_SEED, or 1. Threads make each run another one; the seed gives the same mixture again.
std::uint32_t stress_seed() {
  return static_cast<std::uint32_t>(
      reprise::test::environment_number("REPRISE_STRESS_SEED", 1, 0, std::numeric_limits<std::uint32_t>::max()));
}

class Worker {
 public:
  /// \param global does this thread capture in mode global, too? One can: the others, which wait for their streams
  ///               meanwhile, are not in the mode that threads begin in.
  Worker(std::uint32_t seed, AccountingBackend& runtime, bool global)
      : random_(seed), global_(global), runtime_(runtime), device_(runtime) {
    auto mode = global ? CaptureMode::global : CaptureMode::thread;
    EXPECT_EQ(inner_.thread_exchange_capture_mode(&mode), ErrorCode::success);
    std::iota(host_.begin(), host_.end(), static_cast<int>(seed));
    input_.write_async(host_);
    stream_.synchronize();
  }

  void round() {
    if (runtime_.all_happened()) fail_soon();
    try {
      switch (random_() % 4) {
        case 0:
          capture_and_replay(true);
          break;
        case 1:
          capture_into_one_pool();
          break;
        case 2:
          use_memory_on_two_streams();
          break;
        default:
          capture_and_replay(false);
      }
    } catch (const BackendError& error) {
      // No fault has this code: a capture refused the call, of this thread or of another one.
      EXPECT_NE(error.code(), ErrorCode::stream_capture_unsupported) << error.what();
      ++failed_;
      expect_usable();
    } catch (const Error&) {
      ++failed_;
      expect_usable();
    }
  }
  int failed() const { return failed_; }

 private:
  void fail_soon() {
    constexpr std::array codes{ErrorCode::launch_failure, ErrorCode::out_of_memory,
                               ErrorCode::stream_capture_invalidated, ErrorCode::not_supported};
    // A few calls at least: what is done after a failure can count on the next call.
    runtime_.fail_any(codes[random_() % codes.size()], static_cast<int>(50 + random_() % 200));
  }

  // Queries the device below, where nothing fails.
  void expect_usable() {
    for (const Stream* stream : {&stream_, &side_}) {
      CaptureStatus status = CaptureStatus::active;
      EXPECT_EQ(inner_.stream_is_capturing(stream->native(), &status), ErrorCode::success);
      EXPECT_EQ(status, CaptureStatus::none);
    }
    EXPECT_EQ(current_stream(), stream_.ref());
  }

  GraphOptions options() {
    GraphOptions made = random_options(random_);
    if (global_ && random_() % 2 == 0) made.capture_error_mode = CaptureMode::global;
    return made;
  }

  void expect_input_plus(const Buffer<int>& result, int amount) { expect_plus(host_, result, amount, stream_); }

  // input + 3, by way of memory of the graph's pool and, with `fork`, of another stream.
  Buffer<int> capture_chain(CUDAGraph& graph, const GraphOptions& with, bool fork) {
    std::optional<Buffer<int>> result;
    capture(graph, with, [&] {
      const StreamRef here = current_stream();
      const StreamRef there = fork ? side_.ref() : here;
      Buffer<int> one(n);
      result.emplace(n);
      library_workspace("stress", 1000);
      add_to(here, input_, 1, one);
      there.wait(here);
      Buffer<int> two(n, there);
      add_to(there, one, 1, two);
      here.wait(there);
      add_to(here, two, 1, *result);
    });
    return std::move(*result);
  }

  void capture_and_replay(bool fork) {
    CUDAGraph graph;
    const Buffer<int> result = capture_chain(graph, options(), fork);
    graph.replay();
    graph.replay();
    expect_input_plus(result, 3);
    graph.reset();
    const Buffer<int> again = capture_chain(graph, options(), !fork);
    graph.replay();
    expect_input_plus(again, 3);
  }

  void capture_into_one_pool() {
    GraphOptions with = options();
    with.pool = graph_pool_handle();
    CUDAGraph first, second(KeepGraph::yes);
    const Buffer<int> a = capture_chain(first, with, false);
    with.discard_template = false;
    const Buffer<int> b = capture_chain(second, with, true);
    second.instantiate();
    first.replay();
    second.replay();
    expect_input_plus(a, 3);
    expect_input_plus(b, 3);
  }

  void use_memory_on_two_streams() {
    Buffer<int> a(n), b(n);
    add_to(stream_, input_, 1, a);
    side_.wait(stream_);
    a.record_stream(side_);
    b.record_stream(side_);
    add_to(side_, a, 1, b);
    stream_.ref().wait(side_.ref());
    expect_input_plus(b, 2);
  }

  std::mt19937 random_;
  const bool global_;
  AccountingBackend& runtime_;
  backend::Backend& inner_ = default_device().backend();
  Device device_;
  DeviceGuard device_guard_{device_};
  Stream stream_{device_};
  Stream side_{device_};
  StreamGuard guard_{stream_};
  std::vector<int> host_ = std::vector<int>(n);
  Buffer<int> input_ = Buffer<int>(n);
  int failed_ = 0;
};

TEST(StressFailures, ManyThreadsLoseNothingWhileCallsFailAtRandom) {
  const std::uint32_t seed = stress_seed();
  // First, for a run that does not come to its end.
  std::printf("  seed %u\n", seed);
  std::fflush(stdout);
  auto& runtime = *new AccountingBackend(default_device().backend());  // devices live until the process ends
  const Device device(runtime);
  std::atomic<int> warnings{0}, failed{0};
  const LogSink previous = set_log_sink([&](std::string_view) { ++warnings; });
  std::barrier all_there(thread_count);
  std::barrier all_done(thread_count, [&]() noexcept { runtime.heal(); });
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < thread_count; ++t)
    threads.emplace_back([&, t] {
      Worker worker(seed * 1000 + t, runtime, t == 0);
      all_there.arrive_and_wait();
      for (int i = 0; i < rounds && !::testing::Test::HasFailure(); ++i) worker.round();
      // What must not fail comes later: the result of a stream that is destroyed cannot be queried again.
      all_done.arrive_and_wait();
      current_stream().synchronize();
      failed += worker.failed();
    });
  for (auto& thread : threads) thread.join();
  std::printf("  %d rounds failed, %d warnings\n", failed.load(), warnings.load());
  EXPECT_GT(failed, rounds / 10);

  runtime.make_up_for_refused();
  device.synchronize();
  CachingAllocator& allocator = CachingAllocator::of(device);
  const auto is_level = [&] { return allocator.statistics().reserved_bytes == 0 && runtime.living() == Living{}; };
  release_until(allocator, is_level);
  EXPECT_EQ(allocator.statistics().reserved_bytes, 0u);
  EXPECT_EQ(allocator.statistics().allocations, 0u);
  EXPECT_EQ(runtime.living().graphs, 0);
  EXPECT_EQ(runtime.living().execs, 0);
  EXPECT_EQ(runtime.living().user_objects, 0);
  set_log_sink(previous);
}

}  // namespace
}  // namespace reprise::graphs::test
