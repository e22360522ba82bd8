// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "captures/registry.h"
#include "tests/support/accounting_backend.h"
#include "tests/unit/breakable/breakable_fixture.h"

// Each call of the runtime that an operation with eager parts makes fails once. Then all is checked: what ran is the
// beginning of the program, a graph that was there stays usable, and nothing is lost.

namespace reprise::breakables::test {
namespace {

using backend::Call;
using backend::test::AccountingBackend;
using graphs::test::eventually;

constexpr std::size_t n = 100;
constexpr int steps = 4;  // of the body: 1, 10, 100 and 1000 are added

AccountingBackend& walked_runtime() {
  static auto& runtime = *new AccountingBackend(default_device().backend());  // devices live until the process ends
  return runtime;
}

/// What a scenario works with.
struct Stage {
  void body() { body(state.data()); }
  void body(int* sum) {
    const StreamRef here = current_stream();
    const annotate scope("step");
    Buffer<int> scratch(n);
    multiply(ones, 1, scratch);
    launch(1, graphs::test::Add{}, sum, 1, std::size_t{1});
    const Buffer<int> ten = eager([this] {
      Buffer<int> made(n);
      multiply(ones, 10, made);
      return made;
    });
    launch(1, AddFrom{}, sum, ten.data());
    eager([p = sum](StreamRef stream) { launch(stream, 1, graphs::test::Add{}, p, 100, std::size_t{1}); });
    fork.wait(here);
    launch(fork, 1, AddFrom{}, other.data(), scratch.data());
    launch(1, graphs::test::Add{}, sum, 1000, std::size_t{1});
    here.wait(fork);
  }

  struct AddFrom {
    REPRISE_KERNEL void operator()(Thread t, int* x, const int* y) const {
      if (t.global_x() == 0) x[0] += y[0];
    }
    static auto accesses(int* x, const int* y) { return std::array{reads(x, 1), writes(x, 1), reads(y, 1)}; }
  };

  GraphOptions options() const {
    return {.capture_error_mode = CaptureMode::thread, .enable_annotations = true, .check_input_liveness = true};
  }

  AccountingBackend& runtime = walked_runtime();
  Device device{runtime};
  DeviceGuard device_guard{device};
  Stream stream{device}, far{device}, fork{device};
  StreamGuard guard{stream};
  Buffer<int> state = zeros(), other = zeros(), ones = counting(n);
  std::optional<BreakableGraph> graph{std::in_place};
  std::optional<GraphCache> cache{std::in_place, GraphCacheOptions{.capture_after = 0}};
};

struct Scenario {
  const char* name;
  void (*prepare)(Stage&);  // not walked; may be null
  void (*run)(Stage&);      // walked
  int effects;              // how often the body takes effect when nothing fails
  bool keeps_graph;         // a failure leaves the graph that was prepared
};

void capture_it(Stage& s) {
  breakable(*s.graph, s.options(), [&s] { s.body(); });
}
void capture_warmed_up(Stage& s) {
  GraphOptions options = s.options();
  options.warmup = 1;
  breakable(*s.graph, options, [&s] { s.body(); });
}
void replay(Stage& s) {
  s.graph->replay();
}
void replay_on_other_stream(Stage& s) {
  s.graph->replay(s.far);
  s.stream.wait(s.far);
}
void run_in_cache(Stage& s) {
  s.cache->run({0}, [&s] { s.body(); });
}

void run_in_cache_with_input(Stage& s) {
  s.cache->run({0}, inputs(inout(s.state)), [&s](DeviceView<int> sum) { s.body(sum.data()); });
}

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"a capture", nullptr, capture_it, 1, false},
      {"a capture with a warm-up", nullptr, capture_warmed_up, 2, false},
      {"a replay", capture_it, replay, 1, true},
      {"a replay on another stream", capture_it, replay_on_other_stream, 1, true},
      {"a reset", capture_it, [](Stage& s) { s.graph->reset(); }, 0, false},
      {"the destructor", capture_it, [](Stage& s) { s.graph.reset(); }, 0, false},
      {"a capture in a cache", nullptr, run_in_cache, 1, false},
      {"a hit of a cache", run_in_cache, run_in_cache, 1, false},
      {"a capture in a cache with an input", nullptr, run_in_cache_with_input, 1, false},
      {"a hit of a cache with an input", run_in_cache_with_input, run_in_cache_with_input, 1, false},
  };
  return all;
}

// Failures that are no failures of the operation, and are not reported.
bool is_silent(Call call, ErrorCode code) {
  return (call == Call::memory_allocate && code == ErrorCode::out_of_memory) || call == Call::stream_is_capturing;
}

