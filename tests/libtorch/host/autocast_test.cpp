// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/host/autocast.h"

#include "tests/libtorch/host/host_device_fixture.h"

// Autocast on the host device: CUDA's rules.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

TEST_F(OnHostDevice, AutocastTakesEachOperatorInTheTypeThatItTakesOnCuda) {
  const auto a = torch::rand({4, 4}, device_), b = torch::rand({4, 4}, device_);
  const Autocast on;
  EXPECT_EQ(torch::mm(a, b).scalar_type(), torch::kHalf);
  EXPECT_EQ(torch::matmul(a, b).scalar_type(), torch::kHalf);
  EXPECT_EQ(torch::conv1d(a.view({1, 4, 4}), b.view({4, 4, 1})).scalar_type(), torch::kHalf);
  EXPECT_EQ(torch::scaled_dot_product_attention(a.view({1, 1, 4, 4}), b.view({1, 1, 4, 4}), a.view({1, 1, 4, 4}))
                .scalar_type(),
            torch::kHalf);
  const auto half = torch::mm(a, b);
  EXPECT_EQ(torch::softmax(half, 1).scalar_type(), torch::kFloat);
  EXPECT_EQ(half.exp().scalar_type(), torch::kFloat);
  EXPECT_EQ(half.sum().scalar_type(), torch::kFloat);
  EXPECT_EQ(half.norm().scalar_type(), torch::kFloat);
  EXPECT_EQ(torch::mse_loss(half, half).scalar_type(), torch::kFloat);
  EXPECT_EQ(torch::cross_entropy_loss(half, torch::zeros({4}, torch::TensorOptions(torch::kLong).device(device_)))
                .scalar_type(),
            torch::kFloat);
  EXPECT_EQ(torch::addcmul(half, a, b).scalar_type(), torch::kFloat) << "the widest of its inputs";
  EXPECT_EQ((half + half).scalar_type(), torch::kHalf) << "as it comes";
  EXPECT_EQ(torch::mm(a.to(torch::kDouble), b.to(torch::kDouble)).scalar_type(), torch::kDouble);
  EXPECT_EQ(torch::mm(a.cpu(), b.cpu()).scalar_type(), torch::kFloat) << "autocast of the CPU is off";
}

TEST_F(OnHostDevice, AutocastKnowsOtherTypesAndEndsWithItsScope) {
  const auto a = torch::rand({4, 4}, device_);
  {
    const Autocast on(torch::kBFloat16);
    EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(torch::mm(a, a).scalar_type(), torch::kFloat);
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kPrivateUse1), torch::kHalf);
}

TEST_F(OnHostDevice, AutocastRefusesBinaryCrossEntropyAsCudasDoes) {
  const auto p = torch::full({3}, 0.5, device_);
  const Autocast on;
  try {
    static_cast<void>(torch::binary_cross_entropy(p, p));
    FAIL() << "nothing was refused";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("unsafe to autocast"));
  }
  EXPECT_EQ(torch::binary_cross_entropy_with_logits(p, p).scalar_type(), torch::kFloat);
}

TEST_F(OnHostDevice, AutocastKeepsTheCastOfAWeightWithinItsScope) {
  const auto weight = torch::ones({4, 4}, device_).requires_grad_();
  const auto x = torch::ones({2, 4}, torch::TensorOptions(torch::kHalf).device(device_));
  const auto first = [&] { return torch::mm(x, weight).flatten()[0].item<float>(); };
  {
    const Autocast on;
    EXPECT_EQ(first(), 4);
    weight.detach().fill_(2);
    EXPECT_EQ(first(), 4) << "the weight was cast again";
  }
  const Autocast on;
  EXPECT_EQ(first(), 8);
}

TEST_F(OnHostDevice, AutocastCastsAWeightAtEachUseInACapture) {
  const auto weight = torch::rand({4, 4}, device_).requires_grad_();
  const auto x = torch::rand({2, 4}, torch::TensorOptions(torch::kHalf).device(device_));
  const auto nodes_of = [&](int uses) {
    CUDAGraph graph;
    capture(graph, [&] {
      const Autocast on;
      for (int i = 0; i < uses; ++i) static_cast<void>(torch::mm(x, weight));
    });
    return graph.node_count();
  };
  EXPECT_EQ(nodes_of(1), 2U);
  EXPECT_EQ(nodes_of(3), 6U);
}

TEST_F(OnHostDevice, TrainingUnderAutocastOfOneGraphEqualsEagerToTheLastBit) {
  const auto make = [&] {
    torch::manual_seed(4);
    torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 16),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})), torch::nn::Linear(16, 3));
    net->to(device_);
    return net;
  };
  const auto step = [](torch::nn::Sequential& net, torch::optim::SGD& optimizer, const torch::Tensor& x,
                       const torch::Tensor& target) {
    optimizer.zero_grad();
    torch::Tensor loss;
    {
      const Autocast on(torch::kBFloat16);
      loss = torch::cross_entropy_loss(net->forward(x), target);
    }
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  auto eager = make(), graphed = make();
  torch::optim::SGD of_eager(eager->parameters(), 0.1), of_graphed(graphed->parameters(), 0.1);
  const auto x = torch::rand({6, 8}, device_);
  const auto target = torch::zeros({6}, torch::TensorOptions(torch::kLong).device(device_));
  CUDAGraph graph;
  torch::Tensor loss;
  capture(graph, [&] { loss = step(graphed, of_graphed, x, target); });
  torch::Tensor first;
  for (int i = 0; i < 20; ++i) {
    x.copy_(torch::rand({6, 8}));
    target.copy_(torch::randint(3, {6}));
    const auto expected = step(eager, of_eager, x, target);
    EXPECT_EQ(expected.scalar_type(), torch::kFloat);
    graph.replay();
    EXPECT_TRUE(same(loss, expected)) << "step " << i;
  }
  for (std::size_t i = 0; i < eager->parameters().size(); ++i) {
    EXPECT_EQ(graphed->parameters()[i].scalar_type(), torch::kFloat);
    EXPECT_TRUE(same(graphed->parameters()[i], eager->parameters()[i])) << i;
  }
}

TEST_F(OnHostDevice, CellsOfRecurrentNetworksRunUnderAutocast) {
  torch::nn::LSTM lstm(4, 6);
  torch::nn::GRU gru(4, 6);
  lstm->to(device_);
  gru->to(device_);
  const auto x = torch::rand({3, 2, 4}, device_);
  torch::Tensor y;
  {
    const Autocast on;
    const auto of_lstm = std::get<0>(lstm->forward(x)), of_gru = std::get<0>(gru->forward(x));
    EXPECT_EQ(of_lstm.scalar_type(), torch::kHalf);
    y = of_lstm.sum() + of_gru.sum();
  }
  y.backward();
  EXPECT_EQ(lstm->parameters()[0].grad().scalar_type(), torch::kFloat);
  const auto half = lstm->parameters()[1].grad().clone();
  lstm->zero_grad();
  std::get<0>(lstm->forward(x)).sum().backward();
  EXPECT_TRUE(torch::allclose(half.cpu(), lstm->parameters()[1].grad().cpu(), 0.02, 0.02));
}

}  // namespace
}  // namespace reprise::libtorch::test
