// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/autograd.h>

#include "tests/libtorch/graphed/graphed_fixture.h"

// Gradients that graphed callables give.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GraphedCallables, AddUpGradientsOverMicroBatches) {
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  net->to(device_);
  const auto graphed = make_graphed_callables(net, random({3, 4}));
  std::vector<Tensor> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(random({3, 4}));
  for (const Tensor& x : batches) net->forward(x).pow(2).sum().backward();
  const auto expected = gradients_of(*net);
  for (const bool set_to_none : {true, false}) {
    net->zero_grad(set_to_none);
    for (const Tensor& x : batches) graphed(x).pow(2).sum().backward();
    const auto found = gradients_of(*net);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(found[i], expected[i])) << i;
  }
}

TEST_F(GraphedCallables, GiveFreshGradientsThatLaterBackwardsLeaveAlone) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, random({3, 4}));
  graphed(random({3, 4})).sum().backward();
  const Tensor kept = layer->weight.grad(), values = kept.clone();
  layer->zero_grad();
  graphed(random({3, 4})).sum().backward();
  EXPECT_TRUE(same(kept, values));
  EXPECT_NE(kept.const_data_ptr(), layer->weight.grad().const_data_ptr());
}

TEST_F(GraphedCallables, GiveGradientsInTheGraphsMemoryWhenAsked) {
  auto layer = linear(4, 2);
  GraphedCallableOptions options;
  options.gradients = Gradients::alias;
  const auto graphed = make_graphed_callables(layer, random({3, 4}), options);
  graphed(random({3, 4})).sum().backward();
  const Tensor kept = layer->weight.grad();
  layer->zero_grad();
  const Tensor x = random({3, 4});
  graphed(x).sum().backward();
  EXPECT_EQ(kept.const_data_ptr(), layer->weight.grad().const_data_ptr());
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4})));
}

// In eager work the gradient of a sum is the same tensor for both; memory of a graph looks to each like memory of its
// own.
TEST_F(GraphedCallables, GiveEachParameterMemoryOfItsOwn) {
  const Tensor a = needing_gradient({3}), b = needing_gradient({3});
  for (const Gradients gradients : {Gradients::fresh, Gradients::alias}) {
    GraphedCallableOptions options;
    options.gradients = gradients;
    const auto graphed = make_graphed_callables(
        with_parameters([=](const Tensor& x) { return (x + a + b).exp(); }, {a, b}), needing_gradient({3}), options);
    const Tensor x = needing_gradient({3});
    graphed(x * 1).sum().backward();
    const Tensor expected = (x + a + b).exp();
    a.mutable_grad().mul_(5);
    EXPECT_TRUE(same(b.grad(), expected));
    EXPECT_TRUE(same(x.grad(), expected));
    a.mutable_grad() = Tensor();
    b.mutable_grad() = Tensor();
  }
}

TEST_F(GraphedCallables, GiveGradientsToArgumentsThatAreComputed) {
  auto first = linear(4, 4), second = linear(4, 2);
  const auto graphed = make_graphed_callables(second, needing_gradient({3, 4}));
  const Tensor x = random({3, 4});
  second->forward(first->forward(x).relu()).pow(2).sum().backward();
  const auto expected = gradients_of(*first);
  first->zero_grad();
  graphed(first->forward(x).relu()).pow(2).sum().backward();
  EXPECT_TRUE(same(first->weight.grad(), expected[0]));
}

TEST_F(GraphedCallables, TakeArgumentsWithoutGradientsWhereTheSampleNeededSome) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, needing_gradient({3, 4}));
  const Tensor x = random({3, 4});
  graphed(x).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4})));
}

TEST_F(GraphedCallables, LeaveResultsWithoutGradientsAsTheyAre) {
  const auto f = [](const Tensor& x) { return std::tuple(x * 2, x.detach() * 3, x.argmax()); };
  const auto graphed = make_graphed_callables(f, needing_gradient({4}));
  const Tensor x = needing_gradient({4});
  const auto [with, without, index] = graphed(x);
  EXPECT_TRUE(with.requires_grad());
  EXPECT_FALSE(without.requires_grad());
  EXPECT_FALSE(index.requires_grad());
  EXPECT_TRUE(same(without, x.detach() * 3));
  EXPECT_TRUE(same(index, x.argmax()));
  with.sum().backward();
  EXPECT_TRUE(same(x.grad(), torch::full({4}, 2.F)));
}

