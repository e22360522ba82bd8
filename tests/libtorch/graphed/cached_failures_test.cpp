// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "reprise/libtorch/graphed_cache.h"
#include "tests/libtorch/graphed/failing_calls.h"
#include "tests/libtorch/graphed/graphed_fixture.h"
#include "tests/support/warnings.h"

// Each call of the runtime that an operation of a callable with a cache makes fails once. Then all is checked: the call
// has the right results, or there is an error; later calls have; nothing is lost.

namespace reprise::libtorch::test {
namespace {

using reprise::test::Warnings;

class CachedCallablesThatFail : public GraphedCallables {
 protected:
  struct Stage {
    std::vector<Tensor> train(const Tensor& x) { return trained(*layer, *cached, x); }

    const CachedCallablesThatFail& test;
    torch::nn::Linear layer = test.layer();
    std::optional<CachedCallable<torch::nn::Linear>> cached = {};
    std::vector<Tensor> results = {};  // of the walked call, if it has some
  };
  struct Scenario {
    const char* name;
    GraphedCacheOptions options;
    void (*prepare)(Stage&);  // not walked; may be null
    void (*run)(Stage&);      // walked
  };

  static void call_first(Stage& s) { s.results = s.train(s.test.x_); }
  static void call_second(Stage& s) { s.train(s.test.y_); }
  static std::vector<Scenario> scenarios() {
    return {
        {"an eager run", {.capture_after = 1}, nullptr, call_first},
        {"a capture", {.capture_after = 0}, nullptr, call_first},
        {"a capture that releases another entry", {.max_entries = 1, .capture_after = 0}, call_second, call_first},
        {"a capture that is too large", {.max_bytes = 1, .capture_after = 0}, nullptr, call_first},
        {"a hit", {.capture_after = 0}, call_first, call_first},
        {"a hit that is checked", {.capture_after = 0, .check_every = 1}, call_first, call_first},
        {"a capture ahead", {}, nullptr, [](Stage& s) { s.cached->capture(s.test.x_); }},
        {"forget", {.capture_after = 0}, call_first, [](Stage& s) { s.cached->forget(s.test.x_); }},
        {"clear", {.capture_after = 0}, call_first, [](Stage& s) { s.cached->clear(); }},
        {"the destructor", {.capture_after = 0}, call_first, [](Stage& s) { s.cached.reset(); }},
    };
  }

  torch::nn::Linear layer() const {
    torch::manual_seed(4);
    return linear(4, 2);
  }
  /// The result and the gradients for one input.
  template <class F>
  static std::vector<Tensor> trained(torch::nn::LinearImpl& of, const F& forward, const Tensor& x) {
    of.zero_grad();
    const Tensor input = x.detach().clone().requires_grad_();
    const Tensor y = forward(input);
    y.backward(torch::ones_like(y));
    std::vector<Tensor> all{y.detach().clone(), input.grad()};
    for (const Tensor& each : gradients_of(of)) all.push_back(each);
    return all;
  }
  std::vector<Tensor> eagerly(const Tensor& x) const {
    torch::nn::Linear eager = layer();
    return trained(
        *eager, [&](const Tensor& each) { return eager->forward(each); }, x);
  }

  // False if the operation does not make so many calls of that kind.
  bool walk(const Scenario& scenario, const HostFailure& injected) const {
    SCOPED_TRACE(::testing::Message() << scenario.name << ": " << injected.call << ' ' << injected.nth << ", "
                                      << static_cast<int>(injected.code));
    const PoolStatistics before = memory_of_tensors();
    bool failed = false;
    {
      const Warnings warnings;
      Stage stage{*this};
      stage.cached.emplace(make_graphed_callables(stage.layer, scenario.options));
      if (scenario.prepare != nullptr) scenario.prepare(stage);
      stage.results.clear();
      std::string text;
      {
        const InjectedFailure failure(injected);
        try {
          scenario.run(stage);
        } catch (const std::exception& error) {
          text = error.what();
        }
        failed = failure.happened();
      }
      EXPECT_FALSE(is_current_stream_capturing());
      EXPECT_TRUE(failed || text.empty()) << text;
      if (!stage.results.empty()) expect_same(stage.results, x_results_);
      expect_works(stage);
    }
    EXPECT_TRUE(loses_memory(injected.call) || all_released(before));
    return failed && !HasFailure();
  }

  // Expects the stage to work, in the state that the failure left, too.
  void expect_works(Stage& stage) const {
    if (!stage.cached) stage.cached.emplace(make_graphed_callables(stage.layer, GraphedCacheOptions()));
    for (int i = 0; i < 2; ++i) {
      expect_same(stage.train(x_), x_results_);
      expect_same(stage.train(y_), y_results_);
    }
    stage.cached->forget(x_);
    expect_same(stage.train(x_), x_results_);
  }

  static void expect_same(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(found[i], expected[i])) << i;
  }

  const Tensor x_ = needing_gradient({3, 4}), y_ = needing_gradient({5, 4});
  const std::vector<Tensor> x_results_ = eagerly(x_), y_results_ = eagerly(y_);
};

TEST_F(CachedCallablesThatFail, HaveAnErrorOrTheRightResultsAndLoseNothing) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  int points = 0;
  const auto walk_all = [&](const Scenario& scenario, const std::string& call, ErrorCode code) {
    for (std::uint64_t nth = 1; walk(scenario, {.call = call, .code = code, .nth = nth}); ++nth) ++points;
  };
  for (const Scenario& scenario : scenarios()) {
    const int before = points;
    for (const std::string& call : all_calls()) walk_all(scenario, call, ErrorCode::unknown);
    for (const char* const call : {"cuMemAlloc", "cuGraphInstantiateWithParams"})
      walk_all(scenario, call, ErrorCode::out_of_memory);
    EXPECT_TRUE(points > before || HasFailure()) << scenario.name;
  }
  std::printf("  walked %d calls in %zu operations\n", points, scenarios().size());
}

}  // namespace
}  // namespace reprise::libtorch::test
