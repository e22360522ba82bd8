// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include "reprise/libtorch/graphed_cache.h"
#include "tests/libtorch/graphed/cached_fixture.h"

// One callable with a cache: graphs that are captured ahead, captured again to be compared, and released by age.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(CachedCallables, AreCapturedAheadWithoutEffect) {
  torch::nn::Sequential network(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  network->to(device_);
  const auto cached = make_graphed_callables(network, {.max_entries = 2});
  std::vector<Tensor> before;
  for (const Tensor& each : network->buffers()) before.push_back(each.clone());
  EXPECT_TRUE(cached.capture(random({3, 4})));
  EXPECT_TRUE(cached.capture(random({5, 4})));
  EXPECT_FALSE(cached.capture(random({7, 4}))) << "there is room for two";
  const auto after = network->buffers();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same(before[i], after[i])) << i;
  cached(random({5, 4}));
  EXPECT_EQ(cached.statistics().hits, 1u);
}

TEST_F(CachedCallables, AreCapturedAheadForSeveralSamples) {
  Model graphed = model();
  const auto cached = make_graphed_callables(graphed, {});
  const std::vector<Tensor> samples{random({8, 4}), random({5, 4}), random({3, 4}), random({5, 4})};
  for (const Tensor& each : samples) EXPECT_TRUE(cached.capture(each));
  EXPECT_EQ(cached.size(), 3u);
  for (const Tensor& each : samples) cached(each);
  EXPECT_EQ(cached.statistics().hits, 4u);

  const auto scaled = make_graphed_callables([](const Tensor& x, double factor) { return x * factor; }, {});
  EXPECT_TRUE(scaled.capture(random({3}), 3.0));
  EXPECT_TRUE(scaled.contains(random({3}), 3.0));
  const auto waits = make_graphed_callables([](const Tensor& x) { return x * x.sum().item<float>(); }, {});
  EXPECT_FALSE(waits.capture(samples[0]));
}

TEST_F(CachedCallables, FindWorkThatDependsOnMoreThanTheArguments) {
  bool twice = false;
  const auto f = [&twice](const Tensor& x) { return twice ? x * 2 + x.exp() : x * 2; };
  const auto cached = make_graphed_callables(f, {.name = "steps", .capture_after = 0, .check_every = 2});
  const Tensor x = needing_gradient({3});
  cached(x).sum().backward();
  twice = true;
  EXPECT_TRUE(same(cached(x), x * 2)) << "replays the first capture";
  const std::string text = refusal([&] { cached(x); });
  EXPECT_THAT(text, AllOf(HasSubstr("of cache `steps` is always captured as the same graph"),
                          HasSubstr("only in the second graph"), HasSubstr("in replay 2")));
  EXPECT_FALSE(cached.contains(x));
  ASSERT_TRUE(cached.failure(x));
  EXPECT_EQ(cached.failure(x)->what, text);
  EXPECT_TRUE(same(cached(x), f(x))) << "eager from now on";
  EXPECT_EQ(cached.statistics().checks.number, 1u);
}

TEST_F(CachedCallables, FindThatACallHasNoBackwardAnyMore) {
  bool detached = false;
  const auto cached = make_graphed_callables([&](const Tensor& x) { return detached ? x.detach() * 2 : x * 2; },
                                             {.capture_after = 0, .check_every = 1});
  const Tensor x = needing_gradient({3});
  cached(x).sum().backward();
  detached = true;
  EXPECT_THAT(refusal([&] { cached(x); }), HasSubstr("another graph"));
}

TEST_F(CachedCallables, FindNothingInACallableThatIsTheSame) {
  Model eager = model(), graphed = model();
  for (const Gradients gradients : {Gradients::fresh, Gradients::alias}) {
    const auto cached =
        make_graphed_callables(graphed, {.capture_after = 0, .check_every = 1, .callable = {.gradients = gradients}});
    torch::optim::SGD first(eager->parameters(), 0.1), second(graphed->parameters(), 0.1);
    for (int step = 0; step < 12; ++step) {
      const Tensor x = random({3 + step % 2, 4});
      first.zero_grad();
      second.zero_grad();
      eager->forward(x).square().mean().backward();
      cached(x).square().mean().backward();
      first.step();
      second.step();
    }
    const auto expected = eager->parameters(), found = graphed->parameters();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(expected[i], found[i])) << i;
    EXPECT_EQ(cached.statistics().checks.number, 10u);
    EXPECT_EQ(cached.statistics().hits, 10u);
  }
}

}  // namespace
}  // namespace reprise::libtorch::test
