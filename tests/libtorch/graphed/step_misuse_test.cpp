// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "tests/libtorch/graphed/step_fixture.h"

// What graphed steps refuse, and that everything is as usable as before.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model with one parameter, and a step of it.
class GraphedStepMisuse : public GraphedSteps {
 protected:
  template <class Loss>
  std::string refusal_of(const Loss& loss, const GraphedStepOptions& options = {}) {
    return refusal([&] { graphed_step(layer_, loss, optimizer_, sample_, options); });
  }
  static Tensor mean(const Tensor& output) { return output.mean(); }
  auto make(const GraphedStepOptions& options = {}) {
    return graphed_step(layer_, &mean, optimizer_, sample_, options);
  }

  /// Making and calling a step works, and trains.
  void expect_usable() {
    const Tensor before = layer_->weight.detach().clone();
    const auto step = make();
    expect_same({layer_->weight}, {before});
    step(sample_);
    EXPECT_FALSE(same(layer_->weight.detach(), before));
  }

  torch::nn::Linear layer_ = linear(4, 4);
  optim::Adam optimizer_{layer_->parameters(), torch::optim::AdamOptions(0.1)};
  const Tensor sample_ = random({3, 4});
};

TEST_F(GraphedStepMisuse, OptimizersThatCountOnTheHostAreRefusedWithTheirReplacement) {
  torch::optim::AdamW adamw(layer_->parameters(), torch::optim::AdamWOptions(0.1));
  EXPECT_THAT(refusal([&] { graphed_step(layer_, &mean, adamw, sample_); }),
              AllOf(HasSubstr("graphed_step: expected an optimizer with its state on the device"),
                    HasSubstr("found torch::optim::AdamW"), HasSubstr("AdamW of reprise::libtorch::optim")));
  expect_usable();
}

TEST_F(GraphedStepMisuse, LossesThatAreNoneAreRefused) {
  const auto refused =
      HasSubstr("graphed_step, the warm-up of step (torch::nn::LinearImpl): expected a loss of one number");
  EXPECT_THAT(refusal_of([](const Tensor& output) { return output; }), AllOf(refused, HasSubstr("found Float [3, 4]")));
  EXPECT_THAT(refusal_of([](const Tensor& output) { return output.detach().sum(); }),
              AllOf(refused, HasSubstr("which requires none")));
  EXPECT_THAT(refusal_of([](const Tensor& /*output*/) { return Tensor(); }), AllOf(refused, HasSubstr("undefined")));
  EXPECT_THAT(refusal_of([](const Tensor& output) { return output.argmax(); }, {.warmup = 0}),
              HasSubstr("the capture of the forward of step"));
  expect_usable();
}

TEST_F(GraphedStepMisuse, ParametersOfNeitherModelNorOptimizerAreRefused) {
  const Tensor other = needing_gradient({4});
  const auto loss = [&](const Tensor& output) { return (output * other).mean(); };
  EXPECT_THAT(refusal_of(loss),
              AllOf(HasSubstr("the loss depends on a tensor Float [4]"), HasSubstr("with_parameters()")));
  EXPECT_FALSE(other.grad().defined());
  expect_usable();
  EXPECT_EQ(refusal([&] { graphed_step(layer_, with_parameters(loss, {other}), optimizer_, sample_)(sample_); }), "");
}

TEST_F(GraphedStepMisuse, ParametersOfTheOptimizerThatTheLossDoesNotUseAreRefused) {
  for (const int accumulate : {1, 3})
    EXPECT_THAT(refusal([&] {
                  const auto weights = with_module([&](const Tensor& x) { return x.mm(layer_->weight); }, layer_);
                  graphed_step(weights, &mean, optimizer_, sample_, {.accumulate = accumulate});
                }),
                AllOf(HasSubstr("graphed_step, the capture of"), HasSubstr("parameter 1 of group 0"),
                      HasSubstr("has no gradient"), HasSubstr("requires_grad_(false)")));
  expect_usable();
}

TEST_F(GraphedStepMisuse, OptionsOutOfTheirRangeAreRefused) {
  EXPECT_THAT(refusal_of(&mean, {.accumulate = 0}), HasSubstr("accumulate: expected 1 or more, found 0"));
  EXPECT_THAT(refusal_of(&mean, {.warmup = -1}), HasSubstr("warmup: expected 0 or more, found -1"));
  EXPECT_THAT(refusal_of(&mean, {.clip = ClipNorm{-1}}), HasSubstr("expected max_norm to be zero or more"));
  expect_usable();
}

