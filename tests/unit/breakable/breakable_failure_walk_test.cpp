// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <vector>

#include "tests/unit/breakable/breakable_fixture.h"
#include "tests/unit/graph/failure_walk/call_walk.h"

// Each call of the runtime that an operation with eager parts makes fails once. Then all is checked: what ran is the
// beginning of the program, a graph that was there stays usable, and nothing is lost.

namespace reprise::breakables::test {
namespace {

using reprise::test::Outcome;
using reprise::test::Trouble;

constexpr std::size_t n = 100;
constexpr int steps = 4;  // of the body: 1, 10, 100 and 1000 are added

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

  Device device{reprise::test::walked_runtime()};
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

// The sum of some first steps of the body, after whole runs of it.
bool is_beginning(int added, int effects) {
  int sum = 0;
  if (added == 0) return true;
  for (int run = 0; run < effects; ++run)
    for (int step = 0, amount = 1; step < steps; ++step, amount *= 10)
      if (added == (sum += amount)) return true;
  return false;
}

class BreakableRun final : public reprise::test::WalkedRun {
 public:
  explicit BreakableRun(const Scenario& scenario) : scenario_(scenario) {}

  void prepare() override {
    if (scenario_.prepare != nullptr) scenario_.prepare(stage_);
    before_ = first(stage_.state);
  }
  void run() override { scenario_.run(stage_); }
  bool noted() const override { return stage_.cache->failure({0}).has_value(); }

  void check(const Outcome& outcome, const Trouble& /*trouble*/) override {
    stage_.device.synchronize();
    const int added = first(stage_.state) - before_;
    if (outcome.thrown) {
      EXPECT_TRUE(is_beginning(added, scenario_.effects)) << added;
    } else {
      EXPECT_EQ(added, 1111 * scenario_.effects);
    }
    // Everything works, in the states that the failure left, too.
    if (outcome.thrown && scenario_.keeps_graph) expect_run([&] { stage_.graph->replay(); });
    stage_.graph.emplace();
    expect_run([&] { capture_it(stage_); });
    stage_.cache->forget({0});
    expect_run([&] { run_in_cache(stage_); });
  }

 private:
  template <class F>
  void expect_run(const F& run) {
    const int before = first(stage_.state);
    run();
    EXPECT_EQ(first(stage_.state), before + 1111);
  }

  const Scenario& scenario_;
  Stage stage_;
  int before_ = 0;
};

class BreakableFailureWalk : public ::testing::TestWithParam<ErrorCode> {};

TEST_P(BreakableFailureWalk, FailsEveryCallOnceAndLosesNothing) {
  reprise::test::FailingCall trouble(GetParam());
  for (const Scenario& scenario : scenarios())
    reprise::test::walk(scenario.name, trouble, [&] { return std::make_unique<BreakableRun>(scenario); });
}

INSTANTIATE_TEST_SUITE_P(Codes, BreakableFailureWalk, ::testing::Values(ErrorCode::out_of_memory, ErrorCode::unknown));

}  // namespace
}  // namespace reprise::breakables::test
