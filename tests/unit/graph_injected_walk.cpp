// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "backend/call.h"
#include "graph/capture_registry.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph_test.h"

// The walk of failures (graph_failure_walk.h) once more, with the failures that users inject into a host device: of
// each kind the first call of an operation fails, the second, and so on. Nothing counts what the device holds here but
// its memory.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using reprise::test::Warnings;

constexpr std::size_t large = std::size_t{1} << 20;  // values: a segment of its own
constexpr auto code = Result::launch_failure;

// Made anew for each failure.
struct Stage {
  Stream stream;
  StreamGuard guard{stream};
  Buffer<int> x = zeros();  // a replay of the graph adds one
  CUDAGraph graph{KeepGraph::yes};

  void capture_it() {
    capture(graph, {}, [&] {
      Buffer<int> scratch(large);
      scratch.fill_bytes(0);
      add(x);
    });
  }
  void expect_replay_adds_one() {
    default_device().synchronize();
    const int before = first(x);
    graph.replay();
    EXPECT_EQ(first(x), before + 1);
  }
};

enum class Left { empty, captured };

struct Operation {
  const char* name;
  void (*prepare)(Stage&);
  void (*run)(Stage&);
  Left failed;  // what an exception leaves
  Left done;
};

void do_nothing(Stage&) {}
void capture_it(Stage& s) {
  s.capture_it();
}
void capture_and_instantiate(Stage& s) {
  s.capture_it();
  s.graph.instantiate();
}
void capture_and_replay(Stage& s) {
  s.capture_it();
  s.graph.replay();
  s.stream.synchronize();
}

constexpr Operation operations[] = {
    {"capture", do_nothing, capture_it, Left::empty, Left::captured},
    {"instantiate", capture_it, [](Stage& s) { s.graph.instantiate(); }, Left::captured, Left::captured},
    {"instantiate again", capture_and_instantiate, [](Stage& s) { s.graph.instantiate(); }, Left::captured,
     Left::captured},
    {"first replay", capture_it, [](Stage& s) { s.graph.replay(); }, Left::captured, Left::captured},
    {"replay", capture_and_instantiate, [](Stage& s) { s.graph.replay(); }, Left::captured, Left::captured},
    {"reset", capture_and_instantiate, [](Stage& s) { s.graph.reset(); }, Left::empty, Left::empty},
    {"reset after a replay", capture_and_replay, [](Stage& s) { s.graph.reset(); }, Left::empty, Left::empty},
};

// What the device was asked to destroy and did not, it has for good.
bool keeps_something(Call call) {
  switch (call) {
    case Call::memory_free:
    case Call::graph_destroy:
    case Call::graph_exec_destroy:
    case Call::user_object_release:
      return true;
    default:
      return false;
  }
}

std::uint64_t free_memory() {
  CachingAllocator::of(default_device()).empty_cache();
  return default_device().memory_info().free;
}

// The first error is what the user sees: as the exception, or as a warning if nothing could be thrown.
void expect_told(Call call, const std::optional<std::string>& thrown, const Warnings& warnings) {
  // An internal stream that cannot be asked is left alone, and another one taken.
  if (!thrown && warnings.texts().empty() && call == Call::stream_is_capturing) return;
  ASSERT_TRUE(thrown || !warnings.texts().empty()) << "nobody was told of the failure";
  const std::string text = thrown ? *thrown : warnings.texts().front();
  EXPECT_TRUE(contains(text, cuda_name(call)));
  EXPECT_TRUE(contains(text, result_name(code)));
  EXPECT_TRUE(contains(text, "the failure was injected"));
}

void expect_untouched(Stage& stage) {
  EXPECT_FALSE(any_capture_underway());
  EXPECT_EQ(current_stream(), stage.stream.ref());
  EXPECT_EQ(stage.stream.capture_status(), CaptureStatus::none);
  auto mode = CaptureErrorMode::relaxed;
  backend::Backend& runtime = default_device().backend();
  EXPECT_EQ(runtime.thread_exchange_capture_mode(&mode), Result::success);
  EXPECT_EQ(mode, CaptureErrorMode::global);
  EXPECT_EQ(runtime.thread_exchange_capture_mode(&mode), Result::success);
  EXPECT_EQ(make_unsafe_call(), Result::success) << "some capture is underway";
}

void expect_usable(Stage& stage, Left left) {
  if (left == Left::empty) {
    EXPECT_THROW(stage.graph.pool(), UsageError);
  } else {
    stage.expect_replay_adds_one();
    stage.graph.reset();
  }
  stage.capture_it();
  stage.expect_replay_adds_one();
  stage.graph.reset();
}

// Does the operation make so many calls of the kind?
bool walk(const Operation& operation, Call call, std::uint64_t nth) {
  const std::uint64_t free_before = free_memory();
  Stage stage;
  operation.prepare(stage);
  const std::uint64_t free_prepared = free_memory();
  const Warnings warnings;
  std::optional<std::string> thrown;
  {
    const InjectedFailure failure({.call = cuda_name(call), .code = code, .nth = nth, .device = default_device()});
    try {
      operation.run(stage);
    } catch (const std::exception& error) {
      thrown = error.what();
    }
    if (!failure.happened()) {
      EXPECT_FALSE(thrown) << thrown.value_or("");
      return false;
    }
  }
  SCOPED_TRACE(std::string(operation.name) + ": " + cuda_name(call) + " fails, number " + std::to_string(nth));
  expect_told(call, thrown, warnings);
  expect_untouched(stage);
  if (thrown && operation.failed == Left::empty && !keeps_something(call)) {
    EXPECT_TRUE(eventually([&] { return free_memory() == free_prepared; }));
  }
  expect_usable(stage, thrown ? operation.failed : operation.done);
  stage.x.reset();
  if (!keeps_something(call)) {
    EXPECT_TRUE(eventually([&] { return free_memory() == free_before; }));
  }
  return true;
}

TEST(InjectedWalk, FailsEveryCallOfTheOperationsOfAGraphAndLosesNothing) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures can be injected into host devices";
  settle_memory();
  for (const Operation& operation : operations) {
    std::uint64_t points = 0;
    for (int i = 0; i < backend::call_count; ++i) {
      const auto call = static_cast<Call>(i);
      std::uint64_t nth = 1;
      while (nth < 100 && walk(operation, call, nth)) ++nth;
      points += nth - 1;
    }
    EXPECT_GT(points, 0u) << operation.name;
    std::printf("  %s: walked %d failure points\n", operation.name, static_cast<int>(points));
  }
}

}  // namespace
}  // namespace reprise::graphs::test
