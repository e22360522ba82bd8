// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tests/support/warnings.h"
#include "tests/unit/inspect/liveness_fixture.h"

// Memory that was freed before the end of the capture whose graph uses it.

namespace reprise::graphs::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Adds 1 to each value from `begin` to `end`.
struct AddInRange {
  REPRISE_KERNEL void operator()(Thread t, int* begin, const int* end) const {
    if (begin + t.global_x() < end) begin[t.global_x()] += 1;
  }
};

struct Places {
  int* used;
  int* perhaps;
};

/// Adds 1 to the first value at one of two places.
struct AddToFirstPlace {
  REPRISE_KERNEL void operator()(Thread t, Places places) const {
    if (t.global_x() == 0) *places.used += 1;
  }
};

/// Adds 1 where the number is not 0.
struct AddNumber {
  REPRISE_KERNEL void operator()(Thread t, std::size_t number, int* y) const {
    if (t.global_x() == 0) *y += number != 0 ? 1 : 0;
  }
};

class FreedInTheCapture : public ::testing::Test {
 protected:
  Buffer<int> x_ = zeros(n);
  Buffer<int> y_ = zeros(n);
  CUDAGraph graph_;
};

TEST_F(FreedInTheCapture, AnInputIsDeadInEachReplayAlsoWhereNoOptionLooksForInputs) {
  const void* const address = x_.data();
  capture(graph_, [&] {
    add(y_);
    multiply(x_, 3, y_);
    x_.reset();
  });
  const DeadInputError error = refusal(graph_);
  ASSERT_THAT(addresses(error.inputs()), ElementsAre(address));
  EXPECT_THAT(error.inputs()[0].nodes, ElementsAre("kernel reprise::graphs::test::Multiply (node 1)"));
  EXPECT_THAT(error.what(), HasSubstr("CUDAGraph::replay: 1 input of the graph is dead: it reads or writes memory that "
                                      "was freed before its capture ended. Nothing was launched."));
  EXPECT_THROW(graph_.replay(), DeadInputError);
  EXPECT_EQ(first(y_), 0);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)graph_.inputs(); }), "GraphOptions::check_input_liveness"));
  graph_.reset();
  capture(graph_, [&] { add(y_); });
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
}

TEST_F(FreedInTheCapture, AMemberThatTheBodyReplacedIsFoundInCopiesAndSets) {
  Buffer<int> scratch = zeros(n);
  const void* const address = scratch.data();
  const auto body = [&] {
    fill_async(scratch.data(), 0, scratch.size_bytes());
    copy_async(y_.data(), scratch.data(), scratch.size_bytes());
    scratch = Buffer<int>(2 * n);
    scratch.fill_bytes_async(0);
  };
  capture(graph_, body);
  const std::vector<DeadInput> dead = dead_inputs(graph_);
  ASSERT_THAT(addresses(dead), ElementsAre(address));
  EXPECT_THAT(dead[0].nodes, ElementsAre("memset destination (node 0)", "memcpy source (node 1)"));
}

TEST_F(FreedInTheCapture, WhatTheGraphDoesNotUseIsNoMatter) {
  const reprise::test::Warnings warnings;
  capture(graph_, [&] {
    add(y_);
    x_.reset();
  });
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
  EXPECT_THAT(warnings.texts(), IsEmpty());
}

TEST_F(FreedInTheCapture, MemoryOfThePoolIsTheGraphsOwn) {
  CUDAGraph maker;
  Buffer<int> made;
  capture(maker, [&] {
    Buffer<int> scratch(n);
    scratch.fill_bytes_async(0);
    made = Buffer<int>(n);
    multiply(scratch, 2, made);
  });
  capture(graph_, [&] {
    multiply(made, 1, y_);
    made.reset();
  });
  maker.replay();
  graph_.replay();
  EXPECT_EQ(first(y_), 0) << "nothing else gets memory of a pool whose graph is there";
}

