// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "backend/monitor.h"
#include "reprise/reprise.h"
#include "tests/unit/graph/graph_fixture.h"

// Watches of the nodes of an executable: which launches they time.

namespace reprise::backend::test {
namespace {

using graphs::test::add;
using graphs::test::zeros;

class NodeWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    capture(graph_, [&] {
      add(x_);
      add(x_);
    });
    graph_.replay(stream_);
    stream_.synchronize();
    std::string why;
    // Under a sanitizer or a profiler, for one.
    if (watch(&why) == nullptr) GTEST_SKIP() << why;
  }

  std::shared_ptr<NodeWatch> watch(std::string* why) {
    return runtime_.monitor().watch_nodes(graph_.raw_cuda_graph(), graph_.raw_cuda_graph_exec(), why);
  }
  void replay() {
    graph_.replay(stream_);
    stream_.synchronize();
  }
  std::size_t taken(NodeWatch& watch) {
    std::vector<std::string> notes;
    const std::size_t count = watch.take(&notes).size();
    EXPECT_TRUE(notes.empty());
    return count;
  }
  void switch_first_node_off() {
    std::vector<GraphNodeHandle> nodes;
    Checked(runtime_).graph_nodes(graph_.raw_cuda_graph(), &nodes);
    Checked(runtime_).graph_node_set_enabled(graph_.raw_cuda_graph_exec(), nodes.at(0), false);
  }

  Backend& runtime_ = default_device().backend();
  Stream stream_;
  Buffer<int> x_ = zeros();
  CUDAGraph graph_{KeepGraph::yes};
  std::string why_;
};

TEST_F(NodeWatchTest, TellsNothingOfLaunchesBeforeIt) {
  const auto watching = watch(&why_);
  EXPECT_EQ(taken(*watching), 0U);
}

TEST_F(NodeWatchTest, TellsOfTheLastLaunchAlone) {
  const auto watching = watch(&why_);
  replay();
  EXPECT_EQ(taken(*watching), 2U);
  switch_first_node_off();
  replay();
  replay();
  EXPECT_EQ(taken(*watching), 1U);
}

TEST_F(NodeWatchTest, MayEndBeforeTheLaunchDoes) {
  auto watching = watch(&why_);
  graph_.replay(stream_);
  watching.reset();
  stream_.synchronize();
  watching = watch(&why_);
  replay();
  EXPECT_EQ(taken(*watching), 2U);
}

TEST_F(NodeWatchTest, OfAnExecutableThatIsGoneTellsNothingOnTheHostDevice) {
  if (runtime_.type() != DeviceType::host) GTEST_SKIP() << "CUPTI's records are there nevertheless";
  const auto watching = watch(&why_);
  replay();
  graph_.instantiate();
  EXPECT_EQ(taken(*watching), 0U);
}

TEST_F(NodeWatchTest, OfNoExecutableIsRefusedOnTheHostDevice) {
  if (runtime_.type() != DeviceType::host) GTEST_SKIP() << "the driver does not check handles";
  EXPECT_EQ(runtime_.monitor().watch_nodes(graph_.raw_cuda_graph(), nullptr, &why_), nullptr);
  EXPECT_EQ(why_, "There is no such executable graph: it was never made, or was destroyed.");
}

}  // namespace
}  // namespace reprise::backend::test
