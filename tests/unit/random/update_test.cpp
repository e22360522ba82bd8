// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <thread>

#include "tests/unit/random/random_fixture.h"

// Random numbers of graphs that are updated: each replay draws what eager work would have drawn in its place, whichever
// graph made the nodes.

namespace reprise::random::test {
namespace {

class RandomUpdate : public ::testing::TestWithParam<KeepGraph> {
 protected:
  using Numbers = std::vector<unsigned>;

  void capture_draws(CUDAGraph& graph, Buffer<unsigned>& x, const Generator& generator, unsigned draws) {
    capture(graph, [&] { draw(generator, x, draws); });
  }
  static Numbers replayed(CUDAGraph& graph, const Buffer<unsigned>& x) {
    graph.replay();
    return read(x);
  }

  const SideStream side_;
  Generator generator_{current_device(), 42}, twin_{current_device(), 42};
  Buffer<unsigned> x_{4}, y_{4};
  CUDAGraph graph_{GetParam()}, other_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Kept, RandomUpdate, ::testing::Values(KeepGraph::no, KeepGraph::yes), [](const auto& kept) {
  return kept.param == KeepGraph::yes ? std::string("yes") : std::string("no");
});

TEST_P(RandomUpdate, DrawsWhatTheOtherGraphDraws) {
  capture_draws(graph_, x_, generator_, 1);
  EXPECT_EQ(replayed(graph_, x_), drawn(twin_));
  capture_draws(other_, y_, generator_, 5);
  graph_.update(other_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 5)) << i;
  EXPECT_EQ(generator_.get_state(), twin_.get_state());
}

TEST_P(RandomUpdate, TakesTheGeneratorOfTheOtherGraph) {
  Generator of_other(current_device(), 7), twin_of_other(current_device(), 7);
  capture_draws(graph_, x_, generator_, 1);
  EXPECT_EQ(replayed(graph_, x_), drawn(twin_));
  capture_draws(other_, y_, of_other, 1);
  graph_.update(other_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(replayed(graph_, y_), drawn(twin_of_other)) << i;
  EXPECT_EQ(generator_.get_state(), twin_.get_state()) << "the first one is not drawn from any more";
  of_other.set_current_seed(9);
  EXPECT_EQ(replayed(graph_, y_), drawn(Generator(current_device(), 9)));
}

TEST_P(RandomUpdate, BothGraphsDrawRightNumbersInAnyOrder) {
  capture_draws(graph_, x_, generator_, 1);
  capture_draws(other_, y_, generator_, 3);
  graph_.update(other_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 3));
    EXPECT_EQ(replayed(other_, y_), drawn(twin_, 4, 3));
    EXPECT_EQ(replayed(other_, y_), drawn(twin_, 4, 3));
    EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 3));
    EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 3));
  }
  other_.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 3)) << i;
}

TEST_P(RandomUpdate, AReplayOfTheOtherGraphDoesNotCountWhenTheGeneratorIsSetBack) {
  capture_draws(graph_, x_, generator_, 1);
  capture_draws(other_, y_, generator_, 3);
  graph_.update(other_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 3)) << i;
    const GeneratorState after = generator_.get_state();
    EXPECT_EQ(replayed(other_, y_), drawn(twin_, 4, 3)) << i;
    generator_.set_state(after);  // where this graph would go on by itself
    twin_.set_state(after);
  }
}

TEST_P(RandomUpdate, TheOtherGraphDrawsRightNumbersAfterTheEndOfThisOne) {
  capture_draws(graph_, x_, generator_, 1);
  capture_draws(other_, y_, generator_, 3);
  EXPECT_EQ(replayed(other_, y_), drawn(twin_, 4, 3));
  graph_.update(other_);
  EXPECT_EQ(replayed(graph_, y_), drawn(twin_, 4, 3));
  graph_.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(replayed(other_, y_), drawn(twin_, 4, 3)) << i;
}

TEST_P(RandomUpdate, ARefusedUpdateDrawsOnAsBefore) {
  capture_draws(graph_, x_, generator_, 1);
  EXPECT_EQ(replayed(graph_, x_), drawn(twin_));
  capture(other_, [&] {
    draw(generator_, y_);
    draw(generator_, y_);
  });
  EXPECT_THROW(graph_.update(other_), GraphUpdateError);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(replayed(graph_, x_), drawn(twin_)) << i;
}

TEST_P(RandomUpdate, ARecaptureDrawsOn) {
  capture_draws(graph_, x_, generator_, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(replayed(graph_, x_), drawn(twin_));
    const auto body = [&] { draw(generator_, x_); };
    EXPECT_TRUE(diff(graph_, capture(body)).empty());
    EXPECT_TRUE(graph_.recapture(body).in_place);
  }
  EXPECT_FALSE(graph_
                   .recapture([&] {
                     draw(generator_, x_);
                     draw(generator_, y_, 2);
                   })
                   .in_place);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(replayed(graph_, x_), drawn(twin_));
    EXPECT_EQ(read(y_), drawn(twin_, 4, 2));
  }
}

TEST_P(RandomUpdate, ARegisteredGeneratorStaysRegisteredForRecaptures) {
  graph_.register_generator_state(generator_);
  capture(graph_, [&] { x_.fill_bytes_async(0); });
  graph_.recapture([&] {
    // A thread whose current stream is not captured.
    std::thread([&] { EXPECT_THROW(generator_.set_current_seed(1), UsageError); }).join();
    x_.fill_bytes_async(1);
  });
  EXPECT_NO_THROW(generator_.set_current_seed(1));
}

}  // namespace
}  // namespace reprise::random::test
