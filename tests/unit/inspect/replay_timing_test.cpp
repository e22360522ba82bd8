// SPDX-License-Identifier: Apache-2.0
#include "inspect/timings/replay_timing.h"

#include <gtest/gtest.h>

// What follows from the times of nodes, and its text.

namespace reprise::inspect::test {
namespace {

NodeTiming node(std::size_t index, double start_us, double duration_us, const Annotation& annotation = {}) {
  NodeTiming made;
  made.index = index;
  made.number = std::to_string(index);
  made.name = "kernel_" + std::to_string(index);
  made.annotation = annotation;
  made.start_us = start_us;
  made.duration_us = duration_us;
  return made;
}

const Annotation forward = {{"name", "forward"}};
const Annotation layer = {{"layer", "2"}, {"name", "forward"}};

ReplayTiming summed_up(std::vector<NodeTiming> nodes) {
  ReplayTiming timing;
  timing.nodes = std::move(nodes);
  sum_up(timing);
  return timing;
}

TEST(ReplayTimingSums, NodesComeInTheOrderOfTheirStartWhichIsThatOfTheFirst) {
  const ReplayTiming timing = summed_up({node(0, 30, 1), node(1, 10, 2), node(2, 10, 3)});
  ASSERT_EQ(timing.nodes.size(), 3U);
  EXPECT_EQ(timing.nodes[0].index, 1U);
  EXPECT_EQ(timing.nodes[1].index, 2U) << "at the same time, as they came";
  EXPECT_EQ(timing.nodes[2].index, 0U);
  EXPECT_DOUBLE_EQ(timing.nodes[0].start_us, 0);
  EXPECT_DOUBLE_EQ(timing.nodes[2].start_us, 20);
}

TEST(ReplayTimingSums, TheTotalGoesToTheEndThatIsLast) {
  EXPECT_DOUBLE_EQ(summed_up({node(0, 0, 50), node(1, 10, 5)}).total_us, 50);
}

TEST(ReplayTimingSums, OfNoNodesAreZero) {
  const ReplayTiming timing = summed_up({});
  EXPECT_DOUBLE_EQ(timing.total_us, 0);
  EXPECT_TRUE(timing.annotations.empty());
}

TEST(ReplayTimingSums, AnAnnotationHasTheSumAndTheSpanOfItsNodes) {
  const ReplayTiming timing = summed_up({node(0, 0, 10, forward), node(1, 5, 20, forward), node(2, 7, 1)});
  ASSERT_EQ(timing.annotations.size(), 1U);
  EXPECT_EQ(timing.annotations[0].annotation, forward);
  EXPECT_EQ(timing.annotations[0].nodes, 2U);
  EXPECT_DOUBLE_EQ(timing.annotations[0].start_us, 0);
  EXPECT_DOUBLE_EQ(timing.annotations[0].span_us, 25);
  EXPECT_DOUBLE_EQ(timing.annotations[0].duration_us, 30) << "they overlap";
}

TEST(ReplayTimingSums, AnnotationsComeInTheOrderOfTheirFirstStartAndAreToldApartAsAWhole) {
  const ReplayTiming timing = summed_up({node(0, 9, 1, forward), node(1, 3, 1, layer), node(2, 4, 1, layer)});
  ASSERT_EQ(timing.annotations.size(), 2U);
  EXPECT_EQ(timing.annotations[0].annotation, layer);
  EXPECT_EQ(timing.annotations[0].nodes, 2U);
  EXPECT_EQ(timing.annotations[1].annotation, forward);
  EXPECT_EQ(timing.annotations[1].nodes, 1U);
  EXPECT_DOUBLE_EQ(timing.annotations[1].start_us, 6);
}

TEST(ReplayTimingText, ShowsNodesThenAnnotationsThenNotes) {
  ReplayTiming timing = summed_up({node(0, 100, 2.5, forward), node(1, 102.5, 10.25, layer)});
  timing.nodes[1].index.reset();
  timing.nodes[1].number.clear();
  timing.notes = {"One is missing."};
  EXPECT_EQ(timing.str(),
            "2 nodes in 12.750 us, from the first start to the last end\n"
            "    start us  duration us    node  name\n"
            "       0.000        2.500       0  kernel_0  [forward]\n"
            "       2.500       10.250       -  kernel_1  [forward, layer=2]\n"
            "    start us      span us       sum us   nodes  annotation\n"
            "       0.000        2.500        2.500       1  forward\n"
            "       2.500       10.250       10.250       1  forward, layer=2\n"
            "note: One is missing.\n");
}

TEST(ReplayTimingText, LeavesOutTablesThatWouldBeEmpty) {
  EXPECT_EQ(ReplayTiming{}.str(), "0 nodes in 0.000 us, from the first start to the last end\n");
  EXPECT_EQ(summed_up({node(7, 0, 1)}).str(),
            "1 node in 1.000 us, from the first start to the last end\n"
            "    start us  duration us    node  name\n"
            "       0.000        1.000       7  kernel_7\n");
}

}  // namespace
}  // namespace reprise::inspect::test
