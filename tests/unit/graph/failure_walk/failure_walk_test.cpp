// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "captures/registry.h"
#include "tests/support/warnings.h"
#include "tests/unit/graph/failure_walk/failure_walk.h"
#include "text/format.h"

// Each call of the runtime that a scenario makes fails once; then all is checked: the error or warning, stream, thread,
// memory, the runtime's objects, and whether the same stream and the same graph work.

namespace reprise::graphs::test {

using backend::Call;
using backend::test::AccountingBackend;
using reprise::test::Warnings;

namespace {

// Devices live until the process ends.
AccountingBackend& first_runtime() {
  static auto& runtime = *new AccountingBackend(default_device().backend());
  return runtime;
}
std::optional<Device> second_runtime() {
  if (!second_device()) return std::nullopt;
  static auto& runtime = *new AccountingBackend(second_device()->backend(), first_runtime());
  return Device(runtime);
}

CaptureMode thread_mode(backend::Backend& runtime) {
  auto mode = CaptureMode::relaxed;
  EXPECT_EQ(runtime.thread_exchange_capture_mode(&mode), ErrorCode::success);
  const CaptureMode found = mode;
  EXPECT_EQ(runtime.thread_exchange_capture_mode(&mode), ErrorCode::success);
  return found;
}

// A failure that is not reported, because nothing is lost.
struct Silent {
  Call call;
  std::optional<ErrorCode> code;  // nothing: any
  const char* reason;
};
constexpr Silent silent[] = {
    {Call::memory_allocate, ErrorCode::out_of_memory, "cached memory is released, and the allocation tried again"},
    {Call::memory_allocate_async, ErrorCode::out_of_memory, "likewise"},
    {Call::stream_is_capturing, std::nullopt,
     "an internal stream that cannot be queried is not used; a block of a stream that cannot be queried is held back"},
};

// What came out of a scenario.
struct Outcome {
  bool thrown = false;
  bool of_the_body = false;  // the scenario's own exception
  std::string call;          // of a BackendError
  std::optional<ErrorCode> code;
  std::string text;
};

Outcome run(const Scenario& scenario, Stage& stage) {
  Outcome outcome;
  try {
    scenario.run(stage);
    return outcome;
  } catch (const BodyFailed&) {
    outcome.of_the_body = true;
  } catch (const BackendError& error) {
    outcome.call = error.call();
    outcome.code = error.code();
    outcome.text = error.what();
  } catch (const CaptureError& error) {
    outcome.code = error.code();
    outcome.text = error.what();
  } catch (const std::exception& error) {
    outcome.text = error.what();
  }
  outcome.thrown = true;
  return outcome;
}

// Exact on the host device. A driver keeps memory of its own, for modules and launches: there it must not pile up.
bool free_is(std::uint64_t expected, std::uint64_t found) {
  if (default_device().type() == DeviceType::host) return found == expected;
  return found + (std::uint64_t{64} << 20) > expected;
}

void expect_eventually(Stage& stage, const Stage::Level& expected) {
  Stage::Level found;
  eventually([&] {
    found = stage.level();
    if (free_is(expected.free, found.free)) found.free = expected.free;
    return found == expected;
  });
  EXPECT_EQ(found.reserved, expected.reserved);
  EXPECT_EQ(found.allocations, expected.allocations);
  EXPECT_EQ(found.living.graphs, expected.living.graphs);
  EXPECT_EQ(found.living.execs, expected.living.execs);
  EXPECT_EQ(found.living.user_objects, expected.living.user_objects);
  EXPECT_EQ(found.free, expected.free);
}

void expect_replay_adds_one(Stage& stage) {
  stage.device.synchronize();
  const int before = first(stage.x);
  stage.graph.replay();
  EXPECT_EQ(first(stage.x), before + 1);
}

// What the thread and the streams were before.
void expect_untouched(Stage& stage) {
  EXPECT_FALSE(captures::any_underway());
  EXPECT_EQ(thread_mode(stage.runtime), CaptureMode::global);
  EXPECT_EQ(current_device(), stage.device);
  EXPECT_EQ(current_stream(), stage.stream.ref());
  EXPECT_EQ(stage.stream.capture_status(), CaptureStatus::none);
  EXPECT_EQ(stage.side.capture_status(), CaptureStatus::none);
  if (stage.far) {
    EXPECT_EQ(stage.far->capture_status(), CaptureStatus::none);
  }
  EXPECT_EQ(make_unsafe_call(), ErrorCode::success) << "some capture is underway";
}

// The graph is in the expected state and works, and so do the next captures.
void expect_usable(Stage& stage, Left left) {
  if (left == Left::empty) {
    EXPECT_THROW(stage.graph.pool(), UsageError);
  } else {
    expect_replay_adds_one(stage);
    stage.graph.reset();
  }
  stage.graph.capture_begin();  // on the same stream
  stage.increment();
  stage.graph.capture_end();
  expect_replay_adds_one(stage);
  stage.graph.reset();
  capture_increment(stage.graph, stage.x);  // on an internal stream
  expect_replay_adds_one(stage);
  stage.graph.reset();
}

/// Runs a scenario again and again, each time with trouble at its next call, and looks at everything afterwards.
class Walk : public ::testing::Test {
 protected:
  virtual ~Walk() = default;
  /// Trouble at the call after `passed` others.
  virtual void prepare_trouble(AccountingBackend& runtime, int passed) = 0;
  /// What happened, in words; empty: the scenario does not make so many calls.
  virtual std::string trouble(AccountingBackend& runtime) = 0;
  /// The first error is what the user sees: as the exception, or as a warning if nothing could be thrown.
  virtual void expect_reported(const Outcome& outcome, const Warnings& warnings) = 0;
  /// Memory that the driver refused to free stays cached; otherwise pools are released automatically.
  virtual bool pools_stay() const { return false; }

