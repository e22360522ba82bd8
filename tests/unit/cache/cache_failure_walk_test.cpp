// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "captures/registry.h"
#include "tests/support/accounting_backend.h"
#include "tests/unit/cache/cache_fixture.h"

// Each call of the runtime that an operation of a cache makes fails once. Then all is checked: the call took effect
// once, or not at all and there is an error; later calls work; nothing is lost.

namespace reprise::caches::test {
namespace {

using backend::Call;
using backend::test::AccountingBackend;
using graphs::test::eventually;

AccountingBackend& walked_runtime() {
  static auto& runtime = *new AccountingBackend(default_device().backend());  // devices live until the process ends
  return runtime;
}

/// A cache, and a state to which each call adds one.
struct CacheStage {
  explicit CacheStage(const GraphCacheOptions& wanted) : cache(std::in_place, wanted) {}

  /// Adds one to `state`, and returns the double of its input.
  void call(int key, const Buffer<int>& in) {
    result = cache->run({key}, inputs(in), [this](DeviceView<const int> values) {
      Buffer<int> y(n);
      launch(n, Multiply{}, values.data(), 2, y.data(), n);
      graphs::test::add(state);
      return y;
    });
  }

  AccountingBackend& runtime = walked_runtime();
  Device device{runtime};
  DeviceGuard device_guard{device};
  Stream stream{device}, other{device};
  StreamGuard guard{stream};
  Buffer<int> state = zeros(), x = counting(n), more = counting(n, 3);
  std::optional<GraphCache> cache;
  CacheResult<int> result;
};

struct CacheScenario {
  const char* name;
  GraphCacheOptions options;
  void (*prepare)(CacheStage&);  // not walked; may be null
  void (*run)(CacheStage&);      // walked
  int calls;                     // of the body, in effect, when nothing fails
  int factor;                    // of the result's values; 0: no result
};

void call_first(CacheStage& s) {
  s.call(0, s.x);
}
void call_first_with_other_input(CacheStage& s) {
  s.call(0, s.more);
}
void call_second(CacheStage& s) {
  s.call(1, s.x);
}
void call_on_other_stream(CacheStage& s) {
  const StreamGuard there(s.other);
  s.call(0, s.x);
  s.other.synchronize();
}
void fail_in_capture(CacheStage& s) {
  s.cache->run({0}, [&] {
    graphs::test::add(s.state);
    current_stream().synchronize();
  });
}
void call_padded(CacheStage& s) {
  Buffer<int>& state = s.state;
  s.cache->run_padded({0}, 5, inputs(DeviceView<int>(s.x.data(), 5)), [&](std::size_t padded, DeviceView<int> x) {
    launch(padded, Add{}, x.data(), 0, padded);
    graphs::test::add(state);
  });
}
void capture_ahead(CacheStage& s) {
  for (const int key : {0, 1})
    s.cache->capture({key}, inputs(s.x), [&](DeviceView<const int> x) {
      Buffer<int> y(n);
      launch(n, Multiply{}, x.data(), 2, y.data(), n);
      graphs::test::add(s.state);
      return y;
    });
}

GraphCacheOptions with(std::size_t after, CacheInputs how = CacheInputs::patch,
                       CacheOutputs outputs = CacheOutputs::alias, std::size_t check_every = 0) {
  return {.max_entries = 1,
          .capture_after = after,
          .check_every = check_every,
          .inputs = how,
          .outputs = outputs,
          .padding = [](std::size_t) { return std::size_t{8}; }};
}

// The pool has one segment of 2 MiB, and each entry a result of n values.
GraphCacheOptions with_bytes(std::uint64_t bytes) {
  return {.max_entries = 4, .max_bytes = bytes, .capture_after = 0};
}
constexpr std::uint64_t bytes_of_one_entry = (std::uint64_t{2} << 20) + n * sizeof(int);

const std::vector<CacheScenario>& cache_scenarios() {
  static const std::vector<CacheScenario> all{
      {"an eager run", with(1), nullptr, call_first, 1, 2},
      {"a capture, inputs set", with(0), nullptr, call_first, 1, 2},
      {"a capture, inputs and results copied", with(0, CacheInputs::copy, CacheOutputs::copy), nullptr, call_first, 1,
       2},
      {"a capture that fails", with(0), nullptr, fail_in_capture, 1, 0},
      {"a capture that releases another entry", with(0), call_first, call_second, 1, 2},
      {"a capture that releases another entry for its bytes", with_bytes(bytes_of_one_entry + 1), call_first,
       call_second, 1, 2},
      {"a capture that is too large", with_bytes(bytes_of_one_entry - 1), nullptr, call_first, 1, 2},
      {"a hit", with(0), call_first, call_first, 1, 2},
      {"a hit with another input", with(0), call_first, call_first_with_other_input, 1, 6},
      {"a hit with a copied input", with(0, CacheInputs::copy), call_first, call_first_with_other_input, 1, 6},
      {"a hit with copied results", with(0, CacheInputs::patch, CacheOutputs::copy), call_first, call_first, 1, 2},
      {"a hit on another stream", with(0), call_first, call_on_other_stream, 1, 2},
      {"a hit that is checked", with(0, CacheInputs::patch, CacheOutputs::alias, 1), call_first, call_first, 1, 2},
      {"a padded eager run", with(1), nullptr, call_padded, 1, 0},
      {"a padded capture", with(0), nullptr, call_padded, 1, 0},
      {"a padded hit", with(0), call_padded, call_padded, 1, 0},
      {"captures ahead", with(0), nullptr, capture_ahead, 0, 0},
      {"forget", with(0), call_first, [](CacheStage& s) { s.cache->forget({0}); }, 0, 0},
      {"clear", with(0), call_first, [](CacheStage& s) { s.cache->clear(); }, 0, 0},
      {"the destructor", with(0), call_first, [](CacheStage& s) { s.cache.reset(); }, 0, 0},
  };
  return all;
}

// Failures that are no failures of the operation, and are not reported.
bool is_silent(Call call, ErrorCode code) {
  return (call == Call::memory_allocate && code == ErrorCode::out_of_memory) || call == Call::stream_is_capturing;
}

struct CacheLevel {
  std::uint64_t allocations = 0, reserved = 0;
  backend::test::Living living;
  friend bool operator==(const CacheLevel&, const CacheLevel&) = default;
};

CacheLevel level_of(const Device& device) {
  release_finished_graphs();
  CachingAllocator& allocator = CachingAllocator::of(device);
  allocator.empty_cache();
  return {allocator.statistics().allocations, allocator.statistics().reserved_bytes, walked_runtime().living()};
}

class CacheFailureWalk : public ::testing::TestWithParam<ErrorCode> {
 protected:
  // False if the operation does not make so many calls.
  bool walk(const CacheScenario& scenario, int passed) {
    const Device device(walked_runtime());
    // What replays of the last operation hold is released a moment after them.
    EXPECT_TRUE(eventually([&] { return level_of(device) == CacheLevel{}; }));
    std::string text;
    {
      const Warnings warnings;
      CacheStage stage(scenario.options);
      if (scenario.prepare != nullptr) scenario.prepare(stage);
      const int state = graphs::test::first(stage.state);
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
        EXPECT_TRUE(!text.empty() || !warnings.texts().empty() || (stage.cache && stage.cache->failure({0})) ||
                    (stage.cache && stage.cache->failure({1})) || (stage.cache && stage.cache->failure({0, 8})))
            << "the failure is reported nowhere";
      }
      expect_outside(stage);
      expect_effect(stage, scenario, state, !text.empty());
      expect_works(stage);
      stage.runtime.make_up_for_refused();
    }
    walked_runtime().make_up_for_refused();
    CacheLevel now;
    EXPECT_TRUE(eventually([&] { return (now = level_of(device)) == CacheLevel{}; }))
        << scenario.name << ", call " << passed + 1 << ": " << now.allocations << " allocations, " << now.reserved
        << " bytes, " << now.living.graphs << " graphs, " << now.living.execs << " executables";
    return true;
  }

