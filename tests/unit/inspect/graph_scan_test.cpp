// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <utility>

#include "inspect/liveness/graph_scan.h"
#include "inspect/nodes/node_text.h"
#include "tests/support/warnings.h"
#include "tests/unit/inspect/made_graphs_fixture.h"

// What is read from the nodes of a template, and what they are called.

namespace reprise::inspect::test {
namespace {

using backend::Call;
using graphs::test::Add;
using reprise::test::Warnings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GraphScanTest : public MadeGraphs<> {
 protected:
  GraphScanTest() { outer_ = make(); }

  GraphNodeHandle add_kernel(GraphHandle graph, int* x) {
    std::size_t count = 1;
    int amount = 1;
    void* arguments[] = {&x, &amount, &count, nullptr};
    return MadeGraphs::add_kernel(graph, kernel_record<Add>(), arguments);
  }
  void add_packed_kernel(void** extra) { MadeGraphs::add_packed_kernel(outer_, kernel_record<Add>(), extra); }
  static std::vector<const void*> values(const GraphScan& scan) {
    std::vector<const void*> found;
    for (const ScannedWord& word : scan.words) found.push_back(reinterpret_cast<const void*>(word.value));
    return found;
  }
  std::vector<std::string> uses(const GraphScan& scan) {
    std::vector<std::string> texts;
    for (const ScannedWord& word : scan.words)
      texts.push_back(use_text(device_, scan.nodes[word.node], word.place, nullptr));
    return texts;
  }

  GraphHandle outer_ = nullptr;
  Buffer<int> x_ = graphs::test::zeros(8);
};

TEST_F(GraphScanTest, ReadsTheWordsOfKernelsCopiesAndSets) {
  Buffer<int> y = graphs::test::zeros(8);
  add_kernel(outer_, x_.data());
  add(outer_, backend::EmptyNodeParams{});
  add(outer_, backend::MemcpyNodeParams{y.data(), x_.data(), 4});
  add(outer_, backend::MemsetNodeParams{y.data(), 0, 1, 4});
  const GraphScan scan = scan_graph(device_, outer_);
  std::vector<const void*> values;
  for (const ScannedWord& word : scan.words) values.push_back(reinterpret_cast<const void*>(word.value));
  EXPECT_THAT(values, ElementsAre(x_.data(), x_.data(), y.data(), y.data()));
  EXPECT_THAT(uses(scan), ElementsAre("kernel reprise::graphs::test::Add (node 0)", "memcpy source (node 2)",
                                      "memcpy destination (node 2)", "memset destination (node 3)"));
}

TEST_F(GraphScanTest, GoesThroughChildGraphsAndBodiesOfConditionalNodes) {
  const GraphHandle child = make(), body = make(), other_body = make();
  add_kernel(child, x_.data());
  add(body, backend::EmptyNodeParams{});
  add_kernel(other_body, x_.data());
  backend::ConditionalNodeParams conditional;
  conditional.bodies = {body, other_body};
  device_.pretended.emplace(add(child, backend::EmptyNodeParams{}), conditional);
  add(outer_, backend::EmptyNodeParams{});
  device_.pretended.emplace(add(outer_, backend::EmptyNodeParams{}), backend::ChildGraphNodeParams{child});
  EXPECT_THAT(uses(scan_graph(device_, outer_)), ElementsAre("kernel reprise::graphs::test::Add (node 1.0)",
                                                             "kernel reprise::graphs::test::Add (node 1.1.1.0)"));
}

TEST_F(GraphScanTest, KnowsWhatAllocationNodesGiveToTheGraph) {
  device_.pretended.emplace(add(outer_, backend::EmptyNodeParams{}), backend::MemoryAllocateNodeParams{512, x_.data()});
  const GraphScan scan = scan_graph(device_, outer_);
  ASSERT_THAT(scan.own, SizeIs(1));
  EXPECT_EQ(scan.own[0].begin, reinterpret_cast<std::uintptr_t>(x_.data()));
  EXPECT_EQ(scan.own[0].bytes, 512U);
}

TEST_F(GraphScanTest, WhatTheRuntimeDoesNotProvideIsAnOmission) {
  add_kernel(outer_, x_.data());
  add(outer_, backend::EmptyNodeParams{});
  add(outer_, backend::MemsetNodeParams{x_.data(), 0, 1, 4});
  device_.fail(Call::function_param_info, ErrorCode::not_supported);
  device_.fail(Call::graph_node_params, ErrorCode::not_supported, 1);
  const GraphScan scan = scan_graph(device_, outer_);
  EXPECT_THAT(uses(scan), ElementsAre("memset destination (node 2)"));
  EXPECT_EQ(omissions_text(device_, scan.nodes, scan.omissions),
            "the parameters of the kernel reprise::graphs::test::Add (node 0) are not known, cuFuncGetParamInfo failed "
            "with cudaErrorNotSupported (801); and so for 1 more nodes");
}

/// Arguments of Add, in the layout of its parameters, and what a launch takes with `extra`.
struct PackedAdd {
  int* x;
  int amount = 1;
  int padding = 0;
  std::size_t count = 8;
  std::size_t bytes = 24;
  void* extra[5] = {reinterpret_cast<void*>(1), this, reinterpret_cast<void*>(2), &bytes, nullptr};
};

TEST_F(GraphScanTest, ReadsArgumentsThatLieInOneBlock) {
  PackedAdd arguments{x_.data()};
  add_packed_kernel(arguments.extra);
  const GraphScan scan = scan_graph(device_, outer_);
  EXPECT_THAT(values(scan), ElementsAre(x_.data()));
  EXPECT_THAT(uses(scan), ElementsAre("kernel reprise::graphs::test::Add (node 0)"));
  EXPECT_THAT(scan.omissions, IsEmpty());
}

TEST_F(GraphScanTest, ReadsAllOfSuchABlockIfItsLayoutIsNotKnown) {
  PackedAdd arguments{x_.data()};
  add_packed_kernel(arguments.extra);
  device_.fail(Call::function_param_info, ErrorCode::not_supported);
  const GraphScan scan = scan_graph(device_, outer_);
  EXPECT_THAT(values(scan), ::testing::Contains(x_.data()));
  EXPECT_THAT(scan.omissions, IsEmpty());
}

TEST_F(GraphScanTest, ABlockThatCannotBeReadIsAnOmissionWithItsReason) {
  void* unknown[] = {reinterpret_cast<void*>(7), nullptr, nullptr};
  add_packed_kernel(unknown);
  PackedAdd truncated{x_.data()};
  truncated.bytes = 12;
  add_packed_kernel(truncated.extra);
  add_packed_kernel(nullptr);
  const GraphScan scan = scan_graph(device_, outer_);
  std::vector<std::string> texts;
  for (const Omission& omission : scan.omissions)
    texts.push_back(omission_text(device_, scan.nodes[omission.node], omission, nullptr));
  const std::string kernel = "the parameters of the kernel reprise::graphs::test::Add (node ";
  EXPECT_THAT(
      texts,
      ElementsAre(
          kernel + "0) are not known, its `extra` arguments have an unknown form",
          kernel + "1) are not known, its block of `extra` arguments has 12 bytes, and parameters lie past its end",
          kernel + "2) are not known, the driver has no arguments of it"));
}

/// What `body` captures on this device.
template <class Body>
GraphHandle captured_by(const Body& body) {
  const Stream stream;
  const StreamGuard guard(stream);
  const backend::Checked runtime(default_device().backend());
  runtime.stream_begin_capture(stream.native(), CaptureMode::relaxed);
  body();
  GraphHandle graph = nullptr;
  runtime.stream_end_capture(stream.native(), &graph);
  return graph;
}

TEST_F(GraphScanTest, TakesTheOperandsOfTheLibrarysOwnKernelsAndNothingElse) {
  // A pattern and a size that look like addresses, and the rest of a table that a larger batch used before.
  Buffer<std::uintptr_t> filled(8), unrelated(8);
  Buffer<int> y = graphs::test::zeros(8);
  const auto look_alike = reinterpret_cast<std::uintptr_t>(unrelated.data());
  const std::vector<CopyOp> copies(batch_ops_per_kernel + 1, CopyOp{y.data(), x_.data(), 4});
  graphs_.push_back(captured_by([&] {
    fill_batch_async(std::array{make_fill(filled.data(), look_alike, 8)});
    copy_batch_async(copies);
  }));
  const GraphScan scan = scan_graph(device_, graphs_.back());
  std::size_t of_second_table = 0;
  for (const ScannedWord& word : scan.words) {
    EXPECT_NE(word.value, look_alike);
    if (word.node == 2) ++of_second_table;
  }
  ASSERT_FALSE(scan.words.empty());
  EXPECT_EQ(reinterpret_cast<const void*>(scan.words.front().value), filled.data());
  EXPECT_EQ(of_second_table, 2U) << "one copy has a source and a destination";
}

TEST_F(GraphScanTest, AnyOtherFailureOfTheRuntimeIsAnError) {
  add_kernel(outer_, x_.data());
  device_.fail(Call::graph_node_params, ErrorCode::launch_failure);
  EXPECT_THROW(scan_graph(device_, outer_), BackendError);
  device_.fail(Call::graph_nodes, ErrorCode::launch_failure);
  EXPECT_THROW(scan_graph(device_, outer_), BackendError);
}

TEST_F(GraphScanTest, AKernelWithoutANameIsAKernel) {
  const Warnings warnings;
  add_kernel(outer_, x_.data());
  const GraphScan scan = scan_graph(device_, outer_);
  device_.fail(Call::function_name, ErrorCode::invalid_handle);
  EXPECT_THAT(uses(scan), ElementsAre("kernel (node 0)"));
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("cuFuncGetName")));
}

}  // namespace
}  // namespace reprise::inspect::test
