// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/support/training.h"

#include "tests/libtorch/graphed/graphed_fixture.h"

// Training with a graphed network: bitwise what eager training gives.

namespace reprise::libtorch::test {
namespace {

constexpr int steps = 50;

class GraphedTraining : public GraphedCallables, public ::testing::WithParamInterface<const char*> {
 protected:
  Network network_here(double dropout) const {
    Network made = make_network(GetParam(), dropout);
    made->to(device_);
    return made;
  }

  // Losses of all steps; `forward` is the network or what was made of it.
  template <class F>
  std::vector<Tensor> train(const NetworkImpl& network, const F& forward) const {
    const auto optimizer = make_optimizer("SGD with momentum", network);
    torch::manual_seed(12);
    std::vector<Tensor> losses;
    for (const Batch& batch : batches_) {
      optimizer->zero_grad();
      const Tensor target = here(batch.target), output = forward(here(batch.input));
      const Tensor loss =
          target.is_floating_point() ? torch::mse_loss(output, target) : torch::cross_entropy_loss(output, target);
      loss.backward();
      optimizer->step();
      losses.push_back(loss.detach().cpu());
    }
    return losses;
  }

  void expect_graphed_equals_eager(double dropout, const GraphedCallableOptions& options) {
    dropout = comparable_dropout(GetParam(), dropout);
    const Network eager = network_here(dropout), graphed = network_here(dropout);
    const auto callable = make_graphed_callables(graphed, here(batches_.front().input), options);
    const auto expected = train(*eager, [&](const Tensor& x) { return eager->forward(x); });
    const auto found = train(*graphed, [&](const Tensor& x) { return callable(x); });
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(same(expected[i], found[i])) << "loss of step " << i;
    EXPECT_FALSE(same(found.front(), found.back())) << "nothing was trained";
    const auto state = state_of(*eager);
    for (const auto& each : state_of(*graphed)) EXPECT_TRUE(same(each.value(), state[each.key()])) << each.key();
  }

  const std::vector<Batch> batches_ = make_batches(GetParam(), steps);
};

TEST_P(GraphedTraining, EqualsEagerToTheLastBit) {
  expect_graphed_equals_eager(0, {});
}

TEST_P(GraphedTraining, WithDropoutEqualsEagerToTheLastBit) {
  expect_graphed_equals_eager(0.3, {});
}

TEST_P(GraphedTraining, WithResultsCopiedAndGradientsInTheGraphsMemoryEqualsEagerToTheLastBit) {
  GraphedCallableOptions options;
  options.gradients = Gradients::alias;
  options.outputs = Outputs::copy;
  expect_graphed_equals_eager(0.3, options);
}

TEST_P(GraphedTraining, LeavesTheNetworkAsItWasBeforeTheFirstStep) {
  const Network network = network_here(0.3);
  const auto before = state_of(*network);
  std::vector<Tensor> values;
  for (const auto& each : before) values.push_back(each.value().detach().clone());
  torch::manual_seed(21);
  const Tensor expected = torch::rand({4}, device_);
  torch::manual_seed(21);
  const auto callable = make_graphed_callables(network, here(batches_.front().input));
  EXPECT_TRUE(same(torch::rand({4}, device_), expected)) << "random numbers were spent";
  std::size_t i = 0;
  for (const auto& each : state_of(*network)) {
    EXPECT_TRUE(each.value().is_same(before[each.key()])) << each.key();
    EXPECT_TRUE(same(each.value(), values[i++])) << each.key();
    EXPECT_FALSE(each.value().grad().defined()) << each.key();
  }
}

TEST_P(GraphedTraining, InTheOtherModeRunsTheOriginal) {
  const Network network = network_here(comparable_dropout(GetParam(), 0.3));
  const auto callable = make_graphed_callables(network, here(batches_.front().input));
  network->eval();
  const Tensor x = here(batches_.back().input), expected = network->forward(x);
  EXPECT_TRUE(same(callable(x), expected)) << "without dropout, and with the statistics of before";
  const Tensor part = x.slice(x.dim() == 4 || x.dim() == 2 ? 0 : 1, 0, 1);
  EXPECT_TRUE(same(callable(part), network->forward(part))) << "of any size";
  network->train();
  torch::manual_seed(8);
  const Tensor graphed = callable(x).clone();
  torch::manual_seed(8);
  EXPECT_TRUE(same(graphed, network->forward(x)));
}

INSTANTIATE_TEST_SUITE_P(Networks, GraphedTraining,
                         ::testing::Values("perceptron", "convolutions", "lstm", "gru", "transformer"),
                         [](const auto& each) { return std::string(each.param); });

TEST_F(GraphedCallables, MadeInEvaluationModeRunTheOriginalInTraining) {
  torch::nn::Sequential part(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  part->to(device_);
  part->eval();
  const Tensor x = random({6, 4});
  const auto graphed = make_graphed_callables(part, x);
  EXPECT_TRUE(same(graphed(x), part->forward(x)));
  part->train();
  static_cast<void>(graphed(x));
  EXPECT_EQ(part->named_buffers()["1.num_batches_tracked"].item<std::int64_t>(), 1);
}

TEST_F(GraphedCallables, APartInAnotherModeCountsToo) {
  torch::nn::Sequential part(torch::nn::Linear(4, 4), torch::nn::Dropout(0.9));
  part->to(device_);
  const Tensor x = random({6, 4});
  const auto graphed = make_graphed_callables(part, x);
  part[1]->eval();
  EXPECT_TRUE(same(graphed(x), part->forward(x)));
}

TEST_F(GraphedCallables, StatisticsOfBatchNormAdvanceOnceForEachCall) {
  torch::nn::BatchNorm1d norm(4), eager(4);
  norm->to(device_);
  eager->to(device_);
  const auto graphed = make_graphed_callables(norm, random({6, 4}));
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 0) << "the warm-up was undone";
  for (int i = 1; i < 4; ++i) {
    const Tensor x = random({6, 4});
    EXPECT_TRUE(same(graphed(x), eager->forward(x)));
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), i);
    EXPECT_TRUE(same(norm->running_mean, eager->running_mean));
    EXPECT_TRUE(same(norm->running_var, eager->running_var));
  }
}

