// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>

#include <bit>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/libtorch/optim/optim_fixture.h"
#include "tests/libtorch/support/training.h"

// Steps of captured optimizers against those of torch::optim, of Python, and eager ones.

namespace reprise::libtorch::test {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

TEST_F(CapturedOptimizers, SgdIsThatOfTorchToTheLastBit) {
  const std::vector<SGDOptions> all = {
      SGDOptions(0.1),
      SGDOptions(0.1).weight_decay(0.01).momentum(0.9),
      SGDOptions(0.07).momentum(0.8).nesterov(true).weight_decay(0.03),
      SGDOptions(0.03).momentum(0.9).dampening(0.3),
  };
  for (const SGDOptions& options : all) {
    const Parameters expected = make_parameters(), found = make_parameters();
    torch::optim::SGD torchs(expected, options);
    optim::SGD own(found, options);
    const int count = options.weight_decay() != 0 && !options.nesterov() ? steps : 10;
    capture_step(own);
    train(torchs, expected, 0, count);
    replay(found, 0, count);
    expect_same(found, expected);
  }
}

TEST_F(CapturedOptimizers, SgdOfOtherTypesIsThatOfTorchToo) {
  const auto options = SGDOptions(0.1).weight_decay(0.01).momentum(0.9);
  for (const c10::ScalarType type : {torch::kDouble, torch::kBFloat16}) {
    const Parameters expected = make_parameters(type), found = make_parameters(type);
    torch::optim::SGD torchs(expected, options);
    optim::SGD own(found, options);
    train(torchs, expected, 0, 10);
    train(own, found, 0, 10);
    expect_same(found, expected);
  }
}

TEST_F(CapturedOptimizers, AdamIsThatOfTorchButForRounding) {
  for (const AdamOptions& options : {AdamOptions(0.01), AdamOptions(0.02).weight_decay(0.1).amsgrad(true)}) {
    const Parameters expected = make_parameters(), found = make_parameters(), eager = make_parameters();
    torch::optim::Adam torchs(expected, options);
    optim::Adam own(found, options), own_eager(eager, options);
    capture_step(own);
    train(torchs, expected);
    train(own_eager, eager);
    replay(found);
    expect_same(found, eager);
    expect_close(found, expected);
  }
}

TEST_F(CapturedOptimizers, AdamWIsThatOfTorchButForRounding) {
  for (const AdamWOptions& options : {AdamWOptions(0.01), AdamWOptions(0.02).weight_decay(0.1).amsgrad(true)}) {
    const Parameters expected = make_parameters(), found = make_parameters(), eager = make_parameters();
    torch::optim::AdamW torchs(expected, options);
    optim::AdamW own(found, options), own_eager(eager, options);
    capture_step(own);
    train(torchs, expected);
    train(own_eager, eager);
    replay(found);
    expect_same(found, eager);
    expect_close(found, expected);
  }
}

/// The lines of fused_values.py: a name, then the bits of all parameters after the steps.
std::vector<std::pair<std::string, std::vector<std::uint32_t>>> values_of_python(const char* file) {
  std::vector<std::pair<std::string, std::vector<std::uint32_t>>> lines;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    std::istringstream line(text);
    auto& [name, bits] = lines.emplace_back();
    line >> name >> std::hex;
    for (std::uint32_t each = 0; line >> each;) bits.push_back(each);
  }
  return lines;
}

std::vector<std::uint32_t> bits_of(const std::vector<Tensor>& parameters) {
  std::vector<std::uint32_t> bits;
  for (const Tensor& each : parameters) {
    const Tensor values = each.detach().cpu().contiguous();
    for (std::int64_t i = 0; i < values.numel(); ++i)
      bits.push_back(std::bit_cast<std::uint32_t>(values.const_data_ptr<float>()[i]));
  }
  return bits;
}

