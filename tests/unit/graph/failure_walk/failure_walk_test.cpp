// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/unit/graph/failure_walk/failure_walk.h"

// Each call of the runtime that a scenario makes fails once; the graph and the stream work afterwards.

namespace reprise::graphs::test {

using reprise::test::Held;
using reprise::test::Outcome;
using reprise::test::Trouble;

namespace {

/// What replays leave where nothing fails.
struct Expected {
  std::vector<int> before, after;
};

Expected expected_values(const Scenario& scenario) {
  Expected expected;
  if (scenario.values == Values::not_compared) return expected;
  SCOPED_TRACE(scenario.name);
  Stage stage(scenario.keep);
  if (scenario.prepare != nullptr) scenario.prepare(stage);
  if (scenario.failed != Left::empty) expected.before = stage.replayed_values();
  scenario.run(stage);
  expected.after = stage.replayed_values();
  EXPECT_EQ(expected.before != expected.after, scenario.values == Values::change);
  return expected;
}

class GraphRun final : public reprise::test::WalkedRun {
 public:
  GraphRun(const Scenario& scenario, const Expected& expected)
      : scenario_(scenario), expected_(expected), stage_(scenario.keep) {}

  void prepare() override {
    if (scenario_.prepare != nullptr) scenario_.prepare(stage_);
    prepared_ = reprise::test::held_by_walked_devices();
    pools_ = reprise::test::reserved_by_pools_of_walked_devices();
  }
  void run() override { scenario_.run(stage_); }

  void check(const Outcome& outcome, const Trouble& trouble) override {
    EXPECT_EQ(stage_.side.capture_status(), CaptureStatus::none);
    if (stage_.far) {
      EXPECT_EQ(stage_.far->capture_status(), CaptureStatus::none);
    }
    const bool compares = scenario_.values != Values::not_compared;
    if (outcome.thrown && scenario_.failed == Left::empty) {
      if (!trouble.pools_stay()) {
        EXPECT_TRUE(eventually([&] { return reprise::test::reserved_by_pools_of_walked_devices() == pools_; }));
      }
      reprise::test::expect_held(prepared_);
    }
    if (compares && scenario_.failed != Left::empty) expect_values(outcome.thrown);
    expect_usable(outcome.thrown ? scenario_.failed : scenario_.done);
    if (compares && scenario_.failed == Left::empty) {
      scenario_.run(stage_);
      EXPECT_EQ(stage_.replayed_values(), expected_.after);
    }
  }

 private:
  // The graph does what it did, and the operation can be repeated.
  void expect_values(bool failed) {
    if (failed) {
      EXPECT_EQ(stage_.replayed_values(), expected_.before);
      scenario_.run(stage_);
    }
    EXPECT_EQ(stage_.replayed_values(), expected_.after);
  }
  void expect_replay_adds_one() {
    stage_.device.synchronize();
    const int before = first(stage_.x);
    stage_.graph.replay();
    EXPECT_EQ(first(stage_.x), before + 1);
  }
  // The graph is in the expected state and works, and so do the next captures.
  void expect_usable(Left left) {
    if (left == Left::empty) {
      EXPECT_THROW(stage_.graph.pool(), UsageError);
    } else {
      expect_replay_adds_one();
      stage_.graph.reset();
    }
    stage_.graph.capture_begin();  // on the same stream
    stage_.increment();
    stage_.graph.capture_end();
    expect_replay_adds_one();
    stage_.graph.reset();
    capture_increment(stage_.graph, stage_.x);  // on an internal stream
    expect_replay_adds_one();
    stage_.graph.reset();
  }

  const Scenario& scenario_;
  const Expected& expected_;
  Stage stage_;
  Held prepared_;
  std::uint64_t pools_ = 0;
};

void walk_all(Trouble& trouble) {
  int points = 0, walked = 0;
  for (const Scenario& scenario : scenarios()) {
    if (scenario.two_devices && !second_device()) continue;
    ++walked;
    const Expected expected = expected_values(scenario);
    points +=
        reprise::test::walk(scenario.name, trouble, [&] { return std::make_unique<GraphRun>(scenario, expected); });
  }
  std::printf("  walked %d calls in %d scenarios\n", points, walked);
}

class FailureWalk : public ::testing::TestWithParam<ErrorCode> {};

TEST_P(FailureWalk, FailsEveryCallOfEveryScenarioAndLosesNothing) {
  reprise::test::FailingCall trouble(GetParam());
  walk_all(trouble);
  trouble.expect_all_silent_ones();
}

std::string name_of(const ::testing::TestParamInfo<ErrorCode>& info) {
  return result_name(info.param);
}
INSTANTIATE_TEST_SUITE_P(With, FailureWalk,
                         ::testing::Values(ErrorCode::launch_failure, ErrorCode::out_of_memory,
                                           ErrorCode::stream_capture_invalidated),
                         name_of);

TEST(BreakingWalk, BreaksTheCaptureBeforeEveryCallAndLosesNothing) {
  reprise::test::BrokenCaptures trouble;
  walk_all(trouble);
  EXPECT_GT(trouble.broken(), 50);
}

}  // namespace

Stage::Stage(KeepGraph keep)
    : device(reprise::test::walked_runtime()),
      second(reprise::test::second_walked_device()),
      device_guard(device),
      stream(device),
      side(device),
      guard(stream),
      graph(keep) {
  if (!second) return;
  far.emplace(*second);
  const StreamGuard there(*far);
  far_y = zeros();
}

std::vector<int> Stage::replayed_values() {
  device.synchronize();
  std::vector<int> start(values.size());
  std::iota(start.begin(), start.end(), 1);
  start[flag] = 1;
  values.write(start);
  graph.replay();
  return read(values);
}

}  // namespace reprise::graphs::test
