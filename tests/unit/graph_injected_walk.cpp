// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "backend/call.h"
#include "graph/capture_registry.h"
#include "tests/support/accounting_backend.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph_test.h"

// The walk of failures (graph_failure_walk.h) once more, with the failures that users inject into a host device: of
// each kind the first call of an operation fails, the second, and so on. The device that the operations see only keeps
// the books; what fails is the host device below.

namespace reprise::graphs::test {
namespace {

using backend::Call;
using reprise::test::Warnings;

constexpr std::size_t large = std::size_t{1} << 20;  // values: a segment of its own
constexpr auto code = Result::launch_failure;

// Devices live until the process ends.
backend::test::AccountingBackend& books() {
  static auto& runtime = *new backend::test::AccountingBackend(default_device().backend());
  return runtime;
}

// Made anew for each failure.
struct Stage {
  Device device{books()};
  DeviceGuard device_guard{device};
  Stream stream{device};
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
    device.synchronize();
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

// What the device holds once everything that nobody needs was given back.
struct Level {
  std::uint64_t reserved = 0;
  backend::test::Living living;
  friend bool operator==(const Level&, const Level&) = default;
};

Level level() {
  const Device device(books());
  CachingAllocator::of(device).empty_cache();
  return {CachingAllocator::of(device).statistics().reserved_bytes, books().living()};
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
  const Level before = level();
  Stage stage;
  operation.prepare(stage);
  const Level prepared = level();
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
  books().make_up_for_refused();
  if (thrown && operation.failed == Left::empty) {
    EXPECT_TRUE(eventually([&] { return level() == prepared; }));
  }
  expect_usable(stage, thrown ? operation.failed : operation.done);
  stage.x.reset();
  EXPECT_TRUE(eventually([&] { return level() == before; }));
  return true;
}

TEST(InjectedWalk, FailsEveryCallOfTheOperationsOfAGraphAndLosesNothing) {
  if (default_device().type() != DeviceType::host) GTEST_SKIP() << "failures can be injected into host devices";
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