  void walk_all(const char* what) {
    int points = 0, walked = 0;
    for (const Scenario& scenario : scenarios()) {
      if (scenario.two_devices && !second_device()) continue;
      ++walked;
      find_values(scenario);
      int passed = 0;
      while (walk_and_catch(scenario, passed)) ++passed;
      EXPECT_GT(passed, 0) << scenario.name;
      points += passed;
    }
    std::printf("  walked %d %s in %d scenarios\n", points, what, walked);
  }

 private:
  // What replays leave where nothing fails.
  void find_values(const Scenario& scenario) {
    if (scenario.values == Values::not_compared) return;
    SCOPED_TRACE(scenario.name);
    values_before_.clear();
    Stage stage(scenario.keep);
    if (scenario.prepare != nullptr) scenario.prepare(stage);
    if (scenario.failed != Left::empty) values_before_ = stage.replayed_values();
    scenario.run(stage);
    values_after_ = stage.replayed_values();
    EXPECT_EQ(values_before_ != values_after_, scenario.values == Values::change);
  }
  // The graph does what it did, and the operation can be repeated.
  void expect_values(const Scenario& scenario, Stage& stage, bool failed) {
    if (failed) {
      EXPECT_EQ(stage.replayed_values(), values_before_);
      scenario.run(stage);
    }
    EXPECT_EQ(stage.replayed_values(), values_after_);
  }

  bool walk(const Scenario& scenario, int passed) {
    Stage stage(scenario.keep);
    // What the replays of the last scenario held goes a moment after them; memory after the objects that held it.
    const std::uint64_t buffers = stage.far ? 4 : 3;
    EXPECT_TRUE(eventually([&] {
      const Stage::Level level = stage.level();
      return level.living == backend::test::Living{} && level.allocations == buffers && stage.reserved_by_pools() == 0;
    }));
    const Stage::Level empty = stage.level();
    if (scenario.prepare != nullptr) scenario.prepare(stage);
    const Stage::Level prepared = stage.level();
    const std::uint64_t pools = stage.reserved_by_pools();
    const Warnings warnings;
    prepare_trouble(stage.runtime, passed);
    const Outcome outcome = run(scenario, stage);
    const std::string what = trouble(stage.runtime);
    stage.runtime.heal();
    // A call that failed may have been one that orders work: what was launched before is not in the way of the checks.
    if (!captures::any_underway()) stage.device.synchronize();
    if (what.empty()) {
      EXPECT_EQ(outcome.thrown, outcome.of_the_body) << outcome.text;
      return false;
    }
    SCOPED_TRACE(text::format("{}: call {}, {}", scenario.name, passed + 1, what));
    expect_reported(outcome, warnings);
    expect_untouched(stage);
    stage.runtime.make_up_for_refused();
    if (outcome.thrown && scenario.failed == Left::empty) {
      if (!pools_stay()) {
        EXPECT_TRUE(eventually([&] { return stage.reserved_by_pools() == pools; }));
      }
      expect_eventually(stage, prepared);
    }
    if (scenario.values != Values::not_compared && scenario.failed != Left::empty)
      expect_values(scenario, stage, outcome.thrown);
    expect_usable(stage, outcome.thrown ? scenario.failed : scenario.done);
    if (scenario.values != Values::not_compared && scenario.failed == Left::empty) {
      scenario.run(stage);
      EXPECT_EQ(stage.replayed_values(), values_after_);
    }
    stage.graph.reset();
    stage.helper.reset();
    expect_eventually(stage, empty);
    return true;
  }

