// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <vector>

#include "tests/unit/graph/control_flow/control_flow_fixture.h"

// Memory that the bodies of conditional nodes allocate and free.

namespace reprise::graphs::test {
namespace {

class ControlFlowMemory : public ControlFlow {};

TEST_F(ControlFlowMemory, MemoryThatABodyLeavesAllocatedBelongsToTheGraph) {
  std::optional<Buffer<int>> inside;
  MempoolId pool;
  {
    CUDAGraph graph = capture([&] {
      if_(flag_.data(), [&] {
        inside.emplace(1);
        inside->fill_bytes_async(0);
        add(*inside, 4);
        multiply(*inside, 2, x_);
      });
      multiply(*inside, 3, y_);
    });
    pool = graph.pool();
    EXPECT_GE(CachingAllocator::of(current_device()).statistics(pool).allocations, 1U);
    set(1);
    graph.replay();
    EXPECT_EQ(first(x_), 8);
    EXPECT_EQ(first(y_), 12);
  }
  EXPECT_EQ(first(*inside), 4) << "it stays mapped";
}

// Allocated for the stream around the loop, or for one that was joined before it; within the loop, another buffer is
// allocated for the stream of the body, or for the one around the loop.
TEST_F(ControlFlowMemory, MemoryFromAroundALoopThatIsFreedInItIsNotGivenOutInIt) {
  const Stream side;
  for (const bool from_side : {false, true})
    for (const bool for_body : {false, true}) {
      CUDAGraph graph = capture([&] {
        const StreamRef around = from_side ? side.ref() : current_stream();
        side.wait(current_stream());
        std::optional<Buffer<int>> outside(std::in_place, 1, around);
        current_stream().wait(side);
        outside->fill_bytes_async(0);
        add(*outside, 7);
        while_(flag_.data(), [&] {
          multiply(*outside, 1, x_);  // in each iteration
          int* const address = outside->data();
          outside.reset();
          const Buffer<int> other(1, for_body ? current_stream() : around);
          EXPECT_NE(other.data(), address);
          launch(current_stream(), LaunchConfig{}, Add{}, const_cast<int*>(other.data()), 1, std::size_t{1});
          count_down();
        });
      });
      set(3);
      graph.replay();
      EXPECT_EQ(first(x_), 7);
    }
}

TEST_F(ControlFlowMemory, WhatALoopAllocatesItselfIsGivenOutAgainInIt) {
  const Stream side;
  CUDAGraph graph = capture([&] {
    while_(flag_.data(), [&] {
      side.wait(current_stream());
      for (const StreamRef& stream : {current_stream(), side.ref()}) {
        std::optional<Buffer<int>> first(std::in_place, 1, stream);
        int* const address = first->data();
        first.reset();
        const Buffer<int> second(1, stream);
        EXPECT_EQ(second.data(), address);
      }
      current_stream().wait(side);
      count_down();
    });
  });
}

TEST_F(ControlFlowMemory, MemoryOfAnEarlierBodyThatALoopFreesIsNotGivenOutInIt) {
  CUDAGraph graph = capture([&] {
    std::optional<Buffer<int>> before;
    Buffer<Flag> once(1);
    set_flag(once, 1);
    while_(once.data(), [&] {
      before.emplace(1);
      before->fill_bytes_async(0);
      add(*before, 9);
      count_down(once);
    });
    while_(flag_.data(), [&] {
      multiply(*before, 1, x_);
      int* const address = before->data();
      before.reset();
      const Buffer<int> other(1);
      EXPECT_NE(other.data(), address);
      count_down();
    });
  });
  set(2);
  graph.replay();
  EXPECT_EQ(first(x_), 9);
}

TEST_F(ControlFlowMemory, BodiesOfOneStreamShareMemoryAndThoseOfTwoDoNot) {
  const Stream side;
  std::vector<const int*> addresses;
  const auto body = [&] {
    Buffer<int> inside(1);
    add(inside);
    addresses.push_back(inside.data());
  };
  CUDAGraph graph = capture([&] {
    side.wait(current_stream());
    if_(flag_.data(), body);
    if_(flag_.data(), body);
    if_(side, flag_.data(), body);
    current_stream().wait(side);
  });
  EXPECT_EQ(addresses[0], addresses[1]);
  EXPECT_NE(addresses[0], addresses[2]) << "they may run at once";
}

TEST_F(ControlFlowMemory, AStreamThatIsForkedOffTwoBodiesGetsMemoryInOneOrWhereTheyAreOrdered) {
  const Stream side, other;
  const auto body = [&](const StreamRef& inside) {
    side.wait(inside);
    {
      Buffer<int> scratch(1, side);
      add(scratch, 1, side);
    }
    inside.wait(side);
  };
  CUDAGraph graph = capture([&] {
    if_(flag_.data(), body);
    if_else(flag_.data(), body, body);  // after it
  });
  set(1);
  graph.replay();
  const std::string what = text_of<UsageError>([&] {
    (void)capture([&] {
      other.wait(current_stream());
      if_(flag_.data(), body);
      if_(other, flag_.data(), body);
      current_stream().wait(other);
    });
  });
  EXPECT_TRUE(contains(what, "forked off the bodies of two conditional nodes"));
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         (void)capture([&] {
                           if_(flag_.data(), body);
                           while_(flag_.data(), body);
                         });
                       }),
                       "Use another stream in each body"));
}

}  // namespace
}  // namespace reprise::graphs::test
