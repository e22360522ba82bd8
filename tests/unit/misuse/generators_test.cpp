// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <thread>

#include "tests/support/faulty_backend.h"
#include "tests/unit/random/random_fixture.h"

// Misuse of generators; table.md has what is tested elsewhere.

namespace reprise::random::test {
namespace {

class GeneratorMisuse : public ::testing::Test {
 protected:
  const SideStream side_;
  Generator generator_{current_device(), 42};
  Buffer<unsigned> x_{4};
};

TEST_F(GeneratorMisuse, NoNumbersAreNone) {
  const GeneratorState before = generator_.get_state();
  (void)generator_.philox_state(0);
  EXPECT_EQ(generator_.get_state(), before);
  const CUDAGraph graph = capture({.allow_empty = true}, [&] { (void)generator_.philox_state(0); });
  EXPECT_EQ(generator_.get_state(), before);
}

TEST_F(GeneratorMisuse, MoreNumbersThanThereAreAreRefused) {
  const GeneratorState before = generator_.get_state();
  for (const std::uint64_t increment : {UINT64_MAX, UINT64_MAX - 2})
    EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)generator_.philox_state(increment); }),
                         "most numbers that one thread"));
  EXPECT_EQ(generator_.get_state(), before);
}

TEST_F(GeneratorMisuse, AStreamOfAnotherDeviceIsRefused) {
  static auto& backend = *new backend::test::FaultyBackend(default_device().backend());  // until the process ends
  const Stream there{Device(backend)};
  EXPECT_TRUE(contains(text_of<UsageError>([&] { (void)generator_.philox_state(1, there); }), "default_generator"));
  EXPECT_EQ(generator_.offset(), 0U);
}

TEST_F(GeneratorMisuse, EveryChangeIsRefusedInACaptureOnItsThreadAndOnOthersOnceItDrew) {
  const GeneratorState before = generator_.get_state();
  const auto every_change_is_refused = [&] {
    EXPECT_TRUE(contains(text_of<UsageError>([&] { generator_.set_current_seed(1); }), "Generator::set_current_seed"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { generator_.seed(); }), "Generator::seed"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { generator_.set_offset(4); }), "Generator::set_offset"));
    EXPECT_TRUE(contains(text_of<UsageError>([&] { generator_.set_state({1, 4}); }), "Generator::set_state"));
  };
  CUDAGraph graph;
  graph.capture_begin({}, CaptureMode::thread);
  every_change_is_refused();
  EXPECT_TRUE(contains(text_of<UsageError>([&] { manual_seed(1); }), "manual_seed"));
  draw(generator_, x_);
  std::thread(every_change_is_refused).join();
  EXPECT_EQ(generator_.get_state(), before);
  EXPECT_EQ(generator_.clone().get_state(), before);
  graph.capture_end();
  EXPECT_NO_THROW(generator_.set_current_seed(1));
  graph.replay();
  EXPECT_EQ(read(x_), drawn(Generator(current_device(), 1)));
}

TEST_F(GeneratorMisuse, WithinAHookItMayBeUsedAndTheReplayGoesOnFromThere) {
  CUDAGraph graph;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) { generator_.set_current_seed(7); };
  graph.add_hooks(hooks);
  capture(graph, [&] { draw(generator_, x_); });
  graph.replay();
  EXPECT_EQ(read(x_), drawn(Generator(current_device(), 7)));
}

TEST_F(GeneratorMisuse, OnAStreamWhoseCaptureIsForeignOrBrokenNothingIsDrawn) {
  backend::Backend& runtime = default_device().backend();
  const Stream stream;
  ASSERT_EQ(runtime.stream_begin_capture(stream.native(), CaptureMode::relaxed), ErrorCode::success);
  EXPECT_TRUE(
      contains(text_of<UsageError>([&] { (void)generator_.philox_state(1, stream); }), "in a capture of other code"));
  GraphHandle made = nullptr;
  EXPECT_EQ(runtime.stream_end_capture(stream.native(), &made), ErrorCode::success);
  EXPECT_EQ(runtime.graph_destroy(made), ErrorCode::success);

  CUDAGraph graph;
  graph.capture_begin();
  EXPECT_THROW(current_stream().synchronize(), BackendError);
  EXPECT_THROW((void)generator_.philox_state(1), BackendError);
  graph.capture_abandon();
  EXPECT_EQ(generator_.offset(), 0U);
}

}  // namespace
}  // namespace reprise::random::test
