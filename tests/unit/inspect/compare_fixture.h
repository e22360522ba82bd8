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

/// x[i] /= by
struct Divide {
  REPRISE_KERNEL void operator()(Thread t, float* x, float by, std::size_t n) const {
    if (t.global_x() < n) x[t.global_x()] /= by;
  }
};

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
  Comparison compare_now(CaptureBody body, const CompareOptions& options = {}) {
    const auto x = graphs::test::read(x_), y = graphs::test::read(y_);
    Comparison found = compare(graph_, body, options);
    EXPECT_EQ(graphs::test::read(x_), x);
    EXPECT_EQ(graphs::test::read(y_), y);
    return found;
  }

  /// Removes the edge between two nodes of the graph, which was captured with KeepGraph::yes.
  void drop_edge(std::size_t from, std::size_t to) {
    const backend::Checked runtime(graph_.device().backend());
    std::vector<GraphNodeHandle> nodes;
    runtime.graph_nodes(graph_.raw_cuda_graph(), &nodes);
    const backend::Edge edge{nodes.at(from), nodes.at(to)};
    runtime.graph_remove_dependencies(graph_.raw_cuda_graph(), {&edge, 1});
  }

  const SideStream current_;
  Buffer<int> x_{4}, y_{4};
  CUDAGraph graph_;
};

}  // namespace reprise::inspect::test
