// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/unit/cache/cache_fixture.h"
#include "tests/unit/graph/failure_walk/call_walk.h"

// Each call of the runtime that an operation of a cache makes fails once. Then all is checked: the call took effect
// once, or not at all and there is an error; later calls work; nothing is lost.

namespace reprise::caches::test {
namespace {

using reprise::test::Outcome;
using reprise::test::Trouble;

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

  Device device{reprise::test::walked_runtime()};
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

class CacheRun final : public reprise::test::WalkedRun {
 public:
  explicit CacheRun(const CacheScenario& scenario) : scenario_(scenario), stage_(scenario.options) {}

  void prepare() override {
    if (scenario_.prepare != nullptr) scenario_.prepare(stage_);
    before_ = graphs::test::first(stage_.state);
  }
  void run() override { scenario_.run(stage_); }
  bool noted() const override {
    return stage_.cache && (stage_.cache->failure({0}) || stage_.cache->failure({1}) || stage_.cache->failure({0, 8}));
  }

  void check(const Outcome& outcome, const Trouble& /*trouble*/) override {
    stage_.device.synchronize();
    const int added = graphs::test::first(stage_.state) - before_;
    if (outcome.thrown) {
      EXPECT_TRUE(added == 0 || added == scenario_.calls) << added;
    } else {
      EXPECT_EQ(added, scenario_.calls);
      if (scenario_.factor != 0) {
        EXPECT_EQ(stage_.result.read(), multiples(n, scenario_.factor));
      }
    }
    expect_works();
  }

 private:
  // In the states that the failure left, too.
  void expect_works() {
    if (!stage_.cache) stage_.cache.emplace();
    const int before = graphs::test::first(stage_.state);
    for (int i = 1; i <= 3; ++i) {
      stage_.call(2, i % 2 == 0 ? stage_.x : stage_.more);
      EXPECT_EQ(stage_.result.read(), multiples(n, i % 2 == 0 ? 2 : 6));
      EXPECT_EQ(graphs::test::first(stage_.state), before + i);
    }
    stage_.cache->forget({0});
    stage_.call(0, stage_.x);
    EXPECT_EQ(stage_.result.read(), multiples(n, 2));
  }

  const CacheScenario& scenario_;
  CacheStage stage_;
  int before_ = 0;
};

class CacheFailureWalk : public ::testing::TestWithParam<ErrorCode> {};

TEST_P(CacheFailureWalk, FailsEveryCallOnceAndLosesNothing) {
  reprise::test::FailingCall trouble(GetParam());
  for (const CacheScenario& scenario : cache_scenarios())
    reprise::test::walk(scenario.name, trouble, [&] { return std::make_unique<CacheRun>(scenario); });
}

INSTANTIATE_TEST_SUITE_P(Codes, CacheFailureWalk, ::testing::Values(ErrorCode::out_of_memory, ErrorCode::unknown));

}  // namespace
}  // namespace reprise::caches::test