TEST_F(GraphedStepMisuse, ModelsThatAreNotThereOrOnTheCpuAreRefused) {
  EXPECT_THAT(refusal([&] { graphed_step(std::shared_ptr<torch::nn::LinearImpl>(), &mean, optimizer_, sample_); }),
              HasSubstr("graphed_step expected a module, found an empty pointer"));
  torch::nn::Linear on_cpu(4, 4);
  optim::SGD of_cpu(on_cpu->parameters(), torch::optim::SGDOptions(0.1));
  EXPECT_THAT(refusal([&] { graphed_step(on_cpu, &mean, of_cpu, sample_.cpu()); }), HasSubstr("found some on the CPU"));
  EXPECT_THAT(refusal([&] { graphed_step(layer_, &mean, optimizer_, sample_.cpu()); }),
              AllOf(HasSubstr("graphed_step: step (torch::nn::LinearImpl) cannot be graphed: argument 0 is on cpu")));
  optim::SGD empty(std::vector<Tensor>{}, torch::optim::SGDOptions(0.1));
  const auto nothing = [](const Tensor& x) { return x; };
  EXPECT_THAT(refusal([&] { graphed_step(nothing, &mean, empty, sample_); }), HasSubstr("with parameters, found none"));
  expect_usable();
}

TEST_F(GraphedStepMisuse, InACaptureIsRefusedAndTheCaptureGoesOn) {
  const auto step = make();
  CUDAGraph graph;
  Tensor sum;
  capture(graph, [&] {
    EXPECT_THAT(refusal([&] { make(); }), HasSubstr("graphed_step in a capture"));
    EXPECT_THAT(refusal([&] { step(sample_); }), HasSubstr("captur"));
    sum = sample_ + 1;
  });
  graph.replay();
  EXPECT_TRUE(same(sum, sample_ + 1));
  expect_usable();
}

TEST_F(GraphedStepMisuse, ALossThatWaitsForTheDeviceFailsTheCaptureAndChangesNothing) {
  GradScaler scaler(device_);
  const Tensor before = layer_->weight.detach().clone();
  const auto waits = [](const Tensor& output) { return output.mean() * output.detach().sum().item<float>(); };
  try {
    graphed_step(layer_, waits, optimizer_, sample_, {.scaler = &scaler});
    FAIL() << "a capture cannot wait";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(device_.is_cuda() ? "captur" : "item()"),
                                    HasSubstr("graphed_step, the capture of the forward of step")));
  }
  expect_same({layer_->weight}, {before});
  EXPECT_FALSE(layer_->weight.grad().defined());
  EXPECT_EQ(scaler.get_scale(), 65536);
  EXPECT_FALSE(is_current_stream_capturing());
  expect_usable();
}

TEST_F(GraphedStepMisuse, ExceptionsOfTheWarmUpAndOfTheCapturePropagateAndChangeNothing) {
  GradScaler scaler(device_);
  const Tensor before = layer_->weight.detach().clone();
  for (const int last : {2, 4}) {
    int calls = 0;
    try {
      graphed_step(layer_, &mean, optimizer_, sample_, {.scaler = &scaler, .after_backward = [&] {
                                                          if (++calls == last)
                                                            throw std::runtime_error("no all-reduce");
                                                        }});
      ADD_FAILURE() << "the exception was swallowed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(last == 2 ? "the warm-up" : "the capture"), HasSubstr("no all-reduce")));
    }
    expect_same({layer_->weight}, {before});
    EXPECT_FALSE(layer_->weight.grad().defined());
    EXPECT_EQ(scaler.get_scale(), 65536);
    EXPECT_EQ(scaler.skipped_steps(), 0);
  }
  const auto step = make({.scaler = &scaler});
  step(sample_);
  EXPECT_FALSE(same(layer_->weight.detach(), before));
}

TEST_F(GraphedStepMisuse, AFailureBetweenUnscalingAndTheStepLeavesTheScalerAsItWas) {
  GradScaler scaler(device_);
  const auto iterate = [&] {
    scaler.scale(layer_->forward(sample_).mean()).backward();
    scaler.unscale_(optimizer_);
  };
  iterate();
  for (const int warmup : {0, 1})
    EXPECT_THAT(refusal_of(&mean, {.scaler = &scaler, .clip = ClipNorm{-1}, .warmup = warmup}), HasSubstr("max_norm"));
  EXPECT_THAT(refusal([&] { scaler.unscale_(optimizer_); }), HasSubstr("unscale_() was called already"));
  const auto step = make({.scaler = &scaler});
  scaler.step(optimizer_);
  scaler.update();
  iterate();
  scaler.step(optimizer_);
  scaler.update();
  step(sample_);
  EXPECT_EQ(scaler.skipped_steps(), 0);
}

