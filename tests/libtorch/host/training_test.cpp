// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/support/training.h"

#include "tests/libtorch/host/host_device_fixture.h"

// Training on the host device: as the CPU does it, and as a graph.

namespace reprise::libtorch::test {
namespace {

constexpr int steps = 20;

class Training : public OnHostDevice, public ::testing::WithParamInterface<const char*> {
 protected:
  Network network(double dropout = 0) const { return make_network(GetParam(), dropout); }

  Network network_here(double dropout = 0) const {
    Network made = network(dropout);
    made->to(device_);
    return made;
  }

  // The eager steps on one network, and the replays of a captured step on another, in turn from the same seeds: the
  // same to the last bit?
  void expect_graphed_equals_eager(const char* optimizer_name, double dropout) {
    SCOPED_TRACE(optimizer_name);
    const Network eager = network_here(dropout), graphed = network_here(dropout);
    const auto of_eager = make_optimizer(optimizer_name, *eager), of_graphed = make_optimizer(optimizer_name, *graphed);
    const auto batches = make_batches(GetParam(), steps + 2);
    const torch::Tensor input = here(batches[0].input), target = here(batches[0].target);

    torch::manual_seed(11);  // the first steps make the state of the optimizer
    for (int i = 0; i < 2; ++i) train_step(*eager, *of_eager, input, target);
    torch::manual_seed(11);
    for (int i = 0; i < 2; ++i) train_step(*graphed, *of_graphed, input, target);

    CUDAGraph graph;
    torch::Tensor loss;
    of_graphed->zero_grad();
    capture(graph, [&] { loss = train_step(*graphed, *of_graphed, input, target); });

    std::vector<torch::Tensor> eager_losses, graphed_losses;
    torch::manual_seed(12);
    for (int i = 0; i < steps; ++i)
      eager_losses.push_back(train_step(*eager, *of_eager, here(batches[i + 2].input), here(batches[i + 2].target)));
    torch::manual_seed(12);
    for (int i = 0; i < steps; ++i) {
      input.copy_(batches[i + 2].input);
      target.copy_(batches[i + 2].target);
      graph.replay();
      graphed_losses.push_back(loss.clone());
    }
    for (int i = 0; i < steps; ++i) EXPECT_TRUE(same(eager_losses[i], graphed_losses[i])) << "loss of step " << i;
    EXPECT_FALSE(same(graphed_losses.front(), graphed_losses.back())) << "nothing was trained";
    const auto expected = state_of(*eager);
    for (const auto& each : state_of(*graphed)) EXPECT_TRUE(same(each.value(), expected[each.key()])) << each.key();
  }
};

TEST_P(Training, EqualsTheCpusWithinRounding) {
  for (const char* name : {"SGD with momentum", "Adam", "AdamW"}) {
    SCOPED_TRACE(name);
    const Network cpu = network(), host = network_here();
    const auto of_cpu = make_optimizer(name, *cpu), of_host = make_optimizer(name, *host);
    int step = 0;
    for (const Batch& batch : make_batches(GetParam(), steps)) {
      const auto expected = train_step(*cpu, *of_cpu, batch.input, batch.target);
      const auto loss = train_step(*host, *of_host, here(batch.input), here(batch.target));
      EXPECT_EQ(loss.device(), device_);
      EXPECT_NEAR(loss.item<float>(), expected.item<float>(), 1e-4) << "loss of step " << step++;
    }
    const auto expected = state_of(*cpu);
    for (const auto& each : state_of(*host)) {
      EXPECT_EQ(each.value().device(), device_) << each.key();
      EXPECT_TRUE(torch::allclose(each.value().cpu(), expected[each.key()], 1e-3, 1e-4)) << each.key();
    }
  }
}

// Adam and AdamW of libtorch count their steps on the host, and so a graph of theirs would repeat one step's factors.
TEST_P(Training, OfOneGraphEqualsEagerToTheLastBit) {
  expect_graphed_equals_eager("SGD with momentum", 0);
  expect_graphed_equals_eager("RMSprop", 0);
}

TEST_P(Training, OfOneGraphWithDropoutEqualsEagerToTheLastBit) {
  expect_graphed_equals_eager("SGD with momentum", 0.3);
}

INSTANTIATE_TEST_SUITE_P(Networks, Training,
                         ::testing::Values("perceptron", "convolutions", "lstm", "gru", "transformer"),
                         [](const auto& each) { return std::string(each.param); });

TEST_F(OnHostDevice, CellsOfRecurrentNetworksEqualTheCpusInHalfTypesToo) {
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    SCOPED_TRACE(type);
    torch::manual_seed(2);
    torch::nn::LSTMCell lstm(4, 6);
    torch::nn::GRUCell gru(4, 6);
    lstm->to(type);
    gru->to(type);
    const auto x = torch::randn({3, 4}, type), h = torch::randn({3, 6}, type), c = torch::randn({3, 6}, type);
    const auto results = [&](const torch::Device& device) {
      lstm->to(device);
      gru->to(device);
      const auto input = x.to(device).requires_grad_();
      const auto [hy, cy] = lstm->forward(input, std::tuple(h.to(device), c.to(device)));
      const auto only_hy = torch::autograd::grad({hy.sum()}, {input}, {}, true)[0];
      const auto only_cy = torch::autograd::grad({cy.sum()}, {input}, {}, true)[0];
      const auto y = gru->forward(input, h.to(device));
      const auto of_gru = torch::autograd::grad({(y * y).sum()}, {input})[0];
      return std::vector<torch::Tensor>{hy.cpu(), cy.cpu(), only_hy.cpu(), only_cy.cpu(), y.cpu(), of_gru.cpu()};
    };
    const auto expected = results(torch::kCPU), found = results(device_);
    const double tolerance = type == torch::kFloat ? 1e-5 : 0.05;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), type);
      EXPECT_TRUE(torch::allclose(found[i], expected[i], tolerance, tolerance)) << "result " << i;
    }
  }
}

