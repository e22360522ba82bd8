// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <vector>

#include "tests/support/faulty_backend.h"
#include "tests/unit/graph/graph_fixture.h"

// Templates that are made node by node, to be read.

namespace reprise::inspect::test {

/// A device whose nodes can be said to be of a type that it does not have.
class Pretending : public backend::test::FaultyBackend {
 public:
  using FaultyBackend::FaultyBackend;
  backend::Result graph_node_params(GraphNodeHandle node, backend::NodeParams* params) override {
    const auto found = pretended.find(node);
    if (found == pretended.end()) return FaultyBackend::graph_node_params(node, params);
    *params = found->second;
    return ErrorCode::success;
  }
  std::map<GraphNodeHandle, backend::NodeParams> pretended;
};

/// \tparam Runtime the device, derived from Pretending.
template <class Runtime = Pretending>
class MadeGraphs : public ::testing::Test {
 protected:
  ~MadeGraphs() override {
    for (const GraphHandle graph : graphs_) EXPECT_EQ(device_.graph_destroy(graph), ErrorCode::success);
  }
  GraphHandle make() {
    GraphHandle graph = nullptr;
    EXPECT_EQ(device_.graph_create(&graph), ErrorCode::success);
    graphs_.push_back(graph);
    return graph;
  }
  GraphNodeHandle add(GraphHandle graph, backend::NodeParams params) {
    GraphNodeHandle node = nullptr;
    EXPECT_EQ(device_.graph_add_node(&node, graph, {}, params), ErrorCode::success);
    return node;
  }
  GraphNodeHandle add_kernel(GraphHandle graph, const KernelRecord& record, void** arguments) {
    backend::KernelNodeParams kernel = kernel_of(record);
    kernel.params = arguments;
    return add(graph, kernel);
  }
  /// A kernel node that has its arguments in one block.
  void add_packed_kernel(GraphHandle graph, const KernelRecord& record, void** extra) {
    backend::KernelNodeParams kernel = kernel_of(record);
    kernel.extra = extra;
    const backend::NodeParams empty = backend::EmptyNodeParams{};  // nvcc takes it for {} as an argument here
    device_.pretended.emplace(add(graph, empty), kernel);
  }

  Runtime device_{default_device().backend()};
  std::vector<GraphHandle> graphs_;

 private:
  backend::KernelNodeParams kernel_of(const KernelRecord& record) {
    backend::KernelNodeParams kernel;
    EXPECT_EQ(device_.kernel_function(record, &kernel.function), ErrorCode::success);
    return kernel;
  }
};

}  // namespace reprise::inspect::test
