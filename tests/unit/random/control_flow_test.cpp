// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/unit/random/random_fixture.h"

// Random numbers in the bodies of conditional nodes.

namespace reprise::random::test {
namespace {

using Flag = std::uint32_t;
using Numbers = std::vector<unsigned>;

struct CountDown {
  REPRISE_KERNEL void operator()(Thread, Flag* flag) const { --*flag; }
  static auto accesses(Flag* flag) { return std::array{reads(flag, 1), writes(flag, 1)}; }
};

struct SetFlag {
  REPRISE_KERNEL void operator()(Thread, Flag* flag, Flag value) const { *flag = value; }
  static auto accesses(Flag* flag, Flag) { return std::array{writes(flag, 1)}; }
};

/// log[count] = the second number of the thread, ++count
struct DrawAndLog {
  REPRISE_KERNEL void operator()(Thread, PhiloxState state, unsigned* log, Flag* count) const {
    Philox philox(state, 0);
    philox();
    log[(*count)++] = philox();
  }
  static auto accesses(const PhiloxState& state, unsigned* log, Flag* count) {
    return std::array{state.access(), writes(log, 64), reads(count, 1), writes(count, 1)};
  }
};

class RandomControlFlow : public ::testing::Test {
 protected:
  void draw(const StreamRef& stream = current_stream()) {
    launch(stream, LaunchConfig{}, DrawAndLog{}, generator_.philox_state(2, stream), log_.data(), count_.data());
  }
  void set(Buffer<Flag>& flag, Flag value) { launch(current_stream(), LaunchConfig{}, SetFlag{}, flag.data(), value); }
  void count_down(Buffer<Flag>& flag) { launch(current_stream(), LaunchConfig{}, CountDown{}, flag.data()); }
  /// What was logged since the last call.
  Numbers logged() {
    const Flag count = count_.read().front();
    Numbers all = log_.read();
    all.resize(count);
    count_.write(std::array<Flag, 1>{0});
    return all;
  }
  /// What `n` eager launches log from this state of the generator on.
  Numbers eager(const GeneratorState& from, int n) {
    generator_.set_state(from);
    for (int i = 0; i < n; ++i) draw();
    return logged();
  }

