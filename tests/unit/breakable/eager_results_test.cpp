// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/breakable/breakable_fixture.h"

// What eager parts return, and what they throw.

namespace reprise::breakables::test {
namespace {

/// A buffer of `count` times `value`, submitted to the current stream.
Buffer<int> filled(std::size_t count, int value) {
  Buffer<int> made(count);
  const std::vector<FillOp> fill{make_fill(made.data(), value, count)};
  if (count != 0) fill_batch_async(fill);
  return made;
}

TEST(ResultsOfEagerParts, AreCopiedToTheSameMemoryInEachReplay) {
  Buffer<int> x = zeros(4), y = zeros(4);
  const int* memory = nullptr;
  int value = 0;
  BreakableGraph graph = breakable([&] {
    add(x);
    const Buffer<int> made = eager([&value] { return filled(4, ++value); });
    memory = made.data();
    multiply(made, 10, y);
  });
  EXPECT_EQ(read(y), std::vector<int>(4, 10));
  graph.replay();
  EXPECT_EQ(read(y), std::vector<int>(4, 20));
  graph.replay();
  EXPECT_EQ(read(y), std::vector<int>(4, 30));
  EXPECT_NE(memory, nullptr);
}

TEST(ResultsOfEagerParts, MayBeSeveralBuffersOfSeveralTypes) {
  Buffer<int> y = zeros(3);
  Buffer<double> z(2);
  int value = 0;
  BreakableGraph graph = breakable([&] {
    const auto [a, b] = eager([&value] {
      ++value;
      return std::tuple(filled(3, value), Buffer<double>(std::vector<double>(2, 0.5 * value)));
    });
    multiply(a, 2, y);
    copy_async(z.data(), b.data(), z.size_bytes());
    const std::vector<Buffer<int>> more = eager([&value] {
      std::vector<Buffer<int>> made;
      made.push_back(filled(3, 100 * value));
      made.push_back(filled(1, 0));
      return made;
    });
    EXPECT_EQ(more.size(), 2u);
    launch(3, graphs::test::Add{}, y.data(), 1, std::size_t{3});
    const auto pair = eager([] { return std::pair(filled(1, 5), Buffer<int>()); });
    EXPECT_TRUE(pair.second.empty());
    const auto array = eager([] { return std::array{filled(1, 5), filled(2, 6)}; });
    EXPECT_EQ(array[1].size(), 2u);
  });
  graph.replay();
  EXPECT_EQ(read(y), std::vector<int>(3, 5));
  EXPECT_EQ(z.read(), std::vector<double>(2, 1.0));
}

TEST(ResultsOfEagerParts, MayBeDroppedByTheBodyBehindTheirUse) {
  Buffer<int> y = zeros(1000);
  int value = 0;
  BreakableGraph graph = breakable([&] {
    for (int i = 0; i < 5; ++i) {
      const Buffer<int> made = eager([&value] { return filled(1000, ++value); });
      Buffer<int> sum(1000);
      multiply(made, 1, sum);
      launch(1000, graphs::test::Add{}, sum.data(), 1, std::size_t{1000});
      multiply(sum, 1, y);
    }
  });
  EXPECT_EQ(read(y), std::vector<int>(1000, 6));
  graph.replay();
  EXPECT_EQ(read(y), std::vector<int>(1000, 11));
}

TEST(ResultsOfEagerParts, OfOtherShapesAreRefusedAndTheGraphStaysUsable) {
  Buffer<int> y = zeros(4);
  std::size_t count = 4;
  std::size_t buffers = 2;
  BreakableGraph graph = breakable([&] {
    const Buffer<int> made = eager([&count] { return filled(count, 1); });
    launch(4, graphs::test::Multiply{}, made.data(), 1, y.data(), std::size_t{4});
    const auto more = eager([&buffers] {
      std::vector<Buffer<int>> all;
      for (std::size_t i = 0; i < buffers; ++i) all.push_back(filled(1, 1));
      return all;
    });
    add(y);
  });
  EXPECT_EQ(first(y), 2);
  count = 5;
  const std::string text = text_of<UsageError>([&] { graph.replay(); });
  EXPECT_TRUE(contains(text, "buffer 0 with 4 values of int")) << text;
  EXPECT_TRUE(contains(text, "found 5 values of int"));
  count = 4;
  buffers = 3;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(); }), "return 2 buffers, as in the capture; found 3"));
  buffers = 2;
  graph.replay();
  EXPECT_EQ(first(y), 2);
}

TEST(ResultsOfEagerParts, OfAnotherDeviceAreRefused) {
  const std::optional<Device> other = graphs::test::second_device();
  if (!other) GTEST_SKIP() << "there is no second device like " << default_device().str();
  Buffer<int> x = zeros();
  Device where = default_device();
  BreakableGraph graph = breakable([&] {
    const Buffer<int> made = eager([&where] {
      const DeviceGuard there(where);
      return Buffer<int>(1);
    });
    add(x);
  });
  where = *other;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(); }), "found memory of " + other->str()));
  where = default_device();
  graph.replay();
}

