// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tests/support/gate.h"
#include "tests/unit/inspect/liveness_fixture.h"

// Graphs that keep the memory which they use (GraphOptions::inputs.retain).

namespace reprise::graphs::test {
namespace {

using ::testing::SizeIs;

class RetainedInputs : public ::testing::Test {
 protected:
  // What is kept goes a moment after the graph: the next test counts anew.
  void TearDown() override {
    x_.reset();
    graph_.reset();
    expect_eventually(start_);
  }
  std::uint64_t allocations() const { return allocator_.statistics(MempoolId{}).allocations; }
  void expect_eventually(std::uint64_t expected) {
    EXPECT_TRUE(eventually([&] { return allocations() == expected; })) << allocations();
  }

  CachingAllocator& allocator_ = CachingAllocator::of(current_device());
  const std::uint64_t start_ = allocations();
  Buffer<int> x_ = zeros(n);
  CUDAGraph graph_;
};

TEST_F(RetainedInputs, StayWhenTheirOwnerFreesThem) {
  const std::uint64_t before = allocations();
  Buffer<int> y = zeros(n);
  capture(graph_, with_retain(), [&] {
    add(x_);
    multiply(x_, 10, y);
  });
  ASSERT_THAT(graph_.inputs(), SizeIs(2));
  EXPECT_TRUE(graph_.inputs()[0].retained);
  const void* const address = x_.data();
  x_.reset();
  EXPECT_EQ(allocations(), before + 1) << "it counts as allocated";
  const Buffer<int> other(n);
  EXPECT_NE(other.data(), address);
  for (int i = 1; i < 4; ++i) {
    graph_.replay();
    EXPECT_EQ(first(y), 10 * i);
  }
}

TEST_F(RetainedInputs, AreFreedWithTheGraphIfTheirOwnerFreedThem) {
  const std::uint64_t before = allocations();
  capture(graph_, with_retain(), [&] { add(x_); });
  x_.reset();
  EXPECT_EQ(allocations(), before);
  graph_.replay();
  graph_.reset();
  expect_eventually(before - 1);
}

TEST_F(RetainedInputs, StayWhileAReplayRunsOfAGraphThatIsGone) {
  const std::uint64_t before = allocations();
  reprise::test::Gate gate;
  capture(graph_, with_retain(), [&] {
    call_on_host(current_stream(), &reprise::test::Gate::pass, &gate);
    add(x_);
  });
  const Stream stream;
  graph_.replay(stream);
  ASSERT_TRUE(gate.wait_until_reached());
  x_.reset();
  graph_.reset();
  EXPECT_EQ(allocations(), before) << "the replay will write it";
  gate.open();
  stream.synchronize();
  expect_eventually(before - 1);
}

TEST_F(RetainedInputs, StayWithTheirOwnerWhenTheGraphIsGone) {
  const std::uint64_t before = allocations();
  capture(graph_, with_retain(), [&] { add(x_); });
  graph_.replay();
  EXPECT_EQ(first(x_), 1);
  graph_.reset();
  EXPECT_EQ(allocations(), before);
  x_.reset();
  expect_eventually(before - 1);
}

TEST_F(RetainedInputs, StayUntilTheLastGraphThatKeepsThemIsGone) {
  const std::uint64_t before = allocations();
  CUDAGraph second;
  capture(graph_, with_retain(), [&] { add(x_); });
  capture(second, with_retain(), [&] { add(x_); });
  x_.reset();
  graph_.reset();
  for (int i = 0; i < 3; ++i) CUDAGraph().reset();
  EXPECT_EQ(allocations(), before);
  second.replay();
  current_stream().synchronize();
  second.reset();
  expect_eventually(before - 1);
}

TEST_F(RetainedInputs, AreNotDeadForAGraphThatChecksThemUntilTheyAreFreed) {
  CUDAGraph checking;
  capture(graph_, with_retain(), [&] { add(x_); });
  capture(checking, with_check(), [&] { add(x_); });
  const std::uint64_t before = allocations();
  x_.reset();
  checking.replay();
  graph_.reset();
  expect_eventually(before - 1);
  EXPECT_THROW(checking.replay(), DeadInputError);
}

TEST_F(RetainedInputs, CannotBeFreedAgainByTheirOwner) {
  void* const memory = allocator_.allocate(1000);
  capture(graph_, with_retain(), [&] { fill_async(memory, 0, 1000); });
  allocator_.deallocate(memory);
  EXPECT_TRUE(contains(text_of<UsageError>([&] { allocator_.deallocate(memory); }), "which was freed already"));
  EXPECT_THROW(allocator_.record_stream(memory, current_stream()), UsageError);
  graph_.replay();
  current_stream().synchronize();
}

TEST_F(RetainedInputs, ThatAreFreedInTheCaptureStay) {
  const std::uint64_t before = allocations();
  Buffer<int> y = zeros(n), unused = zeros(n);
  const void* const address = x_.data();
  capture(graph_, with_retain(), [&] {
    multiply(x_, 10, y);
    x_.reset();
    unused.reset();
    EXPECT_EQ(allocations(), before + 2) << "whether the graph uses it is known at the end";
  });
  EXPECT_EQ(allocations(), before + 1) << "what the graph does not use is freed";
  ASSERT_THAT(graph_.inputs(), SizeIs(2));
  EXPECT_TRUE(graph_.inputs()[0].retained);
  EXPECT_TRUE(graph_.inputs()[1].retained);
  const Buffer<int> other(n);
  EXPECT_NE(other.data(), address);
  graph_.replay();
  EXPECT_EQ(first(y), 0);
  graph_.reset();
  expect_eventually(before + 1);
}

TEST_F(RetainedInputs, ThatAreFreedInACaptureThatFailsAreFreed) {
  const std::uint64_t before = allocations();
  EXPECT_THROW(capture(graph_, with_retain(),
                       [&] {
                         add(x_);
                         x_.reset();
                         throw std::runtime_error("no");
                       }),
               std::runtime_error);
  EXPECT_EQ(allocations(), before - 1);
}

TEST_F(RetainedInputs, ThatAreFreedInSeveralCapturesStayForEachGraph) {
  const Stream other;
  const std::uint64_t before = allocations();
  CUDAGraph second;
  GraphOptions options = with_retain();
  options.capture_error_mode = CaptureMode::relaxed;
  GraphOptions of_second = options;
  of_second.stream = other;
  capture(graph_, options, [&] {
    add(x_);
    capture(second, of_second, [&] {
      add(x_);
      x_.reset();
    });
  });
  EXPECT_EQ(allocations(), before);
  graph_.reset();
  second.replay();
  current_stream().synchronize();
  second.reset();
  expect_eventually(before - 1);
}

TEST_F(RetainedInputs, AreReleasedWhenTheCaptureFails) {
  const std::uint64_t before = allocations();
  EXPECT_THROW(capture(graph_, with_retain(),
                       [&] {
                         add(x_);
                         throw std::runtime_error("no");
                       }),
               std::runtime_error);
  x_.reset();
  EXPECT_EQ(allocations(), before - 1);
}

}  // namespace
}  // namespace reprise::graphs::test
