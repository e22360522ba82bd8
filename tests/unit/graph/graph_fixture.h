// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "reprise/reprise.h"
#include "tests/support/gate.h"
#include "tests/support/text_of.h"

// What the tests of graphs share: kernels, and ways to see what happened.

namespace reprise::graphs::test {

/// x[i] += amount
struct Add {
  REPRISE_KERNEL void operator()(Thread t, int* x, int amount, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] += amount;
  }
  static auto accesses(int* x, int, std::size_t n) { return std::array{reads(x, n), writes(x, n)}; }
};

/// y[i] = factor * x[i]
struct Multiply {
  REPRISE_KERNEL void operator()(Thread t, const int* x, int factor, int* y, std::size_t n) const {
    // Unsigned: in walks over failures it multiplies memory that nothing set.
    if (t.global_x() < n) y[t.global_x()] = static_cast<int>(static_cast<unsigned>(factor) * x[t.global_x()]);
  }
  static auto accesses(const int* x, int, int* y, std::size_t n) { return std::array{reads(x, n), writes(y, n)}; }
};

inline void add(Buffer<int>& x, int amount = 1, const StreamRef& stream = current_stream()) {
  launch(stream, x.size(), Add{}, x.data(), amount, x.size());
}

inline void multiply(const Buffer<int>& x, int factor, Buffer<int>& y, const StreamRef& stream = current_stream()) {
  launch(stream, x.size(), Multiply{}, x.data(), factor, y.data(), x.size());
}

/// All values, after the work of the current stream.
inline std::vector<int> read(const Buffer<int>& x) {
  std::vector<int> values(x.size());
  x.read_async(values);
  current_stream().synchronize();
  return values;
}

/// The first value, after the work of the current stream.
inline int first(const Buffer<int>& x) {
  return read(x).front();
}

/// `n` values of zero, there when this returns.
inline Buffer<int> zeros(std::size_t n = 1) {
  Buffer<int> x(n);
  x.fill_bytes_async(0);
  current_stream().synchronize();
  return x;
}

/// Launches a host function on a stream.
inline void call_on_host(const StreamRef& stream, void (*function)(void*), void* data) {
  backend::Checked(stream.device().backend()).launch_host_function({function, data}, stream.native());
}

using reprise::test::text_of;

/// True if `what` contains `part`, else a readable failure.
inline ::testing::AssertionResult contains(const std::string& what, const std::string& part) {
  if (what.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" in: " << what;
}

/// Breaks the captures that a potentially unsafe call of this thread breaks, and returns the call's code.
inline ErrorCode make_unsafe_call() {
  void* memory = nullptr;
  const ErrorCode result = default_device().backend().memory_allocate(&memory, 512).code();
  if (result == ErrorCode::success) (void)default_device().backend().memory_free(memory);
  return result;
}

/// Waits until `condition` holds, and drains the release queue meanwhile: the runtime releases a graph a moment after
/// the work of its replay. Returns whether it holds.
template <class F>
bool eventually(F&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + reprise::test::patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    CUDAGraph().reset();
    static_cast<void>(default_device().memory_info());  // a host device that runs by steps makes one
    std::this_thread::yield();
  }
  return true;
}

/// Waits until no pool of a graph is left, and empties the cache: the start for tests that count memory.
inline void settle_memory() {
  CachingAllocator& allocator = CachingAllocator::of(current_device());
  ASSERT_TRUE(eventually([&] {
    allocator.empty_cache();  // takes pools that no graph needs any more, too
    return allocator.statistics().reserved_bytes == allocator.statistics(MempoolId{}).reserved_bytes;
  }));
}

/// The first other device of the default one's kind.
inline std::optional<Device> second_device() {
  for (const Device& device : devices())
    if (device.type() == default_device().type() && device != default_device()) return device;
  return std::nullopt;
}

/// For the names of tests that run in each mode.
inline std::string mode_name(CaptureMode mode) {
  return mode == CaptureMode::global ? "global" : mode == CaptureMode::relaxed ? "relaxed" : "thread";
}

/// A stream that is current as long as the object lives, and not the legacy default one.
class SideStream {
 public:
  SideStream() : guard_(stream_) {}
  StreamRef ref() const { return stream_.ref(); }

 private:
  Stream stream_;
  StreamGuard guard_;
};

/// Captures one increment of `x` on a stream of its own.
inline void capture_increment(CUDAGraph& graph, Buffer<int>& x, const GraphOptions& options = {}) {
  capture(graph, options, [&] { add(x); });
}

}  // namespace reprise::graphs::test
