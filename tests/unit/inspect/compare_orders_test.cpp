// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "inspect/compare/node_order.h"
#include "tests/unit/inspect/compare_fixture.h"

// compare(): orders that the edges of a graph allow, and nodes that lack an edge.

namespace reprise::inspect::test {
namespace {

using ::testing::SizeIs;
using ::testing::StartsWith;

class CompareOrders : public CompareTest {
 protected:
  /// Captures the body, drops an edge of the graph, and expects the two nodes to be named.
  void expect_found(CaptureBody body, std::size_t from, std::size_t to, int orders = 20) {
    graph_ = CUDAGraph(KeepGraph::yes);
    capture(graph_, body);
    EXPECT_THAT(compare_now(body, {.orders = orders}).missing_edges, IsEmpty());
    drop_edge(from, to);
    const Comparison found = compare_now(body, {.orders = orders});
    EXPECT_FALSE(found.difference) << "the usual order leaves the same";
    ASSERT_THAT(found.missing_edges, SizeIs(1));
    const MissingEdge& edge = found.missing_edges.front();
    EXPECT_FALSE(edge.in_new_capture);
    EXPECT_EQ(edge.one.index, from);
    EXPECT_EQ(edge.other.index, to);
    EXPECT_NE(edge.address, nullptr);
    EXPECT_NE(edge.first_value, edge.second_value);
  }