TEST_F(GraphedCallables, TakeResultsThatNoLossUsesForZeroGradients) {
  const auto f = [](const Tensor& x) { return std::tuple(x * 2, x * 5); };
  const auto graphed = make_graphed_callables(f, needing_gradient({4}));
  const auto gradient = [&](bool first, bool second) {
    const Tensor x = needing_gradient({4});
    const auto [a, b] = graphed(x);
    ((first ? a.sum() : torch::zeros({}, device_)) + (second ? b.sum() : torch::zeros({}, device_))).backward();
    return x.grad()[0].item<float>();
  };
  EXPECT_EQ(gradient(true, true), 7);
  EXPECT_EQ(gradient(true, false), 2);
  EXPECT_EQ(gradient(false, true), 5);
  EXPECT_EQ(gradient(true, true), 7);
}

TEST_F(GraphedCallables, NameWhatIsUnusedUnlessThatIsAllowed) {
  torch::nn::Sequential net(torch::nn::Linear(4, 2));
  net->to(device_);
  net->register_parameter("spare", random({3}));
  const auto f = with_module([net](const Tensor& x, const Tensor& /*other*/) mutable { return net->forward(x); }, net);
  const auto samples = std::tuple(random({3, 4}), needing_gradient({2}));
  EXPECT_THAT(
      refusal([&] { make_graphed_callables(f, samples); }),
      HasSubstr("the warm-up of callable 0 (torch::nn::SequentialImpl): argument 1, spare need a gradient and got "
                "none"));
  GraphedCallableOptions options;
  options.allow_unused_input = true;
  const auto graphed = make_graphed_callables(f, samples, options);
  const Tensor x = random({3, 4}), other = needing_gradient({2});
  graphed(x, other).sum().backward();
  EXPECT_FALSE(other.grad().defined());
  EXPECT_FALSE(net->named_parameters()["spare"].grad().defined());
  EXPECT_TRUE(close(net->named_parameters()["0.weight"].grad(), x.sum(0).expand({2, 4})));
}

TEST_F(GraphedCallables, RunWithoutAutogradUnderANoGradGuard) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, random({3, 4}));
  const Tensor x = random({3, 4});
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(graphed(x).requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(same(graphed(x), layer->forward(x)));
  }
  EXPECT_TRUE(graphed(x).requires_grad());
}

TEST_F(GraphedCallables, MadeWithoutGradientsRefuseToGiveAny) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  const auto graphed = [&] {
    const torch::NoGradGuard no_grad;
    return make_graphed_callables(layer, x);
  }();
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("captured while grad mode was off"));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
}

TEST_F(GraphedCallables, RefuseGradientsOfGradients) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x.pow(3); }, needing_gradient({2}));
  const Tensor x = needing_gradient({2});
  EXPECT_THAT(refusal([&] { torch::autograd::grad({graphed(x).sum()}, {x}, {}, true, /*create_graph=*/true); }),
              HasSubstr("cannot be differentiated again"));
  EXPECT_TRUE(same(torch::autograd::grad({graphed(x).sum()}, {x})[0], x.detach().pow(2) * 3)) << "and go on";
}

TEST_F(GraphedCallables, RefuseASecondBackwardOfOneCall) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x.pow(3); }, needing_gradient({2}));
  const Tensor x = needing_gradient({2}), loss = graphed(x).sum();
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THAT(refusal([&] { loss.backward(); }), HasSubstr("overwritten by its own backward"));
}

TEST_F(GraphedCallables, RefuseTheBackwardOfACallThatAnotherOneCameAfter) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x.pow(3); }, needing_gradient({2}));
  const Tensor x = needing_gradient({2}), first = graphed(x).sum(), second = graphed(x).sum();
  EXPECT_THAT(refusal([&] { first.backward(); }),
              HasSubstr("backward of call 1 of callable 0 (a function): what it needs was overwritten by call 2 of "
                        "callable 0 (a function)"));
  second.backward();
  EXPECT_TRUE(same(x.grad(), x.detach().pow(2) * 3));
}

TEST_F(GraphedCallables, RefuseBackwardAfterAnOptimizerStep) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, needing_gradient({3, 4}));
  const Tensor y = graphed(random({3, 4}));
  {
    const torch::NoGradGuard no_grad;
    layer->weight.mul_(2);
  }
  EXPECT_THAT(refusal([&] { y.sum().backward(); }), HasSubstr("a parameter or buffer, or a tensor of "
                                                              "static_arguments(), was changed in place"));
}

TEST_F(GraphedCallables, RefuseBackwardAfterAParameterGotOtherMemory) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, needing_gradient({3, 4}));
  const Tensor y = graphed(random({3, 4}));
  layer->weight.set_data(layer->weight.detach().clone());
  EXPECT_THAT(refusal([&] { y.sum().backward(); }), HasSubstr("given other memory"));
}

