// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/monitor.h"
#include "tests/support/own_monitor.h"
#include "tests/unit/inspect/annotations_fixture.h"

// The ids by which profilers name annotated nodes.

namespace reprise::graphs::test {
namespace {

void capture_two(CUDAGraph& graph, Buffer<int>& x, const GraphOptions& options = annotated()) {
  capture(graph, options, [&] {
    const annotate scope("two");
    add(x);
    add(x);
  });
}

// A device whose profilers name every node but the last one.
class NamingDevice final : public backend::test::OwnMonitor {
 public:
  using OwnMonitor::OwnMonitor;
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle graph, GraphExecHandle,
                                                                  std::string* why) override {
    std::vector<GraphNodeHandle> nodes;
    EXPECT_EQ(graph_nodes(graph, &nodes), ErrorCode::success);
    std::unordered_map<GraphNodeHandle, std::uint64_t> ids;
    for (std::size_t i = 0; i + 1 < nodes.size(); ++i) ids.emplace(nodes[i], 700 + i);
    if (!no_reason) *why = "The last one has none.";
    return ids;
  }

  bool no_reason = false;
};

class ProfiledAnnotations : public ::testing::Test {
 protected:
  NamingDevice& naming_ = *new NamingDevice(default_device().backend());
  const DeviceGuard guard_{Device(naming_)};
  Buffer<int> x_ = zeros();
  CUDAGraph graph_{KeepGraph::yes};
};

TEST_F(ProfiledAnnotations, HaveTheIdsOfTheExecutableOrAReason) {
  capture_two(graph_, x_);
  graph_.instantiate();
  const std::vector<AnnotatedNode> nodes = graph_.annotations();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].profiler_id, 700U);
  EXPECT_EQ(nodes[0].no_profiler_id, "");
  EXPECT_EQ(nodes[1].profiler_id, std::nullopt);
  EXPECT_EQ(nodes[1].no_profiler_id, "The last one has none.");
}

TEST_F(ProfiledAnnotations, HaveNoIdsBeforeThereIsAnExecutable) {
  capture_two(graph_, x_);
  ASSERT_EQ(graph_.annotations().size(), 2U);
  EXPECT_TRUE(contains(graph_.annotations()[0].no_profiler_id, "instantiate the graph, or replay it once"));
}

TEST_F(ProfiledAnnotations, HaveNoIdsWithoutTheTemplate) {
  GraphOptions options = annotated();
  options.discard_template = true;
  graph_ = CUDAGraph();
  capture_two(graph_, x_, options);
  ASSERT_EQ(graph_.annotations().size(), 2U);
  EXPECT_TRUE(contains(graph_.annotations()[0].no_profiler_id, "discard_template"));
}

TEST_F(ProfiledAnnotations, SayThatANodeWasRemoved) {
  capture_two(graph_, x_);
  graph_.instantiate();
  naming_.no_reason = true;
  EXPECT_EQ(graph_.annotations()[1].no_profiler_id, "The node was removed from the template.");
}

TEST_F(Annotations, HaveAReasonForEachIdThatAProfilerWouldNotKnow) {
  capture_two(graph_, x_);
  ASSERT_EQ(graph_.annotations().size(), 2U);
  for (const AnnotatedNode& node : graph_.annotations())
    EXPECT_NE(node.profiler_id.has_value(), !node.no_profiler_id.empty());
  if (default_device().type() == DeviceType::host) {
    EXPECT_EQ(graph_.annotations()[0].no_profiler_id, "A simulated device has no profiler that would name its nodes.");
  }
}

// Another tool may hold CUPTI; it is loaded nevertheless.
TEST_F(Annotations, HaveIdsOnceCuptiIsLoaded) {
  if (default_device().type() != DeviceType::cuda) GTEST_SKIP() << "the device has no profilers";
  capture_two(graph_, x_);
  try {
    static_cast<void>(time_replay(graph_));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const std::vector<AnnotatedNode> nodes = graph_.annotations();
  ASSERT_EQ(nodes.size(), 2U);
  ASSERT_TRUE(nodes[0].profiler_id && nodes[1].profiler_id) << nodes[0].no_profiler_id;
  EXPECT_EQ(*nodes[0].profiler_id + 1, *nodes[1].profiler_id) << "one after the other in one executable";
}

}  // namespace
}  // namespace reprise::graphs::test