  const Stream side_, third_;
};

TEST_F(CompareOrders, AreNotTriedWhereTheGraphsHaveOtherNodes) {
  bool again = false;
  const auto body = [&] {
    add(x_);
    if (again) multiply(x_, 2, y_);
  };
  capture(graph_, body);
  again = true;
  const Comparison found = compare_now(body, {.orders = 1});
  ASSERT_TRUE(found.difference);
  EXPECT_EQ(found.orders, 0);
  EXPECT_THAT(found.notes, ::testing::Contains(::testing::HasSubstr("it is not known what memory they use")));
}

TEST_F(CompareOrders, FindsTheDroppedEdgeOfANodeThatReadsWhatAnotherOneWrote) {
  expect_found(
      [&] {
        add(x_);
        multiply(x_, 2, y_);
      },
      0, 1);
}

TEST_F(CompareOrders, FindsTheDroppedEdgeOfANodeThatWritesWhatAnotherOneRead) {
  expect_found(
      [&] {
        copy_async(y_.data(), x_.data(), 16);
        x_.fill_bytes_async(0);
      },
      0, 1);
}

TEST_F(CompareOrders, FindsTheDroppedEdgeOfTwoNodesThatWriteTheSame) {
  expect_found(
      [&] {
        fill_async(x_.data(), 1, 16);
        fill_async(x_.data(), 2, 8);
        copy_async(y_.data(), x_.data(), 16);
      },
      0, 1);
}

TEST_F(CompareOrders, FindsTheDroppedEdgeBetweenTwoStreams) {
  Buffer<int> z = zeros(4);
  expect_found(
      [&] {
        add(x_);  // 0
        side_.wait(current_stream());
        add(z, 1, side_);          // 1
        multiply(z, 2, z, side_);  // 2
        add(y_);                   // 3
        current_stream().wait(side_);
        multiply(z, 3, y_);  // 4
        add(y_);             // 5
      },
      2, 4);
}

TEST_F(CompareOrders, NamesTheNodesAndWhatDependsOnTheirOrder) {
  graph_ = CUDAGraph(KeepGraph::yes);
  const auto body = [&] {
    add(x_);
    multiply(x_, 2, y_);
  };
  capture(graph_, body);
  drop_edge(0, 1);
  const Comparison found = compare_now(body, {.orders = 2});
  EXPECT_FALSE(found.same());
  EXPECT_THAT(found.str(), StartsWith("Missing edge: kernel "));
  EXPECT_THAT(found.str(), HasSubstr("Multiply (node 1): no edges order them, but the 13 bytes from 0x"));
  EXPECT_THAT(found.parameters, SizeIs(1)) << "the dependency";
}

TEST_F(CompareOrders, FindsTheMissingEdgeOfTheNewCapture) {
  const auto right = [&] {
    side_.wait(current_stream());
    add(x_, 1, side_);
    current_stream().wait(side_);
    multiply(x_, 2, y_);
  };
  const auto wrong = [&] {
    side_.wait(current_stream());
    add(x_, 1, side_);
    multiply(x_, 2, y_);
    current_stream().wait(side_);
  };
  graph_ = capture(right);
  const Comparison found = compare_now(wrong, {.orders = 2});
  ASSERT_THAT(found.missing_edges, SizeIs(1));
  EXPECT_TRUE(found.missing_edges[0].in_new_capture);
}

TEST_F(CompareOrders, FindsTheDroppedEdgeWithinAChildGraph) {
  CUDAGraph child(KeepGraph::yes);
  capture(child, [&] {
    add(x_);
    multiply(x_, 2, y_);
  });
  const auto body = [&] {
    add(x_);
    add_child(child);
    add(x_);
  };
  graph_ = std::move(child);
  drop_edge(0, 1);
  child = std::move(graph_);
  graph_ = capture(body);
  const Comparison found = compare_now(body, {.orders = 3});
  ASSERT_THAT(found.missing_edges, SizeIs(2)) << "of both";
  EXPECT_EQ(found.missing_edges[0].one.number, "1.0");
  EXPECT_EQ(found.missing_edges[0].other.number, "1.1");
}

// Each node depends on what the one before it left, so that each edge counts.
TEST_F(CompareOrders, FindsEachDroppedEdgeOfRandomProgramsWithinTwentyOrders) {
  std::size_t mutants = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t count = 3 + random() % 5;
    std::vector<int> kinds(count);
    for (int& kind : kinds) kind = static_cast<int>(random() % 3);
    const auto body = [&] {
      const Stream* const streams[] = {&side_, &third_};
      const StreamRef first = current_stream();
      StreamRef last = first;
      for (std::size_t i = 0; i < count; ++i) {
        const StreamRef on = i % 3 == 0 ? first : streams[i % 3 - 1]->ref();
        if (on != last) on.wait(last);
        last = on;
        if (kinds[i] == 0) add(x_, static_cast<int>(i) + 1, on);
        if (kinds[i] == 1) multiply(x_, 3, x_, on), add(x_, 5, on);
        if (kinds[i] == 2) multiply(x_, 7, x_, on), add(x_, 11, on);
        if (kinds[i] == 0) multiply(x_, 13, x_, on);
      }
      if (last != first) first.wait(last);
    };
    for (std::size_t from = 0; from + 1 < 2 * count; from += 3, ++mutants) {
      graph_ = CUDAGraph(KeepGraph::yes);
      capture(graph_, body);
      drop_edge(from, from + 1);
      const Comparison found = compare_now(body, {.orders = 20, .seed = seed});
      ASSERT_THAT(found.missing_edges, SizeIs(1)) << "seed " << seed << ", edge " << from;
      EXPECT_LE(found.missing_edges[0].one.index, from);
      EXPECT_GT(found.missing_edges[0].other.index, from);
    }
  }
  EXPECT_GT(mutants, 15U);
}

TEST_F(CompareOrders, FindsTheDroppedEdgeOfOneOfManyChainsWithinTwentyOrders) {
  for (const std::size_t chains : {4, 9, 16}) {
    const std::vector<Stream> streams(chains);
    std::vector<Buffer<int>> values;
    for (std::size_t i = 0; i < chains; ++i) values.push_back(zeros(4));
    const auto body = [&] {
      for (std::size_t i = 0; i < chains; ++i) {
        streams[i].wait(current_stream());
        add(values[i], 1, streams[i]);
        multiply(values[i], 3, values[i], streams[i]);
        add(values[i], 2, streams[i]);
      }
      for (const Stream& stream : streams) current_stream().wait(stream);
    };
    for (std::size_t chain = 0; chain < chains; chain += 3) {
      graph_ = CUDAGraph(KeepGraph::yes);
      capture(graph_, body);
      const std::size_t from = 3 * chain + chain % 2;
      drop_edge(from, from + 1);
      const Comparison found = compare_now(body, {.orders = 20, .seed = chain});
      ASSERT_THAT(found.missing_edges, SizeIs(1)) << chains << " chains, edge " << from;
      EXPECT_EQ(found.missing_edges[0].one.index, from);
      EXPECT_EQ(found.missing_edges[0].other.index, from + 1);
    }
  }
}

StepsBefore random_steps(std::mt19937_64& random, std::size_t count) {
  StepsBefore before(count);
  for (std::size_t to = 1; to < count; ++to)
    for (std::size_t from = 0; from < to; ++from)
      if (random() % count < 2) before[to].push_back(from);
  return before;
}

std::vector<std::size_t> places(const std::vector<std::size_t>& order) {
  std::vector<std::size_t> of(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) of[order[i]] = i;
  return of;
}

TEST(OtherOrders, HaveEachTwoStepsWithoutAPathInBothOrdersWithinAsManyOrdersAsThereAreChains) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const std::size_t count = 2 + random() % 20;
    const StepsBefore before = random_steps(random, count);
    OtherOrders orders(before, seed);
    std::set<std::pair<std::size_t, std::size_t>> seen;
    for (std::size_t i = 0; i < orders.chains(); ++i) {
      const std::vector<std::size_t> of = places(orders.next());
      ASSERT_THAT(of, SizeIs(count));
      for (std::size_t a = 0; a < count; ++a) {
        for (const std::size_t from : before[a]) ASSERT_LT(of[from], of[a]);
        for (std::size_t b = 0; b < count; ++b)
          if (of[a] < of[b]) seen.emplace(a, b);
      }
    }
    std::vector<std::set<std::size_t>> ancestors(count);
    for (std::size_t to = 0; to < count; ++to)
      for (const std::size_t from : before[to]) {
        ancestors[to].insert(from);
        ancestors[to].insert(ancestors[from].begin(), ancestors[from].end());
      }
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b)
        if (a != b && !ancestors[a].contains(b) && !ancestors[b].contains(a)) {
          EXPECT_TRUE(seen.contains({a, b})) << "seed " << seed << ": " << a << " before " << b;
        }
  }
}

TEST(OtherOrders, OfNoStepsAreEmpty) {
  const StepsBefore none;
  EXPECT_THAT(OtherOrders(none, 0).next(), IsEmpty());
}

TEST(OtherOrders, ABeginningOfAnotherOrderIsAllowedByTheSameEdges) {
  EXPECT_THAT(with_beginning({0, 1, 2, 3}, {2, 3, 0, 1}, 1), ElementsAre(2, 0, 1, 3));
  EXPECT_THAT(with_beginning({0, 1, 2, 3}, {2, 3, 0, 1}, 0), ElementsAre(0, 1, 2, 3));
}

TEST(OrderedSteps, LeaveOutWhatIsOnACycle) {
  EXPECT_THAT(ordered({{}, {2}, {1}, {0}}, [](std::size_t step) { return step; }), ElementsAre(0, 3));
}

}  // namespace
}  // namespace reprise::inspect::test
