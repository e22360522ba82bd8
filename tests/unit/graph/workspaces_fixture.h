// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// What the tests of workspaces share.

namespace reprise::graphs::test {

inline constexpr std::size_t workspace_bytes = std::size_t{2} << 20;
inline constexpr std::size_t workspace_values = workspace_bytes / sizeof(int);

// What a library does with its workspace: writes there, and reads it again.
inline void use(const Workspace& workspace, int value, Buffer<int>& result,
                const StreamRef& stream = current_stream()) {
  ASSERT_TRUE(static_cast<bool>(workspace));
  int* const scratch = static_cast<int*>(workspace.data);
  const std::size_t n = workspace.bytes / sizeof(int);
  fill_async(scratch, 0, workspace.bytes, stream);
  launch(stream, n, Add{}, scratch, value, n);
  launch(stream, result.size(), Multiply{}, scratch + n - result.size(), 1, result.data(), result.size());
}

class GraphWorkspaces : public ::testing::Test {
 protected:
  void SetUp() override {
    settle_memory();
    options_.pool = graph_pool_handle();
  }
  PoolStatistics pool() const { return allocator_.statistics(options_.pool); }
  std::uint64_t allocated() const { return pool().allocated_bytes; }

  // A graph whose replay writes `value` to the result by way of a workspace, which it returns.
  Workspace capture_use(CUDAGraph& graph, int value, const GraphOptions& options) {
    Workspace workspace;
    capture(graph, options, [&] {
      workspace = library_workspace("test", workspace_bytes);
      use(workspace, value, result_);
    });
    return workspace;
  }
  Workspace capture_use(CUDAGraph& graph, int value) { return capture_use(graph, value, options_); }

  // What a replay leaves, after others had every chance to write to memory that is free.
  int replayed(CUDAGraph& graph) {
    std::vector<Buffer<int>> others;
    for (int i = 0; i < 3; ++i) {
      others.emplace_back(workspace_values);
      others.back().fill_bytes_async(0xff);
    }
    graph.replay();
    return first(result_);
  }

  CachingAllocator& allocator_ = CachingAllocator::of(default_device());
  GraphOptions options_;
  Buffer<int> result_ = zeros(16);
};

}  // namespace reprise::graphs::test
