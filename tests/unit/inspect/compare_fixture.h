// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

#include "backend/check.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of compare() share.

namespace reprise::inspect::test {

using graphs::test::Add;
using graphs::test::add;
using graphs::test::Multiply;
using graphs::test::multiply;
using graphs::test::SideStream;
using graphs::test::zeros;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// *to = address
struct Store {
  REPRISE_KERNEL void operator()(Thread t, int** to, int* address) const {
    if (t.global_x() == 0) *to = address;
  }
};

/// x[i] = where the random numbers of the launch begin
struct SeedAndOffset {
  REPRISE_KERNEL void operator()(Thread t, PhiloxState state, int* x, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] = static_cast<int>(state.seed() + state.offset());
  }
};

class CompareTest : public ::testing::Test {
 protected:
  CompareTest() {
    x_.write(std::vector<int>{1, 2, 3, 4});
    y_.write(std::vector<int>{5, 6, 7, 8});
  }

  /// Compares, and expects the memory to be as before.
  Comparison compare_now(CaptureBody body) {
    const auto x = graphs::test::read(x_), y = graphs::test::read(y_);
    Comparison found = compare(graph_, body);
    EXPECT_EQ(graphs::test::read(x_), x);
    EXPECT_EQ(graphs::test::read(y_), y);
    return found;
  }

  const SideStream current_;
  Buffer<int> x_{4}, y_{4};
  CUDAGraph graph_;
};

}  // namespace reprise::inspect::test
