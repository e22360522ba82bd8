// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <cstdint>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of CUDAGraph::update() share.

namespace reprise::graphs::test {

class GraphUpdate : public ::testing::TestWithParam<KeepGraph> {
 protected:
  void SetUp() override { settle_memory(); }

  /// Copies, sets and kernels, by way of memory of the pool.
  void work(Buffer<int>& to, int amount) {
    Buffer<int> scratch(to.size());
    scratch.fill_bytes_async(0);
    add(scratch, amount);
    copy_async(to.data(), scratch.data(), to.size_bytes());
  }
  CUDAGraph captured(Buffer<int>& to, int amount, const GraphOptions& options = {}) {
    CUDAGraph graph(GetParam());
    capture(graph, options, [&] { work(to, amount); });
    return graph;
  }
  /// Captured, and replayed once, so that there is an executable.
  CUDAGraph replayed(Buffer<int>& to, int amount, const GraphOptions& options = {}) {
    CUDAGraph graph = captured(to, amount, options);
    graph.replay();
    device_.synchronize();
    return graph;
  }
  std::uint64_t reserved(MempoolId pool) const {
    return CachingAllocator::of(default_device()).statistics(pool).reserved_bytes;
  }
  bool eventually_released(MempoolId pool) const {
    return eventually([&] { return reserved(pool) == 0; });
  }

  const Device device_ = default_device();
  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
};

}  // namespace reprise::graphs::test