  // An exception of the checks themselves does not end the walk.
  bool walk_and_catch(const Scenario& scenario, int passed) {
    constexpr int most = 100;
    try {
      return walk(scenario, passed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << scenario.name << ", call " << passed + 1 << ": " << error.what();
      first_runtime().heal();
      return passed < most;
    }
  }

  std::vector<int> values_before_, values_after_;  // of the current scenario
};

class FailureWalk : public Walk, public ::testing::WithParamInterface<ErrorCode> {
 protected:
  void prepare_trouble(AccountingBackend& runtime, int passed) override { runtime.fail_any(GetParam(), passed); }
  std::string trouble(AccountingBackend& runtime) override {
    failed_ = runtime.failed();
    return failed_ ? text::format("{}, fails with {}", cuda_name(*failed_), result_name(GetParam())) : std::string();
  }
  bool pools_stay() const override { return failed_ == Call::memory_free; }

  void expect_reported(const Outcome& outcome, const Warnings& warnings) override {
    const std::string call = cuda_name(*failed_);
    if (outcome.thrown && !outcome.of_the_body) {
      EXPECT_EQ(outcome.code, GetParam()) << "another error than the first: " << outcome.text;
      EXPECT_TRUE(contains(outcome.text, call));
      if (!outcome.call.empty()) {
        EXPECT_EQ(outcome.call, call);
      }
      return;
    }
    if (!warnings.texts().empty()) {
      EXPECT_TRUE(contains(warnings.texts().front(), call));
      EXPECT_TRUE(contains(warnings.texts().front(), result_name(GetParam())));
      return;
    }
    for (const Silent& each : silent)
      if (each.call == failed_ && (!each.code || *each.code == GetParam())) {
        unsaid_.insert(each.call);
        return;
      }
    ADD_FAILURE() << "the failure was not reported";
  }

  std::optional<Call> failed_;
  std::set<Call> unsaid_;  // of the silent ones: those that happened
};

TEST_P(FailureWalk, FailsEveryCallOfEveryScenarioAndLosesNothing) {
  walk_all("failure points");
  for (const Silent& each : silent)
    EXPECT_EQ(unsaid_.contains(each.call), !each.code || *each.code == GetParam())
        << cuda_name(each.call) << " is never silent: take it off the list";
}

std::string name_of(const ::testing::TestParamInfo<ErrorCode>& info) {
  return result_name(info.param);
}
INSTANTIATE_TEST_SUITE_P(With, FailureWalk,
                         ::testing::Values(ErrorCode::launch_failure, ErrorCode::out_of_memory,
                                           ErrorCode::stream_capture_invalidated),
                         name_of);

// Instead of a call that fails, one of another thread that breaks the captures that are underway.
class BreakingWalk : public Walk {
 protected:
  void prepare_trouble(AccountingBackend& runtime, int passed) override {
    came_ = broke_ = false;
    runtime.before_any(passed, [this] {
      came_ = true;
      std::thread([this] { broke_ = make_unsafe_call() == ErrorCode::stream_capture_unsupported; }).join();
    });
  }
  std::string trouble(AccountingBackend& /*runtime*/) override {
    return !came_ ? "" : broke_ ? "after the captures were broken" : "after nothing was broken";
  }
  void expect_reported(const Outcome& outcome, const Warnings& warnings) override {
    EXPECT_TRUE(warnings.texts().empty()) << warnings.texts().front();
    broken_ += broke_;
    if (!outcome.thrown || outcome.of_the_body) return;  // the walk finds out whether all is well
    EXPECT_TRUE(broke_) << outcome.text;
    // By the call that noticed, or by the end of the capture. A wait for an event of a broken capture gets code 1.
    EXPECT_TRUE(outcome.code == ErrorCode::stream_capture_invalidated ||
                (outcome.code == ErrorCode::invalid_value && outcome.call == cuda_name(Call::stream_wait_event)))
        << outcome.text;
  }

  bool came_ = false;
  bool broke_ = false;
  int broken_ = 0;
};

TEST_F(BreakingWalk, BreaksTheCaptureBeforeEveryCallAndLosesNothing) {
  walk_all("points where captures could be broken");
  EXPECT_GT(broken_, 50);
}

}  // namespace

Stage::Stage(KeepGraph keep)
    : runtime(first_runtime()),
      device(runtime),
      second(second_runtime()),
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

std::uint64_t Stage::reserved_by_pools() const {
  std::uint64_t bytes = 0;
  for (const auto& each : {std::optional(device), second}) {
    if (!each) continue;
    const CachingAllocator& allocator = CachingAllocator::of(*each);
    bytes += allocator.statistics().reserved_bytes - allocator.statistics(MempoolId{}).reserved_bytes;
  }
  return bytes;
}

Stage::Level Stage::level() {
  Level level;
  for (const auto& each : {std::optional(device), second}) {
    if (!each) continue;
    CachingAllocator& allocator = CachingAllocator::of(*each);
    allocator.empty_cache();
    level.reserved += allocator.statistics().reserved_bytes;
    level.allocations += allocator.statistics().allocations;
    level.free += each->memory_info().free;
  }
  level.living = runtime.living();
  return level;
}

}  // namespace reprise::graphs::test