struct Level {
  std::uint64_t allocations = 0, reserved = 0;
  backend::test::Living living;
  friend bool operator==(const Level&, const Level&) = default;
};

Level level_of(const Device& device) {
  release_finished_graphs();
  CachingAllocator& allocator = CachingAllocator::of(device);
  allocator.empty_cache();
  return {allocator.statistics().allocations, allocator.statistics().reserved_bytes, walked_runtime().living()};
}

// The sum of some first steps of the body, after whole runs of it.
bool is_beginning(int added, int effects) {
  int sum = 0;
  if (added == 0) return true;
  for (int run = 0; run < effects; ++run)
    for (int step = 0, amount = 1; step < steps; ++step, amount *= 10)
      if (added == (sum += amount)) return true;
  return false;
}

class BreakableFailureWalk : public ::testing::TestWithParam<ErrorCode> {
 protected:
  // False if the operation does not make so many calls.
  bool walk(const Scenario& scenario, int passed) {
    const Device device(walked_runtime());
    EXPECT_TRUE(eventually([&] { return level_of(device) == Level{}; }));
    {
      const Warnings warnings;
      Stage stage;
      if (scenario.prepare != nullptr) scenario.prepare(stage);
      const int before = first(stage.state);
      std::string text;
      stage.runtime.fail_any(GetParam(), passed);
      try {
        scenario.run(stage);
      } catch (const std::exception& error) {
        text = error.what();
      }
      const std::optional<Call> failed = stage.runtime.failed();
      stage.runtime.heal();
      if (!failed) {
        EXPECT_EQ(text, "") << scenario.name;
        return false;
      }
      SCOPED_TRACE(::testing::Message() << scenario.name << ": call " << passed + 1 << ", " << cuda_name(*failed)
                                        << ": " << text);
      if (!is_silent(*failed, GetParam())) {
        EXPECT_TRUE(!text.empty() || !warnings.texts().empty() || stage.cache->failure({0}))
            << "the failure is reported nowhere";
      }
      expect_outside(stage);
      expect_effect(stage, scenario, before, !text.empty());
      expect_works(stage, scenario, !text.empty());
      stage.runtime.make_up_for_refused();
    }
    walked_runtime().make_up_for_refused();
    Level now;
    EXPECT_TRUE(eventually([&] { return (now = level_of(device)) == Level{}; }))
        << scenario.name << ", call " << passed + 1 << ": " << now.allocations << " allocations, " << now.reserved
        << " bytes, " << now.living.graphs << " graphs, " << now.living.execs << " executables";
    return true;
  }

  static void expect_outside(Stage& stage) {
    EXPECT_FALSE(captures::any_underway());
    EXPECT_EQ(current_stream(), stage.stream.ref());
    EXPECT_EQ(stage.stream.capture_status(), CaptureStatus::none);
    EXPECT_EQ(graphs::test::make_unsafe_call(), ErrorCode::success);
    stage.device.synchronize();
  }

  static void expect_effect(Stage& stage, const Scenario& scenario, int before, bool thrown) {
    const int added = first(stage.state) - before;
    if (thrown) {
      EXPECT_TRUE(is_beginning(added, scenario.effects)) << added;
    } else {
      EXPECT_EQ(added, 1111 * scenario.effects);
    }
  }

  // Expects everything to work, in the states that the failure left, too.
  static void expect_works(Stage& stage, const Scenario& scenario, bool thrown) {
    const auto expect_run = [&](const auto& run) {
      const int before = first(stage.state);
      run();
      EXPECT_EQ(first(stage.state), before + 1111);
    };
    if (thrown && scenario.keeps_graph) expect_run([&] { stage.graph->replay(); });
    stage.graph.emplace();
    expect_run([&] { capture_it(stage); });
    stage.cache->forget({0});
    expect_run([&] { run_in_cache(stage); });
  }
};

TEST_P(BreakableFailureWalk, FailsEveryCallOnceAndLosesNothing) {
  int points = 0;
  for (const Scenario& scenario : scenarios()) {
    int passed = 0;
    while (walk(scenario, passed) && !HasFatalFailure()) ++passed;
    EXPECT_GT(passed, 0) << scenario.name;
    points += passed;
  }
  std::printf("  walked %d calls in %zu operations\n", points, scenarios().size());
}

INSTANTIATE_TEST_SUITE_P(Codes, BreakableFailureWalk, ::testing::Values(ErrorCode::out_of_memory, ErrorCode::unknown));

}  // namespace
}  // namespace reprise::breakables::test
