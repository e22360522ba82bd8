// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <random>
#include <thread>
#include <vector>

#include "reprise/reprise.h"

// What the stress tests share.

namespace reprise::graphs::test {

inline constexpr std::size_t n = 500;  // values of a buffer

/// y[i] = x[i] + amount
struct AddTo {
  REPRISE_KERNEL void operator()(Thread t, const int* x, int amount, int* y, std::size_t count) const {
    if (t.global_x() < count) y[t.global_x()] = x[t.global_x()] + amount;
  }
  static auto accesses(const int* x, int, int* y, std::size_t count) {
    return std::array{reads(x, count), writes(y, count)};
  }
};

inline void add_to(const StreamRef& stream, const Buffer<int>& x, int amount, Buffer<int>& y) {
  launch(stream, LaunchConfig::cover(n, 64), AddTo{}, x.data(), amount, y.data(), n);
}

/// How a capture is made. Not in mode global: there any thread that waits for a stream breaks the captures of others.
inline GraphOptions random_options(std::mt19937& random) {
  GraphOptions made;
  made.capture_error_mode = random() % 2 == 0 ? CaptureMode::thread : CaptureMode::relaxed;
  made.discard_template = random() % 2 == 0;
  made.report = random() % 4 == 0 ? ReportDetail::full : ReportDetail::standard;
  return made;
}

/// After the work of the stream.
inline void expect_plus(const std::vector<int>& input, const Buffer<int>& result, int amount, const Stream& stream) {
  std::vector<int> found(n), expected = input;
  for (int& value : expected) value += amount;
  result.read_async(found);
  stream.synchronize();
  EXPECT_EQ(found, expected);
}

/// Empties the cache until `is_level` holds, for half a minute at most: the last replays' hold on the pools
/// ends a moment after the work itself.
template <class F>
void release_until(CachingAllocator& allocator, F&& is_level) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do {
    CUDAGraph().reset();
    allocator.empty_cache();
    std::this_thread::yield();
  } while (!is_level() && std::chrono::steady_clock::now() < deadline);
}

}  // namespace reprise::graphs::test
