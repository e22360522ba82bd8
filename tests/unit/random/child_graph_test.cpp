// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "tests/unit/random/random_fixture.h"

// Random numbers of graphs within graphs: those of eager calls in the same order.

namespace reprise::random::test {
namespace {

class RandomChildGraph : public ::testing::Test {
 protected:
  using Numbers = std::vector<unsigned>;

  /// A graph that draws 6 numbers a thread.
  CUDAGraph drawing_child() {
    return capture([&] { draw(generator_, x_, 6); });
  }
  void add(Numbers& all, const Buffer<unsigned>& x) const {
    const Numbers more = read(x);
    all.insert(all.end(), more.begin(), more.end());
  }

  Generator generator_{current_device(), 42};
  Generator twin_{current_device(), 42};
  Buffer<unsigned> x_{4}, y_{4}, z_{4}, copy_{4};
};

TEST_F(RandomChildGraph, DrawsInItsPlaceAmongTheDrawsOfTheParent) {
  const CUDAGraph child = drawing_child();
  CUDAGraph parent = capture([&] {
    draw(generator_, y_);
    add_child(child);
    draw(generator_, z_, 3);
  });
  for (int i = 0; i < 3; ++i) {
    parent.replay();
    EXPECT_EQ(read(y_), drawn(twin_)) << i;
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << i;
    EXPECT_EQ(read(z_), drawn(twin_, 4, 3)) << i;
  }
  EXPECT_EQ(generator_.get_state(), twin_.get_state());
}

TEST_F(RandomChildGraph, TwiceInAParentDrawsDifferentNumbers) {
  const CUDAGraph child = drawing_child();
  CUDAGraph parent = capture([&] {
    add_child(child);
    reprise::copy_async(copy_.data(), x_.data(), x_.size_bytes());
    add_child(child);
  });
  for (int i = 0; i < 3; ++i) {
    parent.replay();
    EXPECT_EQ(read(copy_), drawn(twin_, 4, 6)) << i;
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << i;
  }
}

TEST_F(RandomChildGraph, ContinuesInItsOwnReplaysWhereTheGeneratorIs) {
  CUDAGraph child = drawing_child();
  child.replay();
  EXPECT_EQ(read(x_), drawn(twin_, 4, 6));
  CUDAGraph parent = capture([&] { add_child(child); });
  for (int i = 0; i < 2; ++i) {
    parent.replay();
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << i;
    child.replay();
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << i;
    child.replay();
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << i;
  }
  EXPECT_EQ(generator_.get_state(), twin_.get_state());
}

TEST_F(RandomChildGraph, NestsAndOutlivesItsOriginal) {
  std::optional<CUDAGraph> child = drawing_child();
  std::optional<CUDAGraph> middle = capture([&] {
    add_child(*child);
    draw(generator_, y_);
  });
  CUDAGraph outer = capture([&] {
    draw(generator_, z_);
    add_child(*middle);
  });
  child.reset();
  middle.reset();
  for (int i = 0; i < 3; ++i) {
    outer.replay();
    EXPECT_EQ(read(z_), drawn(twin_)) << i;
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << i;
    EXPECT_EQ(read(y_), drawn(twin_)) << i;
  }
}

TEST_F(RandomChildGraph, OfTwoGeneratorsDrawsFromBoth) {
  Generator other(current_device(), 7), other_twin(current_device(), 7);
  const CUDAGraph child = capture([&] {
    draw(generator_, x_);
    draw(other, y_, 2);
  });
  CUDAGraph parent = capture([&] {
    draw(other, z_);
    add_child(child);
  });
  for (int i = 0; i < 2; ++i) {
    parent.replay();
    EXPECT_EQ(read(z_), drawn(other_twin)) << i;
    EXPECT_EQ(read(x_), drawn(twin_)) << i;
    EXPECT_EQ(read(y_), drawn(other_twin, 4, 2)) << i;
  }
}

TEST_F(RandomChildGraph, IsSeededThroughItsGenerator) {
  const CUDAGraph child = drawing_child();
  CUDAGraph parent = capture([&] { add_child(child); });
  parent.replay();
  for (const std::uint64_t seed : {5U, 6U}) {
    generator_.set_current_seed(seed);
    twin_.set_current_seed(seed);
    parent.replay();
    EXPECT_EQ(read(x_), drawn(twin_, 4, 6)) << seed;
  }
}

}  // namespace
}  // namespace reprise::random::test
