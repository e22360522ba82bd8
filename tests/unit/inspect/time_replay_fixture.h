// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "backend/monitor.h"
#include "tests/unit/graph/graph_fixture.h"

// What the tests of replays that are timed share.

namespace reprise::graphs::test {

/// x[i] += something that takes a while.
struct Spin {
  REPRISE_KERNEL void operator()(Thread t, int* x, int rounds, std::size_t n) const {
    if (t.global_x() >= n) return;
    auto value = static_cast<unsigned>(x[t.global_x()]);
    for (int i = 0; i < rounds; ++i) value = value * 1664525U + 1013904223U;
    x[t.global_x()] = static_cast<int>(value);
  }
};

inline void spin(Buffer<int>& x, int rounds, const StreamRef& stream = current_stream()) {
  launch(stream, x.size(), Spin{}, x.data(), rounds, x.size());
}

class TimeReplay : public ::testing::Test {
 protected:
  void TearDown() override { stream_.synchronize(); }  // replays that were not timed use x_
  void SetUp() override {
    CUDAGraph graph{KeepGraph::yes};
    capture_increment(graph, x_);
    graph.replay(stream_);
    stream_.synchronize();
    std::string why;
    // Under a sanitizer or a profiler, for one.
    if (runtime_.monitor().watch_nodes(graph.raw_cuda_graph(), graph.raw_cuda_graph_exec(), &why) == nullptr)
      GTEST_SKIP() << why;
    x_.fill_bytes_async(0);
    current_stream().synchronize();
  }

  std::vector<GraphNodeHandle> template_nodes() {
    std::vector<GraphNodeHandle> nodes;
    backend::Checked(runtime_).graph_nodes(keeps_.raw_cuda_graph(), &nodes);
    return nodes;
  }

  backend::Backend& runtime_ = default_device().backend();
  Stream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_;
  CUDAGraph keeps_{KeepGraph::yes};
};

}  // namespace reprise::graphs::test
