// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "reprise/host_device.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// Gradients::accumulate_in_graph: gradients of parameters that the graph adds to `.grad`.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AccumulatedInTheGraph : public GraphedCallables {
 protected:
  AccumulatedInTheGraph() {
    net_ = torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
    net_->to(device_);
  }

  static void step(const auto& callable, const Tensor& x) { callable(x).pow(2).sum().backward(); }
  void eager(const Tensor& x) { net_->forward(x).pow(2).sum().backward(); }

  // The gradients that `run` makes, beginning without any.
  template <class F>
  std::vector<Tensor> gradients_after(F&& run) {
    net_->zero_grad(/*set_to_none=*/true);
    run();
    return gradients_of(*net_);
  }
  static void expect_same(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(found[i], expected[i])) << i;
  }

  torch::nn::Sequential net_{nullptr};
  const GraphedCallableOptions options_ = with_gradients(Gradients::accumulate_in_graph);
};

TEST_F(AccumulatedInTheGraph, GradientsAreWhatEagerGives) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor x = random({3, 4});
  const auto expected = gradients_after([&] { eager(x); });
  for (int i = 0; i < 3; ++i) expect_same(gradients_after([&] { step(graphed, x); }), expected);
}

TEST_F(AccumulatedInTheGraph, GradientsOfParametersThatWereFrozenSinceTheCallAreRefused) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor y = graphed(random({3, 4}));
  net_->parameters()[0].set_requires_grad(false);
  EXPECT_THAT(refusal([&] { y.sum().backward(); }), HasSubstr("0.weight needs no gradient any more"));
}

TEST_F(AccumulatedInTheGraph, GradientsAddUpOverMicroBatches) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  std::vector<Tensor> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(random({3, 4}));
  const auto expected = gradients_after([&] {
    for (const Tensor& x : batches) eager(x);
  });
  for (int round = 0; round < 2; ++round)
    expect_same(gradients_after([&] {
                  for (const Tensor& x : batches) step(graphed, x);
                }),
                expected);
}

TEST_F(AccumulatedInTheGraph, GradientsThatWereSetToZeroAreAddedTo) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor x = random({3, 4});
  const auto expected = gradients_after([&] { eager(x); });
  step(graphed, random({3, 4}));
  const void* const memory = net_->parameters()[0].grad().const_data_ptr();
  net_->zero_grad(/*set_to_none=*/false);
  step(graphed, x);
  expect_same(gradients_of(*net_), expected);
  EXPECT_EQ(net_->parameters()[0].grad().const_data_ptr(), memory);
}

TEST_F(AccumulatedInTheGraph, GradientsLieInOnePieceOfMemoryThatStays) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  step(graphed, random({3, 4}));
  std::vector<const void*> before;
  for (const Tensor& each : net_->parameters()) {
    EXPECT_TRUE(each.grad().storage().is_alias_of(net_->parameters()[0].grad().storage()));
    EXPECT_TRUE(each.grad().strides().equals(each.strides()));
    before.push_back(each.grad().const_data_ptr());
  }
  net_->zero_grad(true);
  step(graphed, random({3, 4}));
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(net_->parameters()[i].grad().const_data_ptr(), before[i]) << i;
}

TEST_F(AccumulatedInTheGraph, GradientsThatWereSetToNoneHereAndThereAreRight) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor x = random({3, 4}), y = random({3, 4});
  const auto run = [&](const auto& one_step) {
    return gradients_after([&] {
      one_step(x);
      net_->parameters()[1].mutable_grad() = Tensor();
      one_step(y);
    });
  };
  const auto expected = run([&](const Tensor& each) { eager(each); });
  expect_same(run([&](const Tensor& each) { step(graphed, each); }), expected);
}

TEST_F(AccumulatedInTheGraph, GradientsOfTheUsersOwnAreAddedTo) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor x = random({3, 4}), own = random({8});
  const auto expected = gradients_after([&] {
    net_->parameters()[1].mutable_grad() = own.clone();
    eager(x);
  });
  const Tensor given = own.clone();
  expect_same(gradients_after([&] {
                net_->parameters()[1].mutable_grad() = given;
                step(graphed, x);
              }),
              expected);
  EXPECT_TRUE(net_->parameters()[1].grad().is_same(given));
}

TEST_F(AccumulatedInTheGraph, GradientsAreSharedWithEagerWork) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor x = random({3, 4}), y = random({3, 4});
  const auto expected = gradients_after([&] {
    eager(x);
    eager(y);
  });
  expect_same(gradients_after([&] {
                step(graphed, x);
                eager(y);
              }),
              expected);
  expect_same(gradients_after([&] {
                eager(x);
                step(graphed, y);
              }),
              expected);
}

