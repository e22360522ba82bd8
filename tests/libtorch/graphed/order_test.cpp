// SPDX-License-Identifier: Apache-2.0
#include "libtorch/graphed/pool_order.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// Several callables in the order of a pipeline: GraphedCallableOptions::order.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Pipelines : public GraphedCallables, public ::testing::WithParamInterface<Gradients> {
 protected:
  GraphedCallableOptions in_order(std::vector<int> order) const {
    GraphedCallableOptions options = with_gradients(GetParam());
    options.order = std::move(order);
    return options;
  }
  // Backwards of calls that were made in the same order: `of` is what the i-th of `modules` is called through.
  template <class F>
  std::vector<Tensor> run(const std::vector<int>& order, const std::vector<Tensor>& inputs, const F& of) {
    std::vector<Tensor> results(inputs.size());
    layer_->zero_grad();
    for (const int step : order) {
      const auto i = static_cast<std::size_t>(std::abs(step)) - 1;
      if (step > 0)
        results[i] = of(i, inputs[i]);
      else
        results[i].pow(2).sum().backward();
    }
    auto found = gradients_of(*layer_);
    for (const Tensor& each : results) found.push_back(each.detach().clone());
    return found;
  }
  std::vector<Tensor> inputs(std::size_t count) const {
    std::vector<Tensor> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(random({3, 4}));
    return made;
  }

  torch::nn::Linear layer_ = linear(4, 4);
};

// Orders of one stage with three micro-batches: each has graphs of its own.
TEST_P(Pipelines, RunInTheOrderThatTheyWereCapturedIn) {
  const std::vector<std::vector<int>> orders{
      {1, 2, -1, 3, -2, -3},  // one forward, one backward
      {1, 2, 3, -1, -2, -3},  // backwards in the order of the forwards
      {1, -1, 2, -2, 3, -3},
      {3, 1, -3, 2, -2, -1},
  };
  for (const auto& order : orders) {
    const auto graphed = make_graphed_callables(std::vector(3, layer_), inputs(3), in_order(order));
    for (int round = 0; round < 3; ++round) {
      const auto xs = inputs(3);
      const auto expected = run(order, xs, [&](std::size_t /*i*/, const Tensor& x) { return layer_->forward(x); });
      const auto found = run(order, xs, [&](std::size_t i, const Tensor& x) { return graphed[i](x); });
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(found[i], expected[i])) << i;
    }
  }
}

TEST_P(Pipelines, RefuseAnotherOrder) {
  const auto graphed = make_graphed_callables(std::vector(3, layer_), inputs(3), in_order({1, 2, -1, 3, -2, -3}));
  const auto xs = inputs(3);
  const auto of = [&](std::size_t i, const Tensor& x) { return graphed[i](x); };
  EXPECT_THAT(refusal([&] {
                run({1, 2, 3, -2, -1, -3}, xs, of);
              }),
              HasSubstr("call 1 of callable 0 (torch::nn::LinearImpl): what it needs was overwritten by call 1 of "
                        "callable 2"));
  EXPECT_THAT(refusal([&] {
                run({2, 1, -1, 3, -2, -3}, xs, of);
              }),
              HasSubstr("what it needs was overwritten by call 2 of callable 0"));
  EXPECT_EQ(refusal([&] { run({1, 2, -1, 3, -2, -3}, xs, of); }), "");
}

TEST_P(Pipelines, RefuseOrdersThatMakeNoSense) {
  const auto refused = [&](const std::vector<int>& order) {
    return refusal([&] { make_graphed_callables(std::vector(2, layer_), inputs(2), in_order(order)); });
  };
  EXPECT_THAT(refused({1, -2, 2, -1}), AllOf(HasSubstr("-2 comes before +2"), HasSubstr("found 1, -2, 2, -1")));
  EXPECT_THAT(refused({1, -1}), AllOf(HasSubstr("+2 is missing"), HasSubstr("-2 is missing")));
  EXPECT_THAT(refused({1, 2, -2, -1, 1}), HasSubstr("+1 comes twice"));
  EXPECT_THAT(refused({1, 2, -2, -1, 3, 0}),
              AllOf(HasSubstr("3 names none of the 2 callables"), HasSubstr("0 names none")));
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

INSTANTIATE_TEST_SUITE_P(Gradients, Pipelines, ::testing::Values(Gradients::fresh, Gradients::alias),
                         [](const auto& each) { return each.param == Gradients::fresh ? "fresh" : "alias"; });

}  // namespace
}  // namespace reprise::libtorch::test
