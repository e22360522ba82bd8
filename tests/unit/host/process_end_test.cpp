// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/reprise.h"
#include "tests/support/host_environment.h"

// Destructors of static and `thread_local` objects that use the library. Each test ends a process of its own (a death
// test) with exit(), by which static objects are destroyed after those of the thread.

namespace reprise {
namespace {

class ProcessEnd : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

struct AddOne {
  REPRISE_KERNEL void operator()(Thread t, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += 1;
  }
};

struct SumInSharedMemory {
  REPRISE_KERNEL void operator()(Block& block, int* x) const {
    int* const shared = block.shared<int>(4);
    block.for_each_thread([&](const Thread& t) { shared[t.rank()] = 10; });
    block.for_each_thread([&](const Thread& t) {
      if (t.rank() == 0) *x = shared[0] + shared[1] + shared[2] + shared[3];
    });
  }
};

// Runs a function in its destructor; the process ends with code 1 if that returns false, or throws.
class AtEnd {
 public:
  explicit AtEnd(std::function<bool()> body) : body_(std::move(body)) {}
  ~AtEnd() {
    bool good = false;
    try {
      good = body_();
    } catch (const std::exception&) {
    }
    if (!good) std::_Exit(1);
  }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  std::function<bool()> body_;
};

// Blocks of the heap as small as those of the library's lists. Allocated at the end, they reuse memory that the library
// has freed; if it still writes there, their bytes change.
using Blocks = std::vector<std::vector<unsigned char>>;
constexpr unsigned char untouched = 0xEE;

Blocks reuse_freed_memory() {
  Blocks blocks;
  for (std::size_t bytes = 16; bytes <= 128; bytes += 16)
    for (int i = 0; i < 8; ++i) blocks.emplace_back(bytes, untouched);
  return blocks;
}

bool are_untouched(const Blocks& blocks) {
  return std::ranges::all_of(blocks, [](const auto& block) {
    return std::ranges::count(block, untouched) == static_cast<std::ptrdiff_t>(block.size());
  });
}

// Works with the current stream, as a static object may that owns graphs and memory.
bool works_on(const StreamRef& stream) {
  const Blocks reused = reuse_freed_memory();
  if (current_stream() != stream) return false;
  Buffer<int> x(std::vector<int>{1, 2, 3});
  CUDAGraph g;
  capture(g, [&] { launch(x.size(), AddOne{}, x.data(), x.size()); });
  g.replay();
  std::vector<int> out(3);
  x.read_async(out);
  current_stream().synchronize();
  return out == std::vector<int>{2, 3, 4} && current_stream() == stream && are_untouched(reused);
}

[[noreturn]] void exit_with_a_static_stream_guard() {
  static const Stream stream(Device::parse("host"));
  static const StreamGuard guard(stream);
  std::exit(0);
}

TEST_F(ProcessEnd, AStaticStreamGuardEndsWithTheProcess) {
  EXPECT_EXIT(exit_with_a_static_stream_guard(), ::testing::ExitedWithCode(0), "^$");
}

[[noreturn]] void exit_within_static_guards_of_all_kinds() {
  static const Stream stream(Device::parse("host"));
  static const DeviceGuard device(stream.device());
  static const StreamGuard guard(stream);
  static const annotate annotation("until the process ends");
  static const InjectedFailure failure({.call = "cuMemAlloc", .nth = 1'000'000});
  static CUDAGraph g;
  static const graph scope(g, {.allow_empty = true});
  std::exit(0);
}

TEST_F(ProcessEnd, StaticGuardsOfAllKindsEndWithTheProcess) {
  EXPECT_EXIT(exit_within_static_guards_of_all_kinds(), ::testing::ExitedWithCode(0), "^$");
}

[[noreturn]] void exit_with_a_static_object_that_works() {
  static const Stream stream(Device::parse("host"));
  static const StreamGuard guard(stream);
  static const AtEnd at_end([] { return works_on(stream); });
  std::exit(0);
}

TEST_F(ProcessEnd, AStaticObjectIsDestroyedUnderTheStreamThatIsCurrent) {
  EXPECT_EXIT(exit_with_a_static_object_that_works(), ::testing::ExitedWithCode(0), "^$");
}

// The first object is older than all that the library keeps for the thread.
[[noreturn]] void end_a_thread_with_an_object_that_works() {
  static const Stream stream(Device::parse("host"));
  std::thread([] {
    thread_local const AtEnd after([] {
      const StreamRef usual = stream.device().default_stream();
      if (current_stream(stream.device()) != usual) return false;
      const StreamGuard inner(stream);
      return works_on(stream);
    });
    thread_local std::optional<StreamGuard> guard;
    thread_local const AtEnd before([] { return works_on(stream); });
    guard.emplace(stream);
  }).join();
  std::exit(0);
}

TEST_F(ProcessEnd, AThreadLocalObjectIsDestroyedUnderTheStreamThatIsCurrent) {
  EXPECT_EXIT(end_a_thread_with_an_object_that_works(), ::testing::ExitedWithCode(0), "^$");
}

[[noreturn]] void exit_with_work_for_the_scheduler_by_steps() {
  reprise::test::set_host_environment({.scheduler_seed = 1});
  static const Device device = Device::parse("host");
  const LaunchConfig shape{.grid = 1, .block = 4, .shared_bytes = 4 * sizeof(int)};
  static Buffer<int> x(1, device.default_stream());
  launch(device.default_stream(), shape, SumInSharedMemory{}, x.data());
  device.synchronize();  // the kernel ran on this thread
  static const AtEnd at_end([shape] {
    const Blocks reused = reuse_freed_memory();
    launch(device.default_stream(), shape, SumInSharedMemory{}, x.data());
    std::vector<int> out(1);
    x.read_async(out, device.default_stream());
    return out.front() == 40 && are_untouched(reused);
  });
  std::exit(0);
}

TEST_F(ProcessEnd, AStaticObjectCanWaitForKernelsThatRunOnItsThread) {
  EXPECT_EXIT(exit_with_work_for_the_scheduler_by_steps(), ::testing::ExitedWithCode(0), "^$");
}

[[noreturn]] void exit_with_a_static_object_that_makes_bad_calls() {
  static const Device device = Device::parse("host");
  static const auto fails = [] {
    try {
      launch(device.default_stream(), LaunchConfig{.grid = 1, .block = 5000}, AddOne{}, nullptr, std::size_t{0});
    } catch (const BackendError& error) {
      return error.code() == ErrorCode::invalid_value && std::string(error.what()).find("5000") != std::string::npos;
    }
    return false;
  };
  static const AtEnd at_end([] { return fails() && fails(); });
  std::exit(fails() ? 0 : 1);
}

TEST_F(ProcessEnd, AStaticObjectLearnsWhyACallFailed) {
  EXPECT_EXIT(exit_with_a_static_object_that_makes_bad_calls(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace reprise
