// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "reprise/copy_value.h"
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
