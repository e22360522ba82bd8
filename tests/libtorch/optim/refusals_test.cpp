// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <sstream>

#include "reprise/libtorch/host_device.h"
#include "tests/libtorch/optim/optim_fixture.h"

// What optimizers refuse in captures, and their graphs afterwards.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

TEST_F(CapturedOptimizers, RefuseParametersWithoutGradientInACapture) {
  const Parameters parameters = make_parameters();
  optim::Adam own(parameters, AdamOptions(0.01));
  parameters[1].mutable_grad() = Tensor();
  EXPECT_THAT(refusal([&] { capture_step(own); }),
              AllOf(HasSubstr("reprise::libtorch::optim::Adam::step was called in a capture, and parameter 1 of group "
                              "0 (Float [7, 5] on "),
                    HasSubstr("has no gradient"), HasSubstr("requires_grad_(false)")));
  // The end of the capture refuses it, too, if the body goes on.
  EXPECT_THAT(refusal([&] {
                capture(graph_, [&] {
                  EXPECT_THROW(own.step(), UsageError);
                  parameters[0].grad().add_(1);
                });
              }),
              HasSubstr("has no gradient"));
  parameters[1].requires_grad_(false);
  capture_step(own);
  graph_.replay();
}

TEST_F(CapturedOptimizers, RefuseReplaysWithAnotherOption) {
  const Parameters parameters = make_parameters();
  optim::Adam own(parameters, AdamOptions(0.01));
  capture_step(own);
  auto& options = static_cast<AdamOptions&>(own.param_groups()[0].options());
  options.weight_decay(0.5);
  const Tensor before = parameters[0].detach().clone();
  EXPECT_THAT(refusal([&] { replay(parameters, 0, 1); }),
              HasSubstr("step was captured with weight_decay = 0 in parameter group 0, and the option is 0.5 now"));
  EXPECT_TRUE(same(parameters[0].detach(), before));
  options.weight_decay(0).eps(1e-4);
  EXPECT_THAT(refusal([&] { replay(parameters, 0, 1); }), HasSubstr("eps"));
  capture_step(own);
  replay(parameters, 0, 1);
}

TEST_F(CapturedOptimizers, RefuseReplaysWithOtherParameters) {
  const Parameters parameters = make_parameters();
  optim::SGD own(parameters, SGDOptions(0.1));
  capture_step(own);
  const auto refused = HasSubstr("step was captured with other parameters than the optimizer has now");
  parameters[0].requires_grad_(false);
  EXPECT_THAT(refusal([&] { graph_.replay(); }), refused);
  parameters[0].requires_grad_();
  graph_.replay();
  own.add_param_group(torch::optim::OptimizerParamGroup({torch::ones({2}, device_).requires_grad_()}));
  EXPECT_THAT(refusal([&] { graph_.replay(); }), refused);
  own.param_groups().pop_back();
  graph_.replay();
  const Tensor memory = parameters[0].detach();
  parameters[0].set_data(memory.clone());
  EXPECT_THAT(refusal([&] { graph_.replay(); }), refused);
  parameters[0].set_data(memory);
  graph_.replay();
}

TEST_F(CapturedOptimizers, RefuseStepsThatLackAStateInACapture) {
  const Parameters parameters = make_parameters();
  const Tensor gradient = parameters[0].grad();
  parameters[0].mutable_grad() = Tensor();
  parameters[0].requires_grad_(false);
  optim::Adam own(parameters, AdamOptions(0.01));
  parameters[0].requires_grad_();
  parameters[0].mutable_grad() = gradient;
  const auto refused = HasSubstr("parameter 0 of group 0 (Float [133] on " + device_.str() + ") has no state yet");
  EXPECT_THAT(refusal([&] { capture_step(own); }), refused);
  own.step();
  capture_step(own);
  static_cast<AdamOptions&>(own.param_groups()[0].options()).amsgrad(true);
  EXPECT_THAT(refusal([&] { capture_step(own); }), refused);
}