TEST_F(AccumulatedInTheGraph, GradientsOfAViewInTheirMemoryAreRefused) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor x = random({3, 4});
  step(graphed, x);
  const Tensor weight = net_->parameters()[0];
  const Tensor kept = weight.grad();
  weight.mutable_grad() = kept.view({4, 8}).t();
  EXPECT_THAT(refusal([&] { step(graphed, x); }), HasSubstr("the gradient of 0.weight was replaced by another view"));
  weight.mutable_grad() = kept;
  EXPECT_EQ(refusal([&] { step(graphed, x); }), "");
}

TEST_F(AccumulatedInTheGraph, ArgumentsGetTheirGradientsFromAutograd) {
  auto first = linear(4, 4);
  const auto graphed = make_graphed_callables(net_, needing_gradient({3, 4}), options_);
  const Tensor x = random({3, 4});
  const auto run = [&](const auto& callable) {
    first->zero_grad();
    auto found = gradients_after([&] { callable(first->forward(x).relu()).pow(2).sum().backward(); });
    for (const Tensor& each : gradients_of(*first)) found.push_back(each);
    return found;
  };
  const auto expected = run([&](const Tensor& h) { return net_->forward(h); });
  expect_same(run(graphed), expected);
}

TEST_F(AccumulatedInTheGraph, ParametersAreOutsideOfAutograd) {
  const auto graphed = make_graphed_callables(net_, random({3, 4}), options_);
  const Tensor y = graphed(random({3, 4}));
  ASSERT_TRUE(y.requires_grad());
  EXPECT_EQ(y.grad_fn()->num_outputs(), 0U);
  EXPECT_EQ(torch::autograd::impl::try_get_grad_accumulator(net_->parameters()[0]), nullptr);
  y.sum().backward();
  EXPECT_TRUE(net_->parameters()[0].grad().defined());
}

TEST_F(AccumulatedInTheGraph, GradientsAreLeftAloneByABackwardForOtherTensors) {
  const auto graphed = make_graphed_callables(net_, needing_gradient({3, 4}), options_);
  const Tensor x = needing_gradient({3, 4});
  const auto before = gradients_after([&] { step(graphed, random({3, 4})); });
  const Tensor expected = torch::autograd::grad({net_->forward(x).pow(2).sum()}, {x})[0];
  EXPECT_TRUE(same(torch::autograd::grad({graphed(x).pow(2).sum()}, {x})[0], expected));
  expect_same(gradients_of(*net_), before);
  graphed(x).pow(2).sum().backward({}, {}, false, std::vector<Tensor>{x});
  EXPECT_TRUE(same(x.grad(), expected));
  expect_same(gradients_of(*net_), before);
  net_->zero_grad(true);
  graphed(x).pow(2).sum().backward({}, {}, false, std::vector<Tensor>{x});
  EXPECT_FALSE(net_->parameters()[0].grad().defined());
}

TEST_F(AccumulatedInTheGraph, GradientsOfSharedWeightsAreAddedUp) {
  auto layer = linear(4, 4);
  const auto run = [&](const auto& first, const auto& second, const Tensor& x) {
    layer->zero_grad();
    second(first(x).relu()).pow(2).sum().backward();
    return gradients_of(*layer);
  };
  const Tensor x = random({3, 4});
  const auto eager = [&](const Tensor& each) { return layer->forward(each); };
  const auto expected = run(eager, eager, x);
  const auto together = make_graphed_callables(std::vector{layer, layer},
                                               std::vector<Tensor>{random({3, 4}), needing_gradient({3, 4})}, options_);
  const auto apart = make_graphed_callables(layer, needing_gradient({3, 4}), options_);
  for (int i = 0; i < 2; ++i) {
    expect_same(run(together[0], together[1], x), expected);
    expect_same(run(together[0], apart, x), expected);
    expect_same(run(eager, apart, x), expected);
  }
}

TEST_F(AccumulatedInTheGraph, HooksOfParametersAreRefused) {
  const auto make = [&] { return make_graphed_callables(net_, random({3, 4}), options_); };
  const Tensor weight = net_->parameters()[2], x = random({3, 4});
  const auto graphed = make();
  const auto hook = weight.register_hook([](const Tensor& gradient) { return gradient * 10; });
  EXPECT_THAT(refusal(make), AllOf(HasSubstr("2.weight has a hook"), HasSubstr("accumulate_in_graph")));
  EXPECT_THAT(refusal([&] { step(graphed, x); }), HasSubstr("2.weight has a hook"));
  weight.remove_hook(hook);
  const auto expected = gradients_after([&] { eager(x); });
  expect_same(gradients_after([&] { step(graphed, x); }), expected);
  EXPECT_EQ(refusal(make), "");
}

