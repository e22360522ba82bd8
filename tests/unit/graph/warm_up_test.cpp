// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/unit/graph/graph_fixture.h"

// GraphOptions::warmup: runs of the body before its capture.

namespace reprise::graphs::test {
namespace {

class WarmUps : public ::testing::Test {
 protected:
  Buffer<int> x_ = zeros();
};

TEST_F(WarmUps, RunOnTheStreamOfTheCapture) {
  std::vector<StreamRef> streams;
  std::vector<bool> capturing;
  CUDAGraph graph = capture({.warmup = 2}, [&](StreamRef stream) {
    streams.push_back(stream);
    capturing.push_back(is_current_stream_capturing());
    add(x_);
  });
  EXPECT_EQ(capturing, (std::vector<bool>{false, false, true}));
  ASSERT_EQ(streams.size(), 3);
  EXPECT_EQ(streams[0], streams[2]);
  EXPECT_EQ(first(x_), 2) << "the runs are real";
  graph.replay();
  EXPECT_EQ(first(x_), 3);
}

TEST_F(WarmUps, RunAfterTheWorkOfTheCurrentStream) {
  const SideStream side;
  reprise::test::Gate gate;
  call_on_host(side.ref(), &reprise::test::Gate::pass, &gate);
  bool done_early = true;
  CUDAGraph graph = capture({.warmup = 1}, [&] {
    add(x_);
    if (is_current_stream_capturing()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done_early = current_stream().query();
    gate.open();
  });
  EXPECT_FALSE(done_early);
}

TEST_F(WarmUps, RestoreRandomNumbers) {
  manual_seed(17);
  Generator own;
  const GeneratorState before = own.get_state();
  CUDAGraph graph = capture({.generators = {own}, .warmup = 3}, [&] {
    static_cast<void>(default_generator().philox_state(4));
    static_cast<void>(own.philox_state(8));
    add(x_);
  });
  EXPECT_EQ(default_generator().offset(), 0);
  EXPECT_EQ(own.get_state(), before);
  graph.replay();
  EXPECT_EQ(own.offset(), before.offset + 8);
}

TEST_F(WarmUps, RestoreGeneratorsThatAreRegisteredWithTheGraph) {
  Generator own;
  const GeneratorState before = own.get_state();
  CUDAGraph graph;
  graph.register_generator_state(own);
  capture(graph, {.warmup = 3}, [&] {
    static_cast<void>(own.philox_state(8));
    add(x_);
  });
  EXPECT_EQ(own.get_state(), before);
  graph.replay();
  EXPECT_EQ(own.offset(), before.offset + 8);
}

TEST_F(WarmUps, ReleaseTheirCachedMemory) {
  settle_memory();
  const CachingAllocator& allocator = CachingAllocator::of(current_device());
  const auto reserved = allocator.statistics().reserved_bytes;
  std::uint64_t at_capture = 0;
  constexpr std::size_t large = 64 << 20;
  CUDAGraph graph = capture({.warmup = 2}, [&] {
    if (is_current_stream_capturing())
      at_capture = allocator.statistics().reserved_bytes;
    else
      Buffer<char>(large).fill_bytes_async(1);
    add(x_);
  });
  EXPECT_LT(at_capture, reserved + large);
}

TEST_F(WarmUps, ThatThrowLeaveNothingCaptured) {
  manual_seed(17);
  CUDAGraph graph;
  const StreamRef before = current_stream();
  EXPECT_THROW(capture(graph, {.warmup = 2},
                       [&] {
                         static_cast<void>(default_generator().philox_state(4));
                         throw std::runtime_error("no");
                       }),
               std::runtime_error);
  EXPECT_EQ(current_stream(), before);
  EXPECT_EQ(default_generator().offset(), 0);
  EXPECT_THROW(graph.replay(), UsageError);
  capture(graph, [&] { add(x_); });
  graph.replay();
  EXPECT_EQ(first(x_), 1);
}

TEST_F(WarmUps, ThatThrowComeBeforeLaterWork) {
  const SideStream side;
  reprise::test::Gate gate;
  EXPECT_THROW(capture({.warmup = 1},
                       [&](StreamRef stream) {
                         call_on_host(stream, &reprise::test::Gate::pass, &gate);
                         throw std::runtime_error("no");
                       }),
               std::runtime_error);
  EXPECT_FALSE(side.ref().query());
  gate.open();
  side.ref().synchronize();
}

TEST_F(WarmUps, RunOnceForTwoPasses) {
  int runs = 0;
  CUDAGraph graph = capture({.warmup = 1, .check_frozen_values = no_next}, [&] {
    ++runs;
    add(x_);
  });
  EXPECT_EQ(runs, 3);
}

TEST_F(WarmUps, NeedABody) {
  CUDAGraph graph;
  const SideStream side;
  EXPECT_TRUE(contains(text_of<UsageError>([&] { graph.capture_begin({.warmup = 1}); }), "GraphOptions::warmup"));
  EXPECT_THROW(reprise::graph(graph, {.warmup = 1}), UsageError);
}

TEST_F(WarmUps, WhileTheCurrentStreamIsCapturedAreRefused) {
  const SideStream side;
  CUDAGraph outer;
  outer.capture_begin({.capture_error_mode = CaptureMode::relaxed});
  add(x_);
  EXPECT_THROW(capture({.capture_error_mode = CaptureMode::relaxed, .warmup = 1}, [&] { add(x_); }), UsageError);
  outer.capture_end();
  EXPECT_EQ(outer.node_count(), 1);
}

TEST_F(WarmUps, OnAStreamThatIsCapturedAreRefused) {
  const SideStream side;
  GraphOptions options{.capture_error_mode = CaptureMode::relaxed};
  CUDAGraph outer;
  outer.capture_begin(options);
  add(x_);
  {
    const SideStream other;
    options.stream = side.ref();
    options.warmup = 1;
    const auto refused = [&] { capture(options, [&] { add(x_); }); };
    EXPECT_TRUE(contains(text_of<UsageError>(refused), "takes part in a capture already"));
  }
  outer.capture_end();
  EXPECT_EQ(outer.node_count(), 1);
}

}  // namespace
}  // namespace reprise::graphs::test
