// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <vector>

#include "libtorch/graphed/pool_order.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// Callables of one pool, and of pools of their own: the order in which they run.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

// One stage of a pipeline, with three micro-batches underway: each has a callable of its own.
TEST_F(GraphedCallables, MadeOneByOneRunInAnyOrder) {
  auto layer = linear(4, 4);
  const std::vector<std::vector<int>> orders{
      {1, 2, -1, 3, -2, -3},  // one forward, one backward
      {1, 2, 3, -1, -2, -3},  // backwards in the order of the forwards
      {3, 1, -3, 2, -2, -1},
  };
  using Graphed = GraphedCallable<Tensor, Tensor>;
  std::vector<Graphed> graphed;
  for (int i = 0; i < 3; ++i) graphed.push_back(make_graphed_callables(layer, random({3, 4})));
  const auto run = [&](const std::vector<int>& order, const std::vector<Tensor>& inputs, const auto& of) {
    std::vector<Tensor> results(inputs.size());
    layer->zero_grad();
    for (const int step : order) {
      const auto i = static_cast<std::size_t>(std::abs(step)) - 1;
      if (step > 0)
        results[i] = of(i, inputs[i]);
      else
        results[i].pow(2).sum().backward();
    }
    return gradients_of(*layer);
  };
  for (const auto& order : orders) {
    const std::vector<Tensor> xs{random({3, 4}), random({3, 4}), random({3, 4})};
    const auto expected = run(order, xs, [&](std::size_t /*i*/, const Tensor& x) { return layer->forward(x); });
    const auto found = run(order, xs, [&](std::size_t i, const Tensor& x) { return graphed[i](x); });
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(found[i], expected[i])) << i;
  }
}

TEST_F(GraphedCallables, OfOnePoolRefuseAnotherOrderThanThatOfTheirCaptures) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(std::vector(2, layer), std::vector(2, x));
  const auto run = [&](std::size_t first, std::size_t second) {
    const Tensor one = graphed[0](x), two = graphed[1](x);
    (first == 0 ? one : two).sum().backward();
    (second == 0 ? one : two).sum().backward();
  };
  EXPECT_THAT(refusal([&] { run(0, 1); }), HasSubstr("what it needs was overwritten by"));
  EXPECT_EQ(refusal([&] { run(1, 0); }), "");
}

TEST_F(GraphedCallables, OfAPoolForgetThoseThatAreGone) {
  GraphedCallableOptions options;
  options.pool = graph_pool_handle();
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto living = make_graphed_callables(layer, x, options);
  const auto order = PoolOrder::of(options.pool);
  for (int i = 0; i < 20; ++i) make_graphed_callables(layer, x, options)(x).sum().backward();
  EXPECT_LE(order->size(), 2U);
  living(x).sum().backward();
  const auto later = make_graphed_callables(layer, x, options);
  const Tensor y = later(x);
  EXPECT_EQ(refusal([&] { y.sum().backward(); }), "");
}

TEST_F(GraphedCallables, OfAPoolRememberThoseWhoseResultsAreInUse) {
  const torch::NoGradGuard no_grad;
  GraphedCallableOptions options;
  options.pool = graph_pool_handle();
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto living = make_graphed_callables(layer, x, options);
  const Tensor y = make_graphed_callables(layer, x, options)(x);
  static_cast<void>(make_graphed_callables(layer, x, options));
  EXPECT_EQ(PoolOrder::of(options.pool)->size(), 3U);
  EXPECT_TRUE(same(y, layer->forward(x)));
  static_cast<void>(living(x));
  EXPECT_THAT(refusal([&] { living(y); }), HasSubstr("is a result of call 1 of callable 0"));
}

}  // namespace
}  // namespace reprise::libtorch::test