TEST_F(FreedInTheCapture, AnotherValueOfTheNodeMakesReplaysRight) {
  const void* const address = x_.data();
  capture(graph_, [&] {
    add(x_);
    x_.reset();
  });
  EXPECT_THROW(graph_.replay(), DeadInputError);
  graph_.node("Add").set_arg(0, y_.data());
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
  graph_.node("Add").set_arg(0, static_cast<int*>(nullptr));
  x_ = zeros(n);
  ASSERT_EQ(x_.data(), address);
  graph_.node("Add").set_arg(0, x_.data());
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FreedInTheCapture, ANewBufferAtTheAddressCountsOnceItIsSet) {
  int* const address = x_.data();
  capture(graph_, [&] {
    add(x_);
    x_.reset();
  });
  x_ = zeros(n);
  ASSERT_EQ(x_.data(), address);
  EXPECT_THROW(graph_.replay(), DeadInputError);
  graph_.node("Add").set_arg(0, x_.data());
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(FreedInTheCapture, TheAddressOnePastTheEndOfABufferIsNotThatOfTheNextBlock) {
  constexpr std::size_t whole_block = 128;
  std::vector<Buffer<int>> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(zeros(whole_block));
  const auto next = [&](std::size_t i) -> Buffer<int>* {
    for (Buffer<int>& each : rows)
      if (each.data() == rows[i].data() + whole_block) return &each;
    return nullptr;
  };
  std::size_t lower = 0;
  while (lower < rows.size() && next(lower) == nullptr) ++lower;
  ASSERT_LT(lower, rows.size());
  Buffer<int>& x = rows[lower];
  for (const bool checks : {false, true}) {
    capture(graph_, checks ? with_check() : GraphOptions(), [&] {
      launch(whole_block, AddInRange{}, x.data(), static_cast<const int*>(x.data() + whole_block));
      if (!checks) next(lower)->reset();
    });
    graph_.replay();
    EXPECT_EQ(first(x), checks ? 2 : 1);
    graph_.reset();
  }
}

TEST_F(FreedInTheCapture, WhatLiesBehindABufferThatDoesNotFillItsBlockIsNotItsEnd) {
  constexpr std::size_t half = 64, whole_block = 128;
  std::vector<Buffer<int>> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(zeros(half));
  const auto next = [&](const Buffer<int>& row) {
    return std::ranges::find(rows, row.data() + whole_block, [](const Buffer<int>& each) { return each.data(); });
  };
  const auto lower = std::ranges::find_if(rows, [&](const Buffer<int>& row) { return next(row) != rows.end(); });
  ASSERT_NE(lower, rows.end());
  Buffer<int>& upper = *next(*lower);
  const void* const address = upper.data();
  capture(graph_, [&] {
    multiply(upper, 3, *lower);
    upper = Buffer<int>(2 * whole_block);
  });
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address));
}

TEST_F(FreedInTheCapture, ANumberWithTheValueOfItsAddressIsNone) {
  capture(graph_, [&] {
    launch(1, AddNumber{}, reinterpret_cast<std::size_t>(x_.data()), y_.data());
    x_.reset();
  });
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
}

TEST_F(FreedInTheCapture, APartOfALargerParameterMayBeUninitialised) {
  capture(graph_, [&] {
    launch(1, AddToFirstPlace{}, Places{y_.data(), x_.data()});
    x_.reset();
  });
  graph_.replay();
  EXPECT_EQ(first(y_), 1);
}

TEST_F(FreedInTheCapture, AChildWhoseReplaysAreRefusedIsRefused) {
  for (const bool checks : {false, true}) {
    Buffer<int> x = zeros(n);
    CUDAGraph child;
    capture(child, checks ? with_check() : GraphOptions(), [&] {
      add(x);
      if (!checks) x.reset();
    });
    x.reset();
    EXPECT_TRUE(contains(text_of<DeadInputError>([&] { capture(graph_, with_check(), [&] { add_child(child); }); }),
                         "add_child: 1 "));
    graph_.reset();
  }
}

class FreedBeforeTheCapture : public FreedInTheCapture {};

TEST_F(FreedBeforeTheCapture, AnInputIsDead) {
  int* const address = x_.data();
  x_.reset();
  capture(graph_, with_check(), [&] {
    launch(n, Add{}, address, 1, n);
    fill_async(address + 1, 0, 4);
    add(y_);
  });
  EXPECT_THAT(addresses(dead_inputs(graph_)), ElementsAre(address, address + 1));
  EXPECT_EQ(first(y_), 0);
  graph_.nodes()[0].set_arg(0, y_.data());
  graph_.nodes()[1].set_params(MemsetNodeParams{y_.data() + 1, 0, 4, 1});
  graph_.replay();
  EXPECT_EQ(first(y_), 2);
}

TEST_F(FreedBeforeTheCapture, APartOfALargerParameterIsNoInput) {
  int* const address = x_.data();
  x_.reset();
  capture(graph_, with_check(), [&] { launch(1, AddToFirstPlace{}, Places{y_.data(), address}); });
  EXPECT_THAT(addresses(graph_.inputs()), ElementsAre(y_.data()));
  graph_.replay();
}

}  // namespace
}  // namespace reprise::graphs::test