TEST_F(GraphedStepMisuse, BatchesOfAnotherShapeAreRefusedAndDoNotCount) {
  const auto step = make({.accumulate = 2});
  step(sample_);
  EXPECT_THAT(
      refusal([&] {
        step(random({2, 4}));
      }),
      AllOf(HasSubstr("A call of graphed step (torch::nn::LinearImpl): its arguments are not as the samples were"),
            HasSubstr(on_device("argument 0: expected Float [3, 4] on reprise:0, found Float [2, 4]"))));
  EXPECT_THAT(refusal([&] { step(Tensor()); }), HasSubstr("found an undefined tensor"));
  EXPECT_EQ(step.accumulated(), 1);
  step(sample_);
  EXPECT_EQ(step.accumulated(), 0);
}

TEST_F(GraphedStepMisuse, AModelInAnotherModeIsRefused) {
  const auto step = make();
  layer_->eval();
  EXPECT_THAT(refusal([&] { step(sample_); }),
              AllOf(HasSubstr("a module is in another mode (train(), eval())"), HasSubstr("Restore the mode")));
  layer_->train();
  EXPECT_EQ(refusal([&] { step(sample_); }), "");
}

TEST_F(GraphedStepMisuse, ChangesOfParametersAndOptionsAreRefused) {
  const auto step = make();
  auto& options = static_cast<torch::optim::AdamOptions&>(optimizer_.param_groups()[0].options());
  options.weight_decay(0.5);
  const Tensor before = layer_->weight.detach().clone();
  EXPECT_THAT(refusal([&] { step(sample_); }), HasSubstr("was captured with weight_decay = 0"));
  options.weight_decay(0);
  layer_->bias.requires_grad_(false);
  EXPECT_THAT(refusal([&] { step(sample_); }), HasSubstr("bias does not need a gradient now"));
  layer_->bias.requires_grad_();
  const Tensor memory = layer_->bias.detach();
  layer_->bias.set_data(memory.clone());
  EXPECT_THAT(refusal([&] { step(sample_); }), HasSubstr("bias has other memory now"));
  layer_->bias.set_data(memory);
  expect_same({layer_->weight}, {before});
  EXPECT_EQ(refusal([&] { step(sample_); }), "");
}

TEST_F(GraphedStepMisuse, LossesThatWereOverwrittenAreRefused) {
  const auto step = make();
  const Tensor first = step(sample_);
  EXPECT_FALSE(first.requires_grad());
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x * 2; }, torch::zeros({}, device_));
  EXPECT_EQ(refusal([&] { graphed(first); }), "");
  step(sample_);
  EXPECT_THAT(
      refusal([&] { graphed(first); }),
      AllOf(HasSubstr("is a result of call 1 of step (torch::nn::LinearImpl)"), HasSubstr("overwritten by call 2")));
}

TEST_F(GraphedStepMisuse, CallsDuringAnotherCallAreRefused) {
  const auto step = make();
  std::string refused;
  step.graph().add_hooks({.before_replay = [&](const StreamRef& /*stream*/) {
    if (refused.empty()) refused = refusal([&] { step(sample_); });
  }});
  step(sample_);
  EXPECT_THAT(refused, HasSubstr("another call of it has not returned"));
  EXPECT_THAT(refusal([&] { step.graph().replay(); }), HasSubstr("graphed step (torch::nn::LinearImpl)"));
}

TEST_F(GraphedStepMisuse, AStepThatWasMovedFromIsTheSameStep) {
  auto step = make({.accumulate = 2});
  const auto moved = std::move(step);
  step(sample_);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(moved.accumulated(), 1);
  step.discard();
  EXPECT_EQ(moved.accumulated(), 0);
  EXPECT_GT(step.graph().node_count(), 0U);
}

TEST_F(GraphedStepMisuse, AStepOutlivesItsOptimizerAndItsScaler) {
  torch::nn::Linear layer = linear(4, 4);
  const Tensor before = layer->weight.detach().clone();
  const auto step = [&] {
    optim::Adam optimizer(layer->parameters(), torch::optim::AdamOptions(0.1));
    GradScaler scaler(device_);
    return graphed_step(layer, &mean, optimizer, sample_, {.scaler = &scaler, .clip = ClipNorm{1}});
  }();
  step(sample_);
  step(sample_);
  EXPECT_TRUE(torch::allclose((before - layer->weight.detach()).abs().cpu(), torch::full({4, 4}, 0.2F), 1e-3, 1e-3));
}

TEST_F(GraphedStepMisuse, AStepInInferenceModeIsCalledAsElsewhere) {
  const auto step = make();
  const Tensor before = layer_->weight.detach().clone();
  {
    const c10::InferenceMode inference;
    EXPECT_EQ(refusal([&] { step(sample_); }), "");
  }
  EXPECT_FALSE(same(layer_->weight.detach(), before));
}

}  // namespace
}  // namespace reprise::libtorch::test