TEST_F(CapturedOptimizers, AdamIsThatOfPythonToTheLastBit) {
  const char* const file = std::getenv("REPRISE_FUSED_VALUES");
  if (file == nullptr) GTEST_SKIP() << "REPRISE_FUSED_VALUES is not set: fused_values.py says how";
  const auto lines = values_of_python(file);
  ASSERT_EQ(lines.size(), 4U) << file;
  for (const auto& [name, bits] : lines) {
    const Parameters found = make_parameters();
    const bool amsgrad = name.ends_with("_amsgrad");
    std::unique_ptr<optim::CapturableOptimizer> own;
    if (name.starts_with("adamw"))
      own = std::make_unique<optim::AdamW>(found, AdamWOptions(0.02).weight_decay(0.1).amsgrad(amsgrad));
    else
      own = std::make_unique<optim::Adam>(found, AdamOptions(0.02).weight_decay(0.1).amsgrad(amsgrad));
    capture_step(*own);
    replay(found);
    EXPECT_EQ(bits_of(found), bits) << name;
  }
}

/// A network and an optimizer for it.
struct Trained {
  Trained(const std::string& optimizer, torch::Device device) : network(make_network("perceptron", 0.0)) {
    network->to(device);
    if (optimizer == "SGD")
      steps = std::make_unique<optim::SGD>(network->parameters(), SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
    else if (optimizer == "Adam")
      steps = std::make_unique<optim::Adam>(network->parameters(), AdamOptions(0.01));
    else
      steps = std::make_unique<optim::AdamW>(network->parameters(), AdamWOptions(0.01).amsgrad(true));
  }

  void step(const Tensor& input, const Tensor& target) {
    steps->zero_grad();
    loss = loss_of(*network, input, target);
    loss.backward();
    norm = clip_grad_norm_(network->parameters(), 0.5);
    steps->step();
    loss = loss.detach();
  }

  Network network;
  std::unique_ptr<optim::CapturableOptimizer> steps;
  Tensor loss, norm;
};

TEST_F(CapturedOptimizers, AWholeStepReplayedIsTheEagerOne) {
  for (const char* const name : {"SGD", "Adam", "AdamW"}) {
    Trained eager(name, device_), captured(name, device_);
    const std::vector<Batch> batches = make_batches("perceptron", 6);
    const Tensor input = here(batches[0].input), target = here(batches[0].target);
    eager.step(input, target);
    graph_.reset();
    GraphOptions options;
    options.warmup = 1;
    capture(graph_, options, [&] { captured.step(input, target); });
    for (const Batch& batch : batches) {
      input.copy_(batch.input);
      target.copy_(batch.target);
      eager.step(input, target);
      graph_.replay();
      EXPECT_TRUE(same(captured.loss, eager.loss)) << name;
      EXPECT_TRUE(same(captured.norm, eager.norm)) << name;
    }
    expect_same(captured.network->parameters(), eager.network->parameters());
    EXPECT_GT(eager.norm.item<float>(), 0.5F) << "nothing was clipped";
  }
}

TEST_F(CapturedOptimizers, FollowALearningRateThatChangesBetweenReplays) {
  const Parameters expected = make_parameters(), found = make_parameters();
  torch::optim::SGD torchs(expected, SGDOptions(0.1));
  optim::SGD own(found, SGDOptions(0.1));
  capture_step(own);
  const auto both = [&](int step) {
    train(torchs, expected, step, step + 1);
    replay(found, step, step + 1);
  };
  both(0);
  torch::optim::StepLR scheduler(own, 1, 0.5);  // a scheduler changes the options
  scheduler.step();
  scheduler.step();
  torchs.param_groups()[0].options().set_lr(0.05);
  both(1);
  own.set_learning_rate(0.01);
  torchs.param_groups()[0].options().set_lr(0.01);
  both(2);
  own.learning_rate().mul_(0.5);  // work on the device changes it, and keeps it
  torchs.param_groups()[0].options().set_lr(0.005);
  both(3);
  both(4);
  own.set_learning_rate(0.01);
  torchs.param_groups()[0].options().set_lr(0.01);
  both(5);
  train(torchs, expected, 6, 7);
  train(own, found, 6, 7);
  expect_same(found, expected);
}

TEST_F(CapturedOptimizers, HaveALearningRateAndOptionsForEachGroup) {
  const Parameters expected = make_parameters(), found = make_parameters();
  const auto groups = [](const Parameters& parameters) {
    std::vector<torch::optim::OptimizerParamGroup> made;
    made.emplace_back(Parameters{parameters[0]});
    made.emplace_back(Parameters{parameters[1], parameters[2]},
                      std::make_unique<SGDOptions>(SGDOptions(0.02).momentum(0.5)));
    return made;
  };
  torch::optim::SGD torchs(groups(expected), SGDOptions(0.1));
  optim::SGD own(groups(found), SGDOptions(0.1));
  capture_step(own);
  train(torchs, expected, 0, 3);
  replay(found, 0, 3);
  expect_same(found, expected);
  EXPECT_EQ(own.learning_rate(0).item<double>(), 0.1);
  EXPECT_EQ(own.learning_rate(1).item<double>(), 0.02);
}

TEST_F(CapturedOptimizers, OutsideOfCapturesLeaveParametersWithoutGradientAlone) {
  const Parameters expected = make_parameters(), found = make_parameters();
  torch::optim::Adam torchs(expected, AdamOptions(0.01));
  optim::Adam own(found, AdamOptions(0.01));
  for (const Parameters& each : {expected, found}) {
    set_gradients(each, 0);
    each[0].mutable_grad() = Tensor();
  }
  torchs.step();
  own.step();
  for (const Parameters& each : {expected, found}) each[0].mutable_grad() = torch::zeros_like(each[0]);
  train(torchs, expected, 1, 4);
  train(own, found, 1, 4);
  expect_close(found, expected);
}

TEST_F(CapturedOptimizers, CallTheClosureAndReturnItsLoss) {
  const Parameters parameters = make_parameters();
  optim::SGD own(parameters, SGDOptions(0.1));
  const Tensor loss = own.step([&] {
    own.zero_grad();
    const Tensor sum = parameters[0].sum() + parameters[1].sum() + parameters[2];
    sum.backward();
    return sum;
  });
  EXPECT_TRUE(loss.defined());
  EXPECT_TRUE(torch::allclose(parameters[0].detach().cpu(), numbers({133}, 37, 101, 64).to(torch::kFloat) - 0.1));
}

TEST_F(CapturedOptimizers, AreRefusedByABackwardThatNeedsTheValuesBefore) {
  const Tensor weight = torch::ones({3}, device_).requires_grad_();
  weight.mutable_grad() = torch::ones({3}, device_);
  optim::Adam own({weight}, AdamOptions(0.1));
  const Tensor square = (weight * weight).sum();
  own.step();
  EXPECT_THROW(square.backward(), c10::Error);
}

TEST_F(CapturedOptimizers, AreKeptByTheirGraph) {
  const Parameters expected = make_parameters(), found = make_parameters();
  optim::Adam eager(expected, AdamOptions(0.01));
  auto own = std::make_unique<optim::Adam>(found, AdamOptions(0.01));
  capture_step(*own);
  train(eager, expected, 0, 4);
  replay(found, 0, 2);
  own.reset();
  const Tensor other = torch::full({4096}, 7.0F, device_);  // would take memory that was freed
  replay(found, 2, 4);
  expect_same(found, expected);
}

TEST_F(CapturedOptimizers, AreThoseOfTheOtherGraphAfterAnUpdate) {
  const Parameters expected = make_parameters(), found = make_parameters();
  optim::Adam eager(expected, AdamOptions(0.01).weight_decay(0.1)), own(found, AdamOptions(0.01).weight_decay(0.2));
  capture_step(own);
  static_cast<AdamOptions&>(own.param_groups()[0].options()).weight_decay(0.1);
  {
    CUDAGraph other;
    capture(other, [&] { own.step(); });
    graph_.update(other);
  }
  own.set_learning_rate(0.02);
  eager.set_learning_rate(0.02);
  train(eager, expected, 0, 2);
  replay(found, 0, 2);
  expect_same(found, expected);
}

TEST_F(CapturedOptimizers, TakeStepsInChildGraphs) {
  const Parameters expected = make_parameters(), found = make_parameters();
  optim::SGD eager(expected, SGDOptions(0.1)), own(found, SGDOptions(0.1));
  capture_step(own);
  CUDAGraph parent;
  capture(parent, [&] { graph_.replay(); });
  set_gradients(expected, 0);
  set_gradients(found, 0);
  for (const double rate : {0.1, 0.01}) {
    eager.set_learning_rate(rate);
    own.set_learning_rate(rate);
    eager.step();
    parent.replay();
  }
  expect_same(found, expected);
}

}  // namespace
}  // namespace reprise::libtorch::test