TEST_F(AccumulatedInTheGraph, HooksOfNodesThatAccumulateAreRefused) {
  struct Hook : torch::autograd::FunctionPostHook {
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list& /*inputs*/) override {
      return outputs;
    }
  };
  const Tensor bias = net_->parameters()[1], x = random({3, 4});
  const auto graphed = make_graphed_callables(net_, x, options_);
  const auto node = torch::autograd::impl::grad_accumulator(bias);
  node->add_post_hook(std::make_unique<Hook>());
  EXPECT_THAT(refusal([&] { step(graphed, x); }), HasSubstr("0.bias has a hook"));
}

TEST_F(AccumulatedInTheGraph, UnusedParametersAreLeftAlone) {
  net_->register_parameter("spare", random({3}));
  GraphedCallableOptions options = options_;
  options.allow_unused_input = true;
  const auto graphed = make_graphed_callables(
      with_module([net = net_](const Tensor& x) mutable { return net->forward(x); }, net_), random({3, 4}), options);
  const auto found = gradients_after([&] { step(graphed, random({3, 4})); });
  EXPECT_FALSE(net_->named_parameters()["spare"].grad().defined());
  EXPECT_TRUE(net_->named_parameters()["0.weight"].grad().defined());
}

TEST_F(AccumulatedInTheGraph, GradientsOfManyTypesAndLayoutsAreRight) {
  const Tensor w = random({4, 6}).t().requires_grad_(), half = random({6}).to(torch::kHalf).requires_grad_(),
               wide = random({6}).to(torch::kDouble).requires_grad_();
  const std::vector<Tensor> parameters{w, half, wide};
  const auto f = [=](const Tensor& x) { return (x.mm(w.t()) * half.to(torch::kFloat)).to(torch::kDouble) * wide; };
  const auto graphed = make_graphed_callables(with_parameters(f, parameters), random({3, 4}), options_);
  std::vector<Tensor> batches{random({3, 4}), random({3, 4})};
  const auto run = [&](const auto& callable) {
    std::vector<Tensor> found;
    for (const Tensor& each : parameters) each.mutable_grad() = Tensor();
    for (const Tensor& x : batches) callable(x).sum().backward();
    for (const Tensor& each : parameters) found.push_back(each.grad().clone());
    return found;
  };
  const auto expected = run(f);
  expect_same(run(graphed), expected);
  EXPECT_TRUE(w.grad().strides().equals(w.strides()));
}

// From writing to adding, a node for each parameter is enabled here.
TEST_F(AccumulatedInTheGraph, GradientsAreRightAfterAFailureToSwitchToAdding) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  const Tensor x = random({3, 4}), y = random({3, 4});
  const auto expected = gradients_after([&] {
    eager(x);
    eager(y);
  });
  const auto graphed = make_graphed_callables(net_, x, options_);
  for (std::uint64_t nth = 1; nth <= 4; ++nth)
    expect_same(gradients_after([&] {
                  step(graphed, x);
                  {
                    const InjectedFailure failure({.call = "cuGraphNodeSetEnabled", .nth = nth});
                    EXPECT_THROW(step(graphed, y), BackendError);
                    EXPECT_TRUE(failure.happened());
                  }
                  step(graphed, y);
                }),
                expected);
}

TEST_F(AccumulatedInTheGraph, GradientsOutliveTheCallable) {
  const Tensor x = random({3, 4});
  const auto expected = gradients_after([&] { eager(x); });
  const auto found = gradients_after([&] { step(make_graphed_callables(net_, x, options_), x); });
  const Tensor other = random({3000});  // must not get the memory of the gradients
  expect_same(gradients_of(*net_), expected);
}

TEST_F(AccumulatedInTheGraph, GradientsGiveTheirMemoryBack) {
  const Tensor x = random({3, 4});
  eager(x);
  net_->zero_grad(true);
  const auto before = memory_of_tensors();
  step(make_graphed_callables(net_, x, options_), x);
  net_->zero_grad(true);
  EXPECT_TRUE(all_released(before));
}

TEST_F(AccumulatedInTheGraph, ParametersThatMovedGetAnotherPlace) {
  const Tensor x = random({3, 4});
  const auto first = make_graphed_callables(net_, x, options_);
  net_->to(torch::kDouble);
  const Tensor y = x.to(torch::kDouble);
  const auto second = make_graphed_callables(net_, y, options_);
  const auto expected = gradients_after([&] { eager(y); });
  expect_same(gradients_after([&] { step(second, y); }), expected);
}

}  // namespace
}  // namespace reprise::libtorch::test