TEST_F(OnHostDevice, GradientsOfGradientsOfALstmEqualTheCpus) {
  torch::manual_seed(2);
  torch::nn::LSTMCell cell(4, 6);
  const auto x = torch::randn({3, 4});
  const auto second = [&](const torch::Device& device) {
    cell->to(device);
    const auto input = x.to(device).requires_grad_();
    const auto first = torch::autograd::grad({std::get<0>(cell->forward(input)).pow(2).sum()}, {input}, {}, true, true);
    return torch::autograd::grad({first[0].pow(2).sum()}, {input})[0].cpu();
  };
  EXPECT_TRUE(torch::allclose(second(torch::kCPU), second(device_), 1e-4, 1e-6));
}

TEST_F(OnHostDevice, ConvolutionsOfAllKindsEqualTheCpusWithTheirGradients) {
  namespace nn = torch::nn;
  const auto check = [&](auto layer, const torch::Tensor& x) {
    const auto results = [&](const torch::Device& device) {
      layer->zero_grad();
      layer->to(device);
      const auto input = x.to(device).clone().requires_grad_();
      const auto y = layer->forward(input);
      y.pow(2).sum().backward();
      std::vector<torch::Tensor> all{y.cpu(), input.grad().cpu()};
      for (const auto& parameter : layer->parameters()) all.push_back(parameter.grad().cpu());
      return all;
    };
    const auto expected = results(torch::kCPU), found = results(device_);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-4, 1e-4)) << c10::str(*layer) << " result " << i;
  };
  check(nn::Conv1d(nn::Conv1dOptions(2, 3, 3).padding(1)), torch::randn({2, 2, 9}));
  check(nn::Conv2d(nn::Conv2dOptions(4, 6, 3).dilation(2).groups(2)), torch::randn({2, 4, 9, 8}));
  check(nn::Conv2d(nn::Conv2dOptions(2, 3, 3).bias(false)), torch::randn({2, 5, 6}));
  check(nn::Conv3d(nn::Conv3dOptions(1, 2, 2)), torch::randn({2, 1, 4, 4, 4}));
  check(nn::ConvTranspose1d(nn::ConvTranspose1dOptions(4, 6, 3).stride(2).groups(2)), torch::randn({2, 4, 5}));
  check(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(2, 3, 3).stride(2).output_padding(1)),
        torch::randn({2, 2, 5, 4}));
}

}  // namespace
}  // namespace reprise::libtorch::test
