// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/host/host_device_fixture.h"

// Tensors on the host device: memory, copies, operators, capture.

namespace reprise::libtorch::test {
namespace {

TEST_F(OnHostDevice, TensorsComeBackFromItAsTheyWere) {
  const auto x = torch::rand({3, 5});
  const auto y = here(x);
  EXPECT_EQ(y.device(), device_);
  EXPECT_TRUE(same(x, y));
}

TEST_F(OnHostDevice, OperatorsGiveWhatTheCpuGives) {
  const auto a = torch::rand({4, 6}), b = torch::rand({6, 3});
  EXPECT_TRUE(torch::allclose(torch::mm(a, b), torch::mm(here(a), here(b)).cpu()));
  EXPECT_TRUE(same(a + 1, here(a) + 1));
  EXPECT_TRUE(same(torch::relu(a - 0.5), torch::relu(here(a) - 0.5)));
  EXPECT_TRUE(same(a.t().contiguous(), here(a).t().contiguous()));
  EXPECT_TRUE(torch::allclose(a.sum(1), here(a).sum(1).cpu()));
  EXPECT_TRUE(same(torch::cat({a, a}, 1), torch::cat({here(a), here(a)}, 1)));
}

TEST_F(OnHostDevice, OperatorsAreWorkOfTheStreamAndBecomeNodes) {
  auto x = torch::ones({4}, device_), y = torch::zeros({4}, device_);
  CUDAGraph graph;
  capture(graph, [&] {
    y.add_(x);
    y.mul_(2);
  });
  EXPECT_EQ(graph.node_count(), 2U);
  EXPECT_EQ(y[0].item<float>(), 0) << "captured, not run";
  for (int i = 0; i < 3; ++i) graph.replay();
  default_device().synchronize();
  EXPECT_EQ(y[0].item<float>(), 14);  // 2, 6, 14
}

TEST_F(OnHostDevice, RefusesInACaptureWhatWaitsForTheDevice) {
  auto x = torch::ones({4}, device_);
  CUDAGraph graph;
  try {
    capture(graph, [&] {
      x.add_(1);
      static_cast<void>(x.nonzero());
    });
    FAIL() << "nothing was refused";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("aten::nonzero"));
  }
  EXPECT_EQ(x.sum().item<float>(), 4);
}

TEST_F(OnHostDevice, TrainsAPerceptronAsTheCpuDoes) {
  const auto make = [] {
    torch::manual_seed(3);
    return torch::nn::Sequential(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 4));
  };
  auto on_cpu = make(), on_host = make();
  on_host->to(device_);
  const auto x = torch::rand({10, 8}), target = torch::rand({10, 4});
  const auto train = [](torch::nn::Sequential& net, const torch::Tensor& input, const torch::Tensor& wanted) {
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
    torch::Tensor loss;
    for (int i = 0; i < 10; ++i) {
      optimizer.zero_grad();
      loss = torch::mse_loss(net->forward(input), wanted);
      loss.backward();
      optimizer.step();
    }
    return loss.cpu().item<float>();
  };
  EXPECT_NEAR(train(on_cpu, x, target), train(on_host, here(x), here(target)), 1e-5);
}

}  // namespace
}  // namespace reprise::libtorch::test
