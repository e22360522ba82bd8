// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/both_devices/device_fixture.h"

// GraphOptions::warmup with tensors.

namespace reprise::libtorch::test {
namespace {

class WarmUpOfTensors : public OnDevice {
 protected:
  static void train(Tensor& weight) {
    const Tensor gradient = torch::autograd::grad({(weight * weight).sum()}, {weight})[0];
    const torch::NoGradGuard no_grad;
    weight.sub_(gradient * 0.1);
  }
  Tensor ones() const { return torch::ones({8}, device_).requires_grad_(); }
};

TEST_F(WarmUpOfTensors, LeavesRandomNumbersAsTheyWere) {
  torch::manual_seed(5);
  const Tensor expected = torch::rand({64}, device_);
  torch::manual_seed(5);
  Tensor y;
  CUDAGraph graph = capture({.warmup = 3}, [&] { y = torch::rand({64}, device_); });
  graph.replay();
  EXPECT_TRUE(same(y, expected));
}

TEST_F(WarmUpOfTensors, TrainsAStepForEachRun) {
  Tensor eager = ones(), weight = ones();
  CUDAGraph graph = capture({.warmup = 3}, [&] { train(weight); });
  for (int i = 0; i < 3; ++i) train(eager);
  EXPECT_TRUE(same(weight.detach(), eager.detach()));
  for (int i = 0; i < 2; ++i) {
    graph.replay();
    train(eager);
  }
  EXPECT_TRUE(same(weight.detach(), eager.detach()));
}

}  // namespace
}  // namespace reprise::libtorch::test