TEST(ExceptionsOfEagerParts, InTheCapturePassThroughAndLeaveTheGraphEmpty) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  EXPECT_THROW(breakable(graph, {},
                         [&] {
                           add(x);
                           eager([] { throw std::runtime_error("of the part"); });
                           add(x, 100);
                         }),
               std::runtime_error);
  EXPECT_EQ(first(x), 1) << "what ran before takes effect";
  EXPECT_EQ(current_stream().capture_status(), CaptureStatus::none);
  breakable(graph, {}, [&] { add(x); });
  EXPECT_EQ(first(x), 2);
}

TEST(ExceptionsOfEagerParts, AreThrownEvenIfTheBodyCatchesThem) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  EXPECT_THROW(breakable(graph, {},
                         [&] {
                           add(x);
                           try {
                             eager([] { throw std::runtime_error("of the part"); });
                           } catch (const std::runtime_error&) {
                           }
                         }),
               std::runtime_error);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(); }), "found an empty one"));
}

// The part has run then, but there is no memory for a copy of its results.
TEST(ExceptionsOfEagerParts, AreThrownEvenIfTheBodyCatchesThemAndTheResultsHaveNoMemory) {
  HostSimulator simulator({.memory_bytes = std::size_t{40} << 20});
  const DeviceGuard there(simulator.device());
  constexpr std::size_t values = (std::size_t{12} << 20) / sizeof(int);
  Buffer<int> x = zeros();
  std::size_t more = values;
  const auto body = [&] {
    add(x);
    try {
      const Buffer<int> y = eager([&more] { return Buffer<int>(values + more); });
    } catch (const OutOfMemoryError&) {
    }
  };
  {
    BreakableGraph graph;
    EXPECT_THROW(breakable(graph, {}, body), OutOfMemoryError);
    EXPECT_EQ(first(x), 1) << "what ran before takes effect";
    EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.replay(); }), "found an empty one"));
    more = 0;
    breakable(graph, {}, body);
    EXPECT_EQ(first(x), 2);
    graph.replay();
    EXPECT_EQ(first(x), 3);
  }
  GraphCache cache({.max_bytes = std::size_t{30} << 20, .capture_after = 0});
  more = values;
  EXPECT_THROW(cache.run({0}, body), OutOfMemoryError);
  EXPECT_TRUE(cache.failure({0}));
}

TEST(ExceptionsOfEagerParts, InAReplayEndItAndLeaveTheGraphUsable) {
  Buffer<int> x = zeros();
  bool fails = false;
  BreakableGraph graph = breakable([&] {
    add(x);
    const Buffer<int> y = eager([&fails] {
      if (fails) throw std::runtime_error("of the part");
      return filled(1, 3);
    });
    multiply(y, 100, x);
  });
  EXPECT_EQ(first(x), 300);
  fails = true;
  EXPECT_THROW(graph.replay(), std::runtime_error);
  EXPECT_EQ(first(x), 301) << "the first segment ran";
  fails = false;
  graph.replay();
  EXPECT_EQ(first(x), 300);
}

TEST(ExceptionsOfTheBody, BetweenEagerPartsLeaveTheGraphEmpty) {
  Buffer<int> x = zeros();
  BreakableGraph graph;
  EXPECT_THROW(breakable(graph, {},
                         [&] {
                           eager([] {});
                           add(x);
                           throw std::runtime_error("of the body");
                         }),
               std::runtime_error);
  EXPECT_EQ(first(x), 0);
  EXPECT_THROW(breakable(graph, {},
                         [&] {
                           add(x);
                           eager([] {});
                           add(x);
                           current_stream().synchronize();
                         }),
               BackendError);
  ASSERT_TRUE(graph.capture_report().has_value());
  EXPECT_TRUE(graph.capture_report()->broken_by.has_value());
  EXPECT_EQ(graph.capture_report()->graph, "segment 2");
  EXPECT_EQ(first(x), 1);
  breakable(graph, {}, [&] { add(x); });
  EXPECT_EQ(first(x), 2);
}

TEST(ExceptionsOfEagerParts, DropTheResultsOfTheRun) {
  Buffer<int> x = zeros();
  std::size_t count = 1;
  BreakableGraph graph = breakable([&] {
    add(x);
    const Buffer<int> y = eager([&count] { return Buffer<int>(count << 20); });
    add(x);
  });
  current_stream().synchronize();
  const auto allocated = [] { return CachingAllocator::of(current_device()).statistics().allocated_bytes; };
  const std::uint64_t before = allocated();
  count = 2;
  EXPECT_THROW(graph.replay(), UsageError);
  EXPECT_EQ(allocated(), before);
}

}  // namespace
}  // namespace reprise::breakables::test