  static void expect_outside(CacheStage& stage) {
    EXPECT_FALSE(captures::any_underway());
    EXPECT_EQ(current_stream(), stage.stream.ref());
    EXPECT_EQ(stage.stream.capture_status(), CaptureStatus::none);
    EXPECT_EQ(graphs::test::make_unsafe_call(), ErrorCode::success);
    stage.device.synchronize();
  }

  static void expect_effect(CacheStage& stage, const CacheScenario& scenario, int before, bool thrown) {
    const int added = graphs::test::first(stage.state) - before;
    if (thrown)
      EXPECT_TRUE(added == 0 || added == scenario.calls) << added;
    else
      EXPECT_EQ(added, scenario.calls);
    if (!thrown && scenario.factor != 0) {
      EXPECT_EQ(stage.result.read(), multiples(n, scenario.factor));
    }
  }

  // Expects everything to work, in the states that the failure left, too.
  static void expect_works(CacheStage& stage) {
    if (!stage.cache) stage.cache.emplace();
    const int before = graphs::test::first(stage.state);
    for (int i = 1; i <= 3; ++i) {
      stage.call(2, i % 2 == 0 ? stage.x : stage.more);
      EXPECT_EQ(stage.result.read(), multiples(n, i % 2 == 0 ? 2 : 6));
      EXPECT_EQ(graphs::test::first(stage.state), before + i);
    }
    stage.cache->forget({0});
    stage.call(0, stage.x);
    EXPECT_EQ(stage.result.read(), multiples(n, 2));
  }
};

TEST_P(CacheFailureWalk, FailsEveryCallOnceAndLosesNothing) {
  int points = 0;
  for (const CacheScenario& scenario : cache_scenarios()) {
    int passed = 0;
    while (walk(scenario, passed) && !HasFatalFailure()) ++passed;
    EXPECT_GT(passed, 0) << scenario.name;
    points += passed;
  }
  std::printf("  walked %d calls in %zu operations\n", points, cache_scenarios().size());
}

INSTANTIATE_TEST_SUITE_P(Codes, CacheFailureWalk, ::testing::Values(ErrorCode::out_of_memory, ErrorCode::unknown));

}  // namespace
}  // namespace reprise::caches::test