TEST_F(CapturedOptimizers, RefuseAllButStepsInACapture) {
  const Parameters parameters = make_parameters();
  optim::Adam own(parameters, AdamOptions(0.01));
  const auto in_capture = [&](const std::function<void()>& call) {
    graph_.reset();
    return refusal([&] { capture(graph_, call); });
  };
  std::stringstream archive;
  torch::save(own, archive);
  EXPECT_THAT(in_capture([&] { optim::Adam(parameters, AdamOptions(0.01)); }),
              HasSubstr("Adam::constructor was called in a capture"));
  EXPECT_THAT(in_capture([&] { own.add_param_group(torch::optim::OptimizerParamGroup(Parameters{})); }),
              HasSubstr("Adam::add_param_group was called in a capture"));
  EXPECT_THAT(in_capture([&] {
                std::ostringstream out;
                torch::save(own, out);
              }),
              HasSubstr("Adam::save was called in a capture"));
  EXPECT_THAT(in_capture([&] { torch::load(own, archive); }), HasSubstr("Adam::load was called in a capture"));
  own.step();
}

TEST_F(CapturedOptimizers, RefuseParametersThatTheyCannotTrain) {
  const Tensor good = torch::ones({3}, device_).requires_grad_();
  const auto refused =
      HasSubstr("expected dense parameters of a floating-point type of 16 to 64 bits, all of them on one device");
  const Tensor on_cpu = torch::ones({3}).requires_grad_();
  EXPECT_THAT(refusal([&] { optim::SGD({good, on_cpu}, SGDOptions(0.1)); }), refused);
  const Tensor with_gaps = torch::empty_strided({3}, {2}, device_).requires_grad_();
  EXPECT_THAT(refusal([&] { optim::Adam({with_gaps}); }), refused);
  EXPECT_THROW(optim::Adam({good}, AdamOptions(-1)), c10::Error);
  optim::SGD own({good}, SGDOptions(0.1).momentum(0.9));
  EXPECT_THAT(refusal([&] { own.learning_rate(1); }), HasSubstr("expected a group below 1, found 1"));
  good.set_data(torch::ones({4}, device_));
  EXPECT_THAT(refusal([&] { own.step(); }), HasSubstr("was moved or converted after the optimizer was made"));
}

TEST_F(CapturedOptimizers, RefuseAParameterThatIsListedTwice) {
  const Parameters parameters = make_parameters();
  const auto refused = AllOf(HasSubstr("expected each parameter once"), HasSubstr("is in the list twice"));
  EXPECT_THAT(refusal([&] { optim::Adam({parameters[0], parameters[1], parameters[0]}); }), refused);
  optim::SGD own({parameters[0]}, SGDOptions(0.1).momentum(0.9));
  capture_step(own);
  EXPECT_THAT(refusal([&] { own.add_param_group(torch::optim::OptimizerParamGroup(parameters)); }), refused);
  EXPECT_EQ(own.param_groups().size(), 1U);
  replay({parameters[0]}, 0, 1);
  own.step();
}

TEST_F(CapturedOptimizers, MakeTheLearningRateAnewOnTheDeviceOfTheParameters) {
  const Tensor moved = torch::zeros({3}).requires_grad_();
  optim::SGD own({moved}, SGDOptions(0.5));
  moved.set_data(torch::zeros({3}, device_));
  moved.mutable_grad() = torch::ones({3}, device_);
  EXPECT_THAT(refusal([&] { capture_step(own); }), HasSubstr("SGD::step was called in a capture"));
  own.step();
  capture_step(own);
  own.set_learning_rate(0.25);
  graph_.replay();
  EXPECT_TRUE(same(moved.detach(), torch::full({3}, -0.75, device_)));
  EXPECT_EQ(own.learning_rate().device(), moved.device());
}

TEST_F(CapturedOptimizers, TrainWhatHasAGradientAlsoIfItRequiresNone) {
  const Tensor frozen = torch::zeros({3}, device_).requires_grad_();
  frozen.mutable_grad() = torch::ones({3}, device_);
  frozen.requires_grad_(false);
  optim::SGD own({frozen}, SGDOptions(0.5).momentum(0.9));
  own.step();
  capture_step(own);
  EXPECT_TRUE(same(frozen, torch::full({3}, -0.5, device_)));
}

TEST_F(CapturedOptimizers, LeaveTheirGraphTheMemoryOfParametersThatGetAnotherOne) {
  const Parameters parameters = make_parameters();
  {
    optim::Adam own(parameters, AdamOptions(0.01));
    capture_step(own);
  }
  const Tensor before = parameters[0].detach().clone();
  for (const Tensor& each : parameters) each.set_data(each.detach().clone());
  graph_.replay();
  EXPECT_TRUE(same(parameters[0].detach(), before)) << "the graph trains the memory of its capture";
}