TEST_F(GraphedCallables, RefuseOverwrittenResultsAsGradients) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x.pow(3); }, needing_gradient({2}));
  const Tensor x = needing_gradient({2}), first = graphed(x), second = graphed(x);
  EXPECT_THAT(
      refusal([&] { second.backward(first); }),
      HasSubstr("backward of call 2 of callable 0 (a function): the gradient of result 0 is a result of call 1"));
  second.backward(second.detach());
  EXPECT_TRUE(same(x.grad(), x.detach().pow(3) * (x.detach().pow(2) * 3)));
}

TEST_F(GraphedCallables, RefuseBackwardWhenAResultThatItNeedsWasChanged) {
  const auto graphed =
      make_graphed_callables([](const Tensor& x) { return std::tuple(x.exp(), x * 2); }, needing_gradient({3}));
  const Tensor x = needing_gradient({3});
  {
    auto [kept, other] = graphed(x);
    other.mul_(4);
    (kept.sum() + other.sum()).backward();
    EXPECT_TRUE(same(x.grad(), x.detach().exp() + 8)) << "the backward of a product by a number needs no result";
  }
  auto [kept, other] = graphed(x);
  kept.mul_(4);
  EXPECT_THAT(refusal([&] { kept.sum().backward(); }), HasSubstr("result 0 was changed in place"));
}

TEST_F(GraphedCallables, RunHooksOfParametersOnceForEachBackward) {
  auto layer = linear(4, 2);
  layer->weight.register_hook([](const Tensor& gradient) { return gradient * 10; });
  const auto graphed = make_graphed_callables(layer, random({3, 4}));
  const Tensor x = random({3, 4});
  graphed(x).sum().backward();
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4}) * 10));
}

// The node that accumulates a parameter's gradient belongs to the stream that it was made on.
TEST_F(GraphedCallables, AreMadeWhileEagerResultsOfOtherStreamsLive) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  stream_.synchronize();
  const StreamGuard default_stream(here_.default_stream());
  const Tensor earlier = layer->forward(x).sum();
  {
    const StreamGuard captured_on(stream_);
    const auto graphed = make_graphed_callables(layer, x);
    graphed(x).sum().backward();
    stream_.synchronize();
  }
  earlier.backward();
  EXPECT_TRUE(torch::allclose(layer->weight.grad().cpu(), (x.sum(0).expand({2, 4}) * 2).cpu()));
}

TEST_F(GraphedCallables, RefuseParametersThatWereNotNamed) {
  const Tensor w = needing_gradient({3}), v = needing_gradient({3});
  const auto f = [=](const Tensor& x) { return x * w * v; };
  EXPECT_THAT(refusal([&] { make_graphed_callables(with_parameters(f, {v}), random({3})); }),
              HasSubstr(on_device("its results depend on a tensor Float [3] on reprise:0, which needs a gradient")));
  EXPECT_THAT(refusal([&] { make_graphed_callables(f, random({3})); }), HasSubstr("with_parameters()"));
  EXPECT_EQ(refusal([&] { make_graphed_callables(with_parameters(f, {v, w}), random({3})); }), "");
}

TEST_F(GraphedCallables, RefuseToChangeAnArgumentByWhatNeedsAGradient) {
  const Tensor w = needing_gradient({3});
  const auto f = with_parameters([w](Tensor& x) { return x.mul_(w) + 1; }, {w});
  EXPECT_THAT(refusal([&] { make_graphed_callables(f, random({3})); }),
              HasSubstr("changes argument 0 in place by something that needs a gradient"));
}

TEST_F(GraphedCallables, TakePartInCheckedEagerWorkOnTheirResults) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x * 2; }, needing_gradient({3}));
  const Tensor x = needing_gradient({3}), y = graphed(x), loss = (y * y).sum();  // autograd keeps y
  static_cast<void>(graphed(x));
  try {
    loss.backward();
    FAIL() << "y was overwritten";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("modified by an inplace operation"));
  }
}

TEST_F(GraphedCallables, AreNamedWithTheRemedyByOperatorsWhoseResultsWereOverwritten) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x * 2; }, needing_gradient({3}));
  std::vector<Tensor> losses;
  for (int i = 0; i < 3; ++i) {
    const Tensor y = graphed(needing_gradient({3}));
    losses.push_back((y * y).sum());
  }
  losses.back().backward();
  try {
    losses.front().backward();
    FAIL() << "the first result was overwritten";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                AllOf(HasSubstr("call 1 of callable 0"), HasSubstr("whose results were overwritten by call 2"),
                      HasSubstr("Outputs::copy"), HasSubstr("one callable for each")));
  }
}

}  // namespace
}  // namespace reprise::libtorch::test
