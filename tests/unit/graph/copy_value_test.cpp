// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "reprise/compare.h"
#include "reprise/copy_value.h"
#include "reprise/graph_diff.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/graph_fixture.h"

// Copies whose value is taken when they are called.

namespace reprise::graphs::test {
namespace {

class CopyValue : public ::testing::Test {
 protected:
  const SideStream side_;
  Buffer<int> x_ = zeros(4);
  CUDAGraph graph_;
};

TEST_F(CopyValue, InACaptureIsWrittenByEachReplayWhateverBecomesOfTheSource) {
  auto in_heap = std::make_unique<std::vector<int>>(std::vector<int>{1, 2, 3, 4});
  capture(graph_, [&] { copy_value_async(x_.data(), in_heap->data(), x_.size_bytes()); });
  in_heap->assign(4, 9);
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{1, 2, 3, 4}));
  in_heap.reset();
  x_.write(std::vector<int>(4, 0));
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(CopyValue, TakesLocalVariablesAndPinnedMemoryThatIsFilledAgain) {
  HostBuffer<int> pinned(4);
  pinned[3] = 7;
  capture(graph_, [&] {
    const int local = 5;
    copy_value_async(x_.data(), pinned.data(), x_.size_bytes());
    copy_value_async(x_.data(), &local, sizeof local);
  });
  pinned[3] = 8;
  graph_.replay();
  EXPECT_EQ(read(x_), (std::vector<int>{5, 0, 0, 7}));
}

TEST_F(CopyValue, OutsideOfACaptureHasReadTheSourceWhenItReturns) {
  HostBuffer<int> pinned(4);
  reprise::test::Gate gate(reprise::test::by_steps_too);
  call_on_host(side_.ref(), &reprise::test::Gate::pass, &gate);
  pinned[0] = 1;
  std::vector<int> pageable{2, 2, 2, 2};
  copy_value_async(x_.data(), pageable.data(), 0);
  gate.open();
  copy_value_async(x_.data(), pageable.data(), x_.size_bytes());
  pageable.assign(4, 9);
  copy_value_async(x_.data(), pinned.data(), sizeof(int));
  pinned[0] = 9;
  EXPECT_EQ(read(x_), (std::vector<int>{1, 2, 2, 2}));
}

TEST_F(CopyValue, OfTwoCapturesIsNoFrozenValue) {
  GraphOptions options;
  options.check_frozen_values = no_next;
  capture(graph_, options, [&] {
    const int local = 5;
    copy_value_async(x_.data(), &local, sizeof local);
  });
  graph_.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(CopyValue, ThatDiffersBetweenTwoCapturesIsAFrozenValue) {
  int value = 5;
  const std::string text = text_of<FrozenValuesError>([&] {
    capture(graph_, {.check_frozen_values = [&] { ++value; }},
            [&] { copy_value_async(x_.data(), &value, sizeof value); });
  });
  EXPECT_TRUE(contains(text, "memcpy (node 0), copied value (4 bytes): 0x5 (5, ")) << text;
  EXPECT_TRUE(contains(text, "then 0x6 (6, ")) << text;
}

TEST_F(CopyValue, OfSeveralNumbersIsPerhapsAFrozenValue) {
  const reprise::test::Warnings warnings;
  std::vector<int> values{1, 2, 3, 4};
  capture(graph_, {.check_frozen_values = [&] { values[3] = 9; }},
          [&] { copy_value_async(x_.data(), values.data(), x_.size_bytes()); });
  ASSERT_EQ(warnings.texts().size(), 1U);
  EXPECT_TRUE(contains(warnings.texts()[0], "copied value, offset 12 (4 bytes): 0x4")) << warnings.texts()[0];
}

TEST_F(CopyValue, OfTwoGraphsIsADifference) {
  int value = 1;
  const auto body = [&] {
    copy_value_async(x_.data(), &value, sizeof value);
    copy_async(x_.data() + 1, x_.data(), sizeof value);
  };
  capture(graph_, body);
  CUDAGraph same, other;
  capture(same, body);
  EXPECT_TRUE(diff(graph_, same).empty());
  value = 2;
  capture(other, body);
  const std::vector<GraphDifference> differences = diff(graph_, other);
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0].field, "copied value");
  EXPECT_TRUE(differences[0].first_value.starts_with("0x1 (1")) << differences[0].first_value;
  EXPECT_TRUE(differences[0].second_value.starts_with("0x2 (2")) << differences[0].second_value;
  const Comparison comparison = compare(graph_, body);
  ASSERT_TRUE(comparison.difference.has_value()) << comparison.str();
  EXPECT_TRUE(contains(comparison.str(), "memcpy (node 0)")) << comparison.str();
  EXPECT_TRUE(graph_.recapture(body).in_place);
  graph_.replay();
  EXPECT_EQ(first(x_), 2);
}

TEST_F(CopyValue, BelongsToAChildsCopyToo) {
  CUDAGraph parent;
  {
    CUDAGraph child;
    capture(child, [&] {
      const int local = 5;
      copy_value_async(x_.data(), &local, sizeof local);
    });
    capture(parent, [&] { add_child(child); });
  }
  parent.replay();
  EXPECT_EQ(first(x_), 5);
}

TEST_F(CopyValue, RefusesMemoryOfTheDevice) {
  const Buffer<int> y = zeros(4);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { copy_value_async(x_.data(), y.data(), 4); }),
                       "copy_value_async expected a source in memory of the host"));
}

TEST_F(CopyValue, RefusesPlacesThatAreNone) {
  const int value = 1;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { copy_value_async(x_.data(), nullptr, 4); }),
                       "copy_value_async expected a source in memory of the host"));
  EXPECT_TRUE(contains(text_of<BackendError>([&] { copy_value_async(nullptr, &value, 4); }), "copy_value_async"));
}

TEST_F(CopyValue, RefusesACaptureOfOtherCodeWhichGoesOn) {
  const backend::Checked runtime(default_device().backend());
  const int value = 1;
  runtime.stream_begin_capture(side_.ref().native(), CaptureMode::relaxed);
  add(x_);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { copy_value_async(x_.data(), &value, sizeof value); }),
                       "found one in a capture of other code"));
  GraphHandle graph = nullptr;
  runtime.stream_end_capture(side_.ref().native(), &graph);
  runtime.graph_destroy(graph);
}

}  // namespace
}  // namespace reprise::graphs::test
