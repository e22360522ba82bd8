// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// Recapture::differences: what differed, where a recapture made a new executable.

namespace reprise::graphs::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RecaptureDifferences : public ::testing::TestWithParam<KeepGraph> {
 protected:
  static std::vector<std::string> texts(const std::vector<GraphDifference>& differences) {
    std::vector<std::string> found;
    for (const GraphDifference& each : differences) found.push_back(each.str());
    return found;
  }
  /// Captures the first body, and the second one with one node more in its place; whether the list is that of diff(),
  /// and has the `count` differences of the bodies.
  void compare(const std::function<void()>& first, const std::function<void()>& second, std::size_t count) {
    const auto with_more = [&] { second(), add(y_); };
    CUDAGraph one(GetParam()), other(GetParam()), graph(GetParam());
    capture(one, options_, first);
    capture(other, options_, with_more);
    capture(graph, options_, first);
    graph.replay();
    const Recapture result = graph.recapture(with_more);
    EXPECT_FALSE(result.in_place);
    EXPECT_THAT(texts(result.differences), ElementsAreArray(texts(diff(one, other))));
    EXPECT_THAT(result.differences, SizeIs(count + 1));
  }

  const SideStream side_;
  Buffer<int> x_ = zeros(4), y_ = zeros(4);
  GraphOptions options_{.enable_annotations = true};
  void* data_of_host_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Kept, RecaptureDifferences, ::testing::Values(KeepGraph::no, KeepGraph::yes),
                         [](const auto& kept) { return kept.param == KeepGraph::yes ? "yes" : "no"; });

TEST_P(RecaptureDifferences, AreThoseThatDiffLists) {
  const auto body = [&](int number) {
    Buffer<int> scratch(8);
    scratch.fill_bytes_async(number);
    {
      const annotate scope("forward");
      add(x_, 7), add(x_, number);
      launch(current_stream(), LaunchConfig{.grid = Dim3(number), .block = Dim3(4)}, Add{}, x_.data(), 1, x_.size());
    }
    copy_async(number == 1 ? x_.data() : y_.data(), scratch.data(), 4 * static_cast<std::size_t>(number));
    call_on_host(
        current_stream(), number == 1 ? [](void*) {} : [](void* data) { *static_cast<void**>(data) = data; },
        &data_of_host_);
  };
  compare([&] { body(1); }, [&] { body(2); }, 6);
}

TEST_P(RecaptureDifferences, NameNodesOfChildGraphs) {
  const auto captured = [&](int amount) {
    CUDAGraph graph(GetParam());
    capture(graph, options_, [&] {
      add(x_);
      const annotate scope("inner");
      add(x_, amount);
    });
    return graph;
  };
  const CUDAGraph one = captured(1), two = captured(2);
  const auto body = [&](const CUDAGraph& child) {
    const annotate scope("outer");
    add(y_);
    add_child(child);
  };
  compare([&] { body(one); }, [&] { body(two); }, 1);
}

TEST_P(RecaptureDifferences, OfOtherKernelsAreThoseThatDiffLists) {
  const auto body = [&](bool swapped) {
    if (swapped) multiply(x_, 2, y_);
    add(x_, 1);
    if (!swapped) multiply(x_, 3, y_);
  };
  compare([&] { body(false); }, [&] { body(true); }, 1);
}

TEST_P(RecaptureDifferences, HaveALimitOfIterationsThatChanged) {
  const Buffer<std::uint32_t> condition(1);
  const auto body = [&](std::uint32_t limit) { while_(condition.data(), [&] { add(x_); }, {.max_iterations = limit}); };
  CUDAGraph graph(GetParam());
  capture(graph, [&] { body(3); });
  graph.replay();
  const Recapture result = graph.recapture([&] { body(4); });
  EXPECT_FALSE(result.in_place);
  EXPECT_THAT(texts(result.differences), ElementsAre("conditional (node 1): max_iterations: 3, then 4"));
}

TEST_P(RecaptureDifferences, ComeWithTheNodesThatStayDisabled) {
  CUDAGraph graph(GetParam());
  const auto body = [&](int amount, bool more) {
    add(x_, amount);
    const annotate scope("second");
    multiply(x_, amount, y_);
    if (more) add(x_);
  };
  capture(graph, options_, [&] { body(1, false); });
  graph.replay();
  graph.node("second").set_enabled(false);
  const Recapture in_place = graph.recapture([&] { body(2, false); });
  EXPECT_TRUE(in_place.in_place);
  ASSERT_THAT(in_place.disabled, SizeIs(1));
  EXPECT_EQ(in_place.disabled[0].str(), "kernel reprise::graphs::test::Multiply (node 1) in second");
  EXPECT_EQ(in_place.disabled[0].index, 1U);
  EXPECT_FALSE(graph.node("second").enabled());

  const Recapture anew = graph.recapture([&] { body(2, true); });
  EXPECT_FALSE(anew.in_place);
  EXPECT_THAT(anew.disabled, IsEmpty());
  EXPECT_THAT(texts(anew.differences),
              Contains("kernel reprise::graphs::test::Multiply (node 1) in second: enabled: no, then yes"));
  EXPECT_TRUE(graph.nodes()[1].enabled());
  EXPECT_THAT(graph.recapture([&] { body(3, true); }).disabled, IsEmpty());
}

// Which each replay needs.
TEST_P(RecaptureDifferences, OfAKernelOfTheLibraryInThePlaceOfADisabledNodeMakeANewExecutable) {
  const auto batch = [&] { fill_batch_async(std::array{make_fill(x_.data(), 7, 1)}); };
  CUDAGraph graph(GetParam()), other(GetParam());
  capture(graph, options_, [&] { add(x_); });
  capture(other, options_, batch);
  graph.replay();
  graph.nodes()[0].set_enabled(false);
  EXPECT_THAT(text_of<GraphUpdateError>([&] { graph.update(other); }),
              HasSubstr("the library's own, which each replay needs, and the node in its place is disabled"));
  EXPECT_FALSE(graph.nodes()[0].enabled());
  EXPECT_EQ(graph.node("Add").arg<int>(1), 1) << "nothing has changed";
  const Recapture result = graph.recapture(batch);
  EXPECT_FALSE(result.in_place);
  EXPECT_THAT(result.reason, HasSubstr("enable that one before"));
  EXPECT_THAT(result.disabled, IsEmpty());
  graph.replay();
  EXPECT_EQ(read(x_).front(), 7);
  EXPECT_TRUE(graph.recapture(batch).in_place);
}

TEST_P(RecaptureDifferences, StayAsTheyWereWhenGraphAndMemoryAreGone) {
  std::optional<Recapture> result;
  {
    Buffer<int> before = zeros(4), after = zeros(4);
    CUDAGraph graph(GetParam());
    capture(graph, options_, [&] { add(before, 1); });
    graph.replay();
    result = graph.recapture([&] {
      const annotate scope("changed");
      add(after, 1), add(after, 1);
    });
    EXPECT_FALSE(graph.recapture([&] { add(before, 5); }).in_place);
    current_stream().synchronize();
  }
  ASSERT_THAT(result->differences, SizeIs(2));
  const GraphDifference& found = result->differences.front();
  EXPECT_THAT(found.str(), HasSubstr("Add (node 0) in changed: argument 0: "));
  EXPECT_THAT(found.first_value, HasSubstr("(offset 0 of 512 bytes at 0x"));
  EXPECT_THAT(found.second_value, HasSubstr("(offset 0 of 512 bytes at 0x"));
}

}  // namespace
}  // namespace reprise::graphs::test