TEST_F(GraphedCallables, CapturedUnderAutocastGiveWhatEagerGivesUnderIt) {
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 4));
  net->to(device_);
  const Tensor x = needing_gradient({6, 8}), y = x.detach().clone().requires_grad_();
  const auto graphed = [&] {
    const Autocast on(torch::kBFloat16, device_.type());
    return make_graphed_callables(net, x);
  }();
  Tensor expected, found;
  {
    const Autocast on(torch::kBFloat16, device_.type());
    expected = net->forward(x);
    found = graphed(y);
  }
  EXPECT_EQ(found.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(same(found, expected));
  expected.sum().backward();
  std::vector<Tensor> gradients;
  for (const auto& each : net->parameters()) gradients.push_back(each.grad().clone());
  net->zero_grad();
  found.sum().backward();
  EXPECT_TRUE(same(x.grad(), y.grad()));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(net->parameters()[i].grad().scalar_type(), torch::kFloat);
    EXPECT_TRUE(same(net->parameters()[i].grad(), gradients[i])) << i;
  }
}

TEST_F(GraphedCallables, CapturedUnderAutocastGoBackwardWithoutIt) {
  const auto f = [type = device_.type()](const Tensor& x, const Tensor& w) {
    at::autocast::set_autocast_enabled(type, false);  // a part in full precision
    const Tensor y = x.mm(w);
    at::autocast::set_autocast_enabled(type, true);
    return y;
  };
  const Tensor x = needing_gradient({3, 4}), w = needing_gradient({4, 2}), y = x.detach().clone().requires_grad_();
  Tensor expected, found;
  {
    const Autocast on(torch::kBFloat16, device_.type());
    const auto graphed = make_graphed_callables(f, std::tuple(x, w));
    expected = f(x, w);
    found = graphed(y, w);
  }
  expected.pow(2).sum().backward();
  found.pow(2).sum().backward();
  EXPECT_TRUE(same(x.grad(), y.grad()));
}

TEST_F(GraphedCallables, CapturedUnderAutocastInsideItsScopeDoNotUseCastsOfEagerWork) {
  auto layer = linear(4, 4);
  const Tensor x = random({2, 4});
  const Autocast on(torch::kBFloat16, device_.type());
  static_cast<void>(layer->forward(x));  // autocast keeps the weight's cast
  const auto graphed = make_graphed_callables(layer, x);
  {
    const torch::NoGradGuard no_grad;
    layer->weight.zero_();
  }
  EXPECT_TRUE(same(graphed(x), layer->bias.to(torch::kBFloat16).expand({2, 4}))) << "the weight of the capture";
}

TEST_F(GraphedCallables, OtherAutocastThanAtTheCaptureIsRefused) {
  auto layer = linear(4, 4);
  const Tensor x = random({2, 4});
  const auto graphed = make_graphed_callables(layer, x);
  {
    const Autocast on(torch::kBFloat16, device_.type());
    EXPECT_THAT(refusal([&] { graphed(x); }),
                ::testing::HasSubstr("captured with autocast off, and is called with autocast to BFloat16"));
  }
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
}

}  // namespace
}  // namespace reprise::libtorch::test