TEST_F(CapturedOptimizers, RefuseSparseGradients) {
  const Tensor on_cpu = torch::ones({3, 2}).requires_grad_();
  optim::SGD own({on_cpu}, SGDOptions(0.1));
  on_cpu.mutable_grad() = torch::ones({3, 2}).to_sparse();
  EXPECT_THAT(refusal([&] { own.step(); }), HasSubstr("expected dense gradients, found a sparse one of parameter 0"));
}

/// Gradient clipping.
using CapturedClipping = CapturedOptimizers;

TEST_F(CapturedClipping, GivesWhatTorchGives) {
  for (const double type : {2.0, 1.0, std::numeric_limits<double>::infinity()})
    for (const double limit : {0.5, 1e6}) {
      const Parameters found = make_parameters(), expected = make_parameters();
      set_gradients(found, 3);
      set_gradients(expected, 3);
      const Tensor norm = clip_grad_norm_(found, limit, type);
      EXPECT_NEAR(norm.item<double>(), torch::nn::utils::clip_grad_norm_(expected, limit, type), 1e-4);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(torch::allclose(found[i].grad().cpu(), expected[i].grad().cpu(), 1e-5, 1e-7));
    }
  const Parameters found = make_parameters(), expected = make_parameters();
  set_gradients(found, 3);
  set_gradients(expected, 3);
  clip_grad_value_(found, 0.1);
  torch::nn::utils::clip_grad_value_(expected, 0.1);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(same(found[i].grad(), expected[i].grad()));
}

TEST_F(CapturedClipping, ScalesAParameterThatIsListedTwiceOnce) {
  const Tensor weight = torch::zeros({2}, device_).requires_grad_();
  weight.mutable_grad() = torch::tensor({6.0F, 8.0F}).to(device_);
  EXPECT_EQ(clip_grad_norm_({weight, weight}, 5).item<float>(), 10);
  EXPECT_TRUE(torch::allclose(weight.grad().cpu(), torch::tensor({3.0F, 4.0F})));
}

TEST_F(CapturedClipping, UsesTheGradientsOfEachReplay) {
  const Tensor weight = torch::zeros({2}, device_).requires_grad_(), unused = torch::zeros({2}, device_);
  weight.mutable_grad() = torch::zeros({2}, device_);
  Tensor norm;
  capture(graph_, [&] {
    norm = clip_grad_norm_({weight, unused}, 5);
    clip_grad_value_({weight, unused}, 3.5);
  });
  weight.grad().copy_(torch::tensor({6.0F, 8.0F}));
  graph_.replay();
  EXPECT_EQ(norm.item<float>(), 10);
  EXPECT_TRUE(torch::allclose(weight.grad().cpu(), torch::tensor({3.0F, 3.5F})));
  weight.grad().copy_(torch::tensor({0.3F, 0.4F}));
  graph_.replay();
  EXPECT_FLOAT_EQ(norm.item<float>(), 0.5);
  EXPECT_TRUE(torch::allclose(weight.grad().cpu(), torch::tensor({0.3F, 0.4F})));
}

TEST_F(CapturedClipping, RefusesLimitsThatAreNone) {
  const Tensor weight = torch::zeros({2}, device_).requires_grad_();
  const double none = std::numeric_limits<double>::quiet_NaN();
  for (const double limit : {-1.0, none}) {
    EXPECT_THAT(refusal([&] { clip_grad_norm_(weight, limit); }), HasSubstr("expected max_norm to be zero or more"));
    EXPECT_THAT(refusal([&] { clip_grad_value_(weight, limit); }), HasSubstr("expected clip_value to be zero or more"));
    EXPECT_THAT(refusal([&] { clip_grad_norm_(weight, 1, limit); }), HasSubstr("expected norm_type to be above zero"));
  }
  EXPECT_EQ(clip_grad_norm_(weight, 1).item<float>(), 0) << "there is no gradient";
  EXPECT_EQ(clip_grad_norm_({}, 1).item<float>(), 0);
}

}  // namespace
}  // namespace reprise::libtorch::test
