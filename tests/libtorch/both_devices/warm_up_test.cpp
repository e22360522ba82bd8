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

// Eager steps on the default stream, the last of which left its loss: that keeps the nodes alive that add gradients.
class WarmUpAfterEagerSteps : public WarmUpOfTensors {
 protected:
  void add_gradient() {
    loss_ = (weight_ * weight_).sum() + (bias_ * 2).sum();
    loss_.backward();
  }
  void SetUp() override {
    add_gradient();
    here_.synchronize();
    for (const Tensor& each : {weight_, bias_}) each.mutable_grad().zero_();
  }

  const StreamGuard default_stream_{here_.default_stream()};
  Tensor weight_ = ones(), bias_ = ones(), loss_;
  CUDAGraph graph_;
};

TEST_F(WarmUpAfterEagerSteps, MakesNodesThatAddGradientsOnTheStreamOfTheCapture) {
  const Tensor eager_loss = loss_;
  capture(graph_, {.warmup = 1}, [&] { add_gradient(); });
  graph_.replay();
  EXPECT_TRUE(same(weight_.grad(), torch::full({8}, 4.0F)));  // of the warm-up and the replay
  EXPECT_TRUE(same(bias_.grad(), torch::full({8}, 4.0F)));
  add_gradient();  // eager steps go on
  EXPECT_TRUE(same(weight_.grad(), torch::full({8}, 6.0F)));
}

TEST_F(WarmUpAfterEagerSteps, IsNamedWhereItWouldHelp) {
  const Tensor eager_loss = loss_;
  const auto expect_cause = [](const std::string& text) {
    EXPECT_THAT(text, ::testing::AllOf(::testing::HasSubstr("The gradient of a parameter (Float [8]"),
                                       ::testing::HasSubstr("GraphOptions::warmup")));
  };
  try {
    capture(graph_, [&] { add_gradient(); });
    ADD_FAILURE() << "the default stream took part in a capture";
  } catch (const c10::Error& error) {  // of CUDA
    expect_cause(error.what_without_backtrace());
  } catch (const BackendError& error) {  // of the host device
    EXPECT_EQ(error.code(), ErrorCode::stream_capture_implicit);
  }
  ASSERT_TRUE(graph_.capture_report().has_value());
  expect_cause(graph_.capture_report()->str());
}

}  // namespace
}  // namespace reprise::libtorch::test