  Generator generator_;
  Buffer<Flag> flag_{std::array<Flag, 1>{0}};
  Buffer<Flag> other_{std::array<Flag, 1>{0}};
  Buffer<Flag> count_{std::array<Flag, 1>{0}};
  Buffer<unsigned> log_{64};
};

TEST_F(RandomControlFlow, BodiesThatDoNotRunCountAsDrawn) {
  CUDAGraph graph = capture([&] {
    draw();
    if_else(
        flag_.data(), [&] { draw(); }, [&] { draw(); });
    draw();
  });
  const GeneratorState start = generator_.get_state();
  graph.replay();
  const Numbers otherwise = logged();
  flag_.write(std::array<Flag, 1>{1});
  graph.replay();
  const Numbers then = logged();
  EXPECT_EQ(generator_.get_state().offset, start.offset + 2 * 4 * 4);
  const Numbers all = eager(start, 8);
  EXPECT_EQ(otherwise, (Numbers{all[0], all[2], all[3]}));
  EXPECT_EQ(then, (Numbers{all[4], all[5], all[7]}));
}

TEST_F(RandomControlFlow, OnlyInABodyComesAfterTheirBeginning) {
  CUDAGraph graph = capture([&] { if_(flag_.data(), [&] { if_(flag_.data(), [&] { draw(); }); }); });
  const GeneratorState start = generator_.get_state();
  flag_.write(std::array<Flag, 1>{1});
  graph.replay();
  graph.replay();
  const Numbers found = logged();
  EXPECT_EQ(found, eager(start, 2));
}

TEST_F(RandomControlFlow, EachIterationDrawsTheNextOnes) {
  CUDAGraph graph = capture([&] {
    draw();
    while_(flag_.data(),
           [&] {
             draw();
             draw();
             count_down(flag_);
           },
           {.max_iterations = 5});
    draw();
  });
  const GeneratorState start = generator_.get_state();
  for (const Flag rounds : {5U, 2U}) {
    flag_.write(std::array{rounds});
    graph.replay();
  }
  const Numbers found = logged(), all = eager(start, 24);
  Numbers expected(all.begin(), all.begin() + 12);                      // the loop ran as often as it may
  expected.insert(expected.end(), all.begin() + 12, all.begin() + 17);  // twice
  expected.push_back(all[23]);
  EXPECT_EQ(found, expected);
}

TEST_F(RandomControlFlow, LoopsNest) {
  CUDAGraph graph = capture([&] {
    set(flag_, 3);
    while_(flag_.data(),
           [&] {
             draw();
             set(other_, 2);
             while_(other_.data(),
                    [&] {
                      if_(other_.data(), [&] { draw(); });
                      count_down(other_);
                    },
                    {.max_iterations = 2});
             draw();
             count_down(flag_);
           },
           {.max_iterations = 3});
    draw();
  });
  const GeneratorState start = generator_.get_state();
  graph.replay();
  graph.replay();
  const Numbers found = logged();
  EXPECT_EQ(found, eager(start, 26));
}

TEST_F(RandomControlFlow, OfTwoGeneratorsThatTheInnerLoopDrawsFromFirst) {
  Generator second;
  Buffer<unsigned> log(64);
  Buffer<Flag> count(std::vector<Flag>{0});
  const auto draw_both = [&](const StreamRef& stream) {
    draw(stream);
    launch(stream, LaunchConfig{}, DrawAndLog{}, second.philox_state(2, stream), log.data(), count.data());
  };
  CUDAGraph graph = capture([&] {
    set(flag_, 3);
    while_(flag_.data(),
           [&] {
             set(other_, 2);
             while_(other_.data(),
                    [&] {
                      draw_both(current_stream());
                      count_down(other_);
                    },
                    {.max_iterations = 2});
             count_down(flag_);
           },
           {.max_iterations = 3});
  });
  const GeneratorState start = generator_.get_state(), start_of_second = second.get_state();
  for (int i = 0; i < 2; ++i) graph.replay();
  const Numbers found = logged();
  Numbers found_second = log.read();
  found_second.resize(count.read().front());
  EXPECT_EQ(second.offset(), start_of_second.offset + 2 * 6 * 4);
  EXPECT_EQ(found, eager(start, 12));
  count.write(std::array<Flag, 1>{0});
  second.set_state(start_of_second);
  for (int i = 0; i < 12; ++i) draw_both(current_stream());
  Numbers all = log.read();
  all.resize(12);
  EXPECT_EQ(found_second, all);
}

TEST_F(RandomControlFlow, OnStreamsThatAreForkedOffInABody) {
  const Stream side;
  CUDAGraph graph = capture([&] {
    set(flag_, 2);
    while_(flag_.data(),
           [&] {
             side.wait(current_stream());
             draw(side);
             current_stream().wait(side);
             draw();
             count_down(flag_);
           },
           {.max_iterations = 2});
  });
  const GeneratorState start = generator_.get_state();
  graph.replay();
  const Numbers found = logged();
  EXPECT_EQ(found, eager(start, 4));
}

/// A suite of its own: tests/GpuTests.cmake leaves it out under memcheck.
class RandomChildrenInLoops : public RandomControlFlow {};

TEST_F(RandomChildrenInLoops, DrawOtherNumbersInEachIteration) {
  const CUDAGraph child = capture([&] { draw(); });
  CUDAGraph graph = capture([&] {
    set(flag_, 3);
    while_(flag_.data(),
           [&] {
             add_child(child);
             add_child(child);
             count_down(flag_);
           },
           {.max_iterations = 3});
  });
  const GeneratorState start = generator_.get_state();
  graph.replay();
  const Numbers found = logged();
  EXPECT_EQ(found, eager(start, 6));
}

TEST_F(RandomControlFlow, LoopsThatDrawMoreThanAnOffsetCountsAreRefused) {
  CUDAGraph graph;
  constexpr std::uint32_t most = 0xffffffff;
  const std::string what = text_of<UsageError>([&] {
    capture(graph, [&] {
      while_(flag_.data(),
             [&] {
               while_(flag_.data(),
                      [&] {
                        draw();
                        count_down(flag_);
                      },
                      {.max_iterations = most});
             },
             {.max_iterations = most});
    });
  });
  EXPECT_TRUE(contains(what, "more in all than the offset of a generator can count")) << what;
  generator_.set_state({9, 0});  // no capture holds it
}

TEST_F(RandomControlFlow, ALoopWithoutALimitIsRefused) {
  CUDAGraph graph;
  EXPECT_TRUE(contains(text_of<UsageError>([&] {
                         capture(graph, [&] {
                           while_(flag_.data(), [&] {
                             draw();
                             count_down(flag_);
                           });
                         });
                       }),
                       "LoopOptions::max_iterations"));
  generator_.set_state({9, 0});  // no capture holds it
}

TEST_F(RandomControlFlow, ABodyThatFailsLeavesTheGeneratorUsable) {
  const GeneratorState start = generator_.get_state();
  CUDAGraph graph;
  EXPECT_THROW(capture(graph,
                       [&] {
                         while_(flag_.data(),
                                [&] {
                                  draw();
                                  throw std::runtime_error("of the body");
                                },
                                {.max_iterations = 2});
                       }),
               std::runtime_error);
  EXPECT_EQ(generator_.get_state(), start);
  capture(graph, [&] { draw(); });
  graph.replay();
  const Numbers found = logged();
  EXPECT_EQ(found, eager(start, 1));
}

}  // namespace
}  // namespace reprise::random::test
