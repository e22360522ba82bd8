// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of caches share: bodies, and inputs.

namespace reprise::caches::test {

using graphs::test::Add;
using graphs::test::contains;
using graphs::test::Multiply;
using graphs::test::read;
using graphs::test::SideStream;
using graphs::test::text_of;
using graphs::test::zeros;
using reprise::test::Warnings;

inline constexpr std::size_t n = 100;  ///< values of most inputs

/// The values 1, 2, ... times `factor`, there when this returns.
inline Buffer<int> counting(std::size_t count, int factor = 1) {
  std::vector<int> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(factor * static_cast<int>(i + 1));
  Buffer<int> made(count);
  made.write(values);
  return made;
}

/// The same on the host.
inline std::vector<int> multiples(std::size_t count, int factor) {
  std::vector<int> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(factor * static_cast<int>(i + 1));
  return values;
}

/// A body that returns `factor` times its input, by way of memory of its own.
struct Multiplying {
  Buffer<int> operator()(DeviceView<const int> x) {
    ++runs;
    Buffer<int> scratch(x.size()), y(x.size());
    launch(x.size(), Multiply{}, x.data(), factor, scratch.data(), x.size());
    launch(x.size(), Multiply{}, static_cast<const int*>(scratch.data()), 1, y.data(), x.size());
    return y;
  }

  int factor = 2;
  int runs = 0;  ///< of its code on the host
};

/// A body that changes its input in place.
struct Incrementing {
  void operator()(DeviceView<int> x) {
    ++runs;
    launch(x.size(), Add{}, x.data(), 1, x.size());
  }

  int runs = 0;
};

/// Calls until the key has a graph.
template <class Run>
void call_until_captured(const GraphCache& cache, const CacheKey& key, const Run& run) {
  for (int i = 0; i < 10 && !cache.contains(key); ++i) run();
  ASSERT_TRUE(cache.contains(key));
}

}  // namespace reprise::caches::test
