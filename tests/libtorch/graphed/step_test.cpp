// SPDX-License-Identifier: Apache-2.0
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <atomic>
#include <limits>

#include "tests/libtorch/graphed/step_fixture.h"
#include "tests/libtorch/support/training.h"

// Whole training steps in one graph: bitwise what eager steps give, and what surrounds them is left as it was.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

/// Trains two copies of the model, one of them in a graph.
class GraphedStepsAndEager : public GraphedSteps {
 protected:
  torch::nn::Sequential eager_ = make_model(), graphed_ = make_model();
  optim::AdamW of_eager_{eager_->parameters(), adamw()}, of_graphed_{graphed_->parameters(), adamw()};

  /// \param between is called after each pair of calls.
  void expect_same_training(const GraphedStepOptions& of_graph, const GraphedStepOptions& of_eager,
                            const std::vector<Pair>& pairs, const std::function<void(int call)>& between = {}) {
    const GraphedStep step =
        graphed_step(graphed_, torch::nn::MSELoss(), of_graphed_,
                     std::tuple(torch::ones_like(pairs[0].x), torch::ones_like(pairs[0].y)), of_graph);
    for (int i = 0; i < static_cast<int>(pairs.size()); ++i) {
      torch::manual_seed(100 + i);
      const Tensor expected = eager_step(eager_, of_eager_, pairs[i], of_eager, i);
      torch::manual_seed(100 + i);
      ASSERT_TRUE(same(step(pairs[i].x, pairs[i].y), expected)) << "the loss of call " << i;
      if (between) between(i);
    }
    expect_same(values_of(graphed_), values_of(eager_));
  }
  void expect_same_training(const GraphedStepOptions& options, int calls) {
    const auto before = copies_of(graphed_->parameters());
    expect_same_training(options, options, make_pairs(calls));
    EXPECT_FALSE(same(graphed_->parameters()[0], before[0])) << "nothing was trained";
  }
};

TEST_F(GraphedStepsAndEager, AreTheSameToTheLastBit) {
  expect_same_training({}, 30);
}

// The loss of an eager step on the default stream keeps the nodes alive that add gradients there.
TEST_F(GraphedStepsAndEager, AreTheSameAfterEagerStepsWhoseLossLives) {
  const Pair pair = make_pairs(1)[0];
  here_.synchronize();
  std::vector<Tensor> losses;
  {
    const StreamGuard default_stream(here_.default_stream());
    for (auto& [model, optimizer] : {std::tie(eager_, of_eager_), std::tie(graphed_, of_graphed_)}) {
      torch::manual_seed(6);
      losses.push_back(torch::mse_loss(model->forward(pair.x), pair.y));
      losses.back().backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    here_.synchronize();
  }
  expect_same_training({}, 10);
}

TEST_F(GraphedStepsAndEager, AreTheSameWithClippedGradients) {
  expect_same_training({.clip = ClipNorm{0.1}}, 20);
}

TEST_F(GraphedStepsAndEager, AreTheSameWithClippedValues) {
  expect_same_training({.clip = ClipValue{0.01}, .warmup = 0}, 20);
}

TEST_F(GraphedStepsAndEager, AreTheSameOverTwoMicroBatches) {
  expect_same_training({.clip = ClipNorm{0.1}, .accumulate = 2}, 20);
}

TEST_F(GraphedStepsAndEager, AreTheSameOverFiveMicroBatches) {
  expect_same_training({.accumulate = 5, .warmup = 1}, 20);
}

TEST_F(GraphedStepsAndEager, AreTheSameWithAutocastAndOverflowsOver200Steps) {
  GradScaler of_graph(device_, {.growth_interval = 20}), of_eager(device_, {.growth_interval = 20});
  auto pairs = make_pairs(200);
  for (const int overflow : {0, 3, 50, 51, 52, 140, 199}) pairs[overflow].y[0][1] = 1e38F;
  GraphedStepOptions in_graph{.scaler = &of_graph, .clip = ClipNorm{1}, .autocast = torch::kHalf}, eagerly = in_graph;
  eagerly.scaler = &of_eager;
  expect_same_training(in_graph, eagerly, pairs, [&](int call) {
    if (call % 10 == 0) {
      EXPECT_EQ(of_graph.get_scale(), of_eager.get_scale());
    }
  });
  EXPECT_EQ(of_graph.skipped_steps(), of_eager.skipped_steps());
  EXPECT_GE(of_graph.skipped_steps(), 7);
  EXPECT_EQ(archive_of(of_graph), archive_of(of_eager));
}

TEST_F(GraphedStepsAndEager, AreTheSameWithAutocastToAnotherTypeThanTheDeviceHas) {
  ASSERT_NE(at::autocast::get_autocast_dtype(device_.type()), torch::kBFloat16);
  expect_same_training({.autocast = torch::kBFloat16}, 20);
}

TEST_F(GraphedStepsAndEager, AreTheSameWithAScheduleOfTheLearningRate) {
  torch::optim::StepLR with_graph(of_graphed_, 2, 0.5), eagerly(of_eager_, 2, 0.5);
  expect_same_training({.accumulate = 2}, {.accumulate = 2}, make_pairs(16), [&](int call) {
    if (call % 2 == 0) return;
    with_graph.step();
    eagerly.step();
  });
  EXPECT_LT(of_graphed_.param_groups()[0].options().get_lr(), 0.005);
}

TEST_F(GraphedStepsAndEager, AreTheSameWithFrozenParameters) {
  for (auto* const model : {&eager_, &graphed_}) (*model)->parameters()[1].requires_grad_(false);
  const Tensor frozen = graphed_->parameters()[1].clone();
  expect_same_training({.accumulate = 2}, 10);
  EXPECT_TRUE(same(graphed_->parameters()[1], frozen));
}

class GraphedStepsOfNetworks : public GraphedSteps, public ::testing::WithParamInterface<const char*> {};

TEST_P(GraphedStepsOfNetworks, EqualEagerToTheLastBit) {
  const double dropout = comparable_dropout(GetParam(), 0.3);
  const Network eager = make_network(GetParam(), dropout), graphed = make_network(GetParam(), dropout);
  eager->to(device_);
  graphed->to(device_);
  const auto options = optim::SGDOptions(0.05).momentum(0.9).dampening(0.1).weight_decay(0.01);
  optim::SGD of_eager(eager->parameters(), options), of_graphed(graphed->parameters(), options);
  const auto batches = make_batches(GetParam(), 12);
  const auto loss = [](const Tensor& output, const Tensor& target) {
    return target.is_floating_point() ? torch::mse_loss(output, target) : torch::cross_entropy_loss(output, target);
  };
  const GraphedStep step =
      graphed_step(graphed, loss, of_graphed, std::tuple(here(batches[0].input), here(batches[0].target)));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Tensor x = here(batches[i].input), y = here(batches[i].target);
    torch::manual_seed(i);
    const Tensor expected = train_step(*eager, of_eager, x, y);
    torch::manual_seed(i);
    ASSERT_TRUE(same(step(x, y), expected)) << "step " << i;
  }
  const auto state = state_of(*eager);
  for (const auto& each : state_of(*graphed)) EXPECT_TRUE(same(each.value(), state[each.key()])) << each.key();
}

INSTANTIATE_TEST_SUITE_P(Networks, GraphedStepsOfNetworks,
                         ::testing::Values("perceptron", "convolutions", "lstm", "transformer"),
                         [](const auto& each) { return std::string(each.param); });

// The gradients of the micro-batch are added, whatever a hook throws afterwards.
TEST_F(GraphedSteps, CountACallWhoseHookThrowsAfterTheLaunch) {
  torch::nn::Sequential model = make_model();
  optim::AdamW optimizer(model->parameters(), adamw());
  const auto pairs = make_pairs(2);
  const GraphedStep step = graphed_step(model, torch::nn::MSELoss(), optimizer, std::tuple(pairs[0].x, pairs[0].y),
                                        {.accumulate = 2, .warmup = 1});
  static_cast<void>(step(pairs[0].x, pairs[0].y));
  EXPECT_EQ(step.accumulated(), 1);
  const HookId refusing =
      step.graph().add_hooks({.before_replay = [](const StreamRef&) { throw std::runtime_error("not now"); }});
  EXPECT_THROW(static_cast<void>(step(pairs[1].x, pairs[1].y)), std::runtime_error);
  EXPECT_EQ(step.accumulated(), 1) << "nothing was launched";
  step.graph().remove_hooks(refusing);
  const HookId throwing =
      step.graph().add_hooks({.after_replay = [](auto&&...) { throw std::runtime_error("of the hook"); }});
  EXPECT_THROW(static_cast<void>(step(pairs[1].x, pairs[1].y)), std::runtime_error);
  EXPECT_EQ(step.accumulated(), 0);
  step.graph().remove_hooks(throwing);
}

TEST_F(GraphedSteps, LeaveEverythingAsItWasWhenTheyAreMade) {
  auto model = make_model();
  optim::AdamW optimizer(model->parameters(), adamw().amsgrad(true));
  GradScaler scaler(device_, {.growth_interval = 3});
  const auto pairs = make_pairs(5);
  for (int i = 0; i < 4; ++i) eager_step(model, optimizer, pairs[i], {.scaler = &scaler}, i);
  optimizer.param_groups()[0].options().set_lr(0.002);  // not on the device yet
  torch::mse_loss(model->forward(pairs[4].x), pairs[4].y).backward();
  const auto gradients = model->parameters();
  std::vector<Tensor> grads;
  for (const Tensor& each : gradients) grads.push_back(each.grad());
  const auto values = copies_of(values_of(model)), of_grads = copies_of(grads);
  std::vector<std::int64_t> versions;
  for (const Tensor& each : values_of(model)) versions.push_back(each._version());
  const std::string of_optimizer = archive_of(optimizer), of_scaler = archive_of(scaler);
  const Tensor generator = state_of_generator(), x = pairs[4].x.clone();
  for (const int accumulate : {1, 3}) {
    const GraphedStep step = graphed_step(model, torch::nn::MSELoss(), optimizer, std::tuple(x, pairs[4].y),
                                          {.scaler = &scaler, .clip = ClipNorm{1}, .accumulate = accumulate});
    expect_same(values_of(model), values);
    for (std::size_t i = 0; i < grads.size(); ++i) EXPECT_TRUE(model->parameters()[i].grad().is_same(grads[i])) << i;
    expect_same(grads, of_grads);
    for (std::size_t i = 0; i < versions.size(); ++i) EXPECT_EQ(values_of(model)[i]._version(), versions[i]) << i;
    EXPECT_EQ(archive_of(optimizer), of_optimizer);
    EXPECT_EQ(archive_of(scaler), of_scaler);
    EXPECT_TRUE(same(state_of_generator(), generator));
    EXPECT_TRUE(same(x, pairs[4].x));
    EXPECT_EQ(optimizer.learning_rate().item<float>(), 0.002F);
  }
}

TEST_F(GraphedSteps, ContinueASavedRunWithTheSameNumbers) {
  const auto pairs = make_pairs(12);
  const GraphedStepOptions options{.clip = ClipNorm{1}, .accumulate = 2, .autocast = torch::kHalf};
  struct Run {
    torch::nn::Sequential model;
    optim::AdamW optimizer;
    GradScaler scaler;
    std::vector<Tensor> losses;

    Run(torch::nn::Sequential its_model, torch::Device device)
        : model(std::move(its_model)),
          optimizer(model->parameters(), adamw()),
          scaler(device, {.growth_interval = 2}) {}
    void train(GraphedStepOptions with, const std::vector<Pair>& all, std::size_t from, std::size_t to) {
      with.scaler = &scaler;
      const GraphedStep step =
          graphed_step(model, torch::nn::MSELoss(), optimizer, std::tuple(all[0].x, all[0].y), with);
      for (std::size_t i = from; i < to; ++i) losses.push_back(step(all[i].x, all[i].y).clone());
    }
  };
  Run whole(make_model(), device_), first(make_model(), device_);
  torch::manual_seed(9);
  whole.train(options, pairs, 0, 12);
  torch::manual_seed(9);
  first.train(options, pairs, 0, 6);
  const std::string model = archive_of(first.model), optimizer = archive_of(first.optimizer),
                    scaler = archive_of(first.scaler);
  const Tensor generator = state_of_generator();

  torch::manual_seed(77);
  Run second(make_model(), device_);
  load_from(model, second.model);
  load_from(optimizer, second.optimizer);
  load_from(scaler, second.scaler);
  set_state_of_generator(generator);
  second.train(options, pairs, 6, 12);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(same(second.losses[i], whole.losses[i + 6])) << "call " << i;
  expect_same(values_of(second.model), values_of(whole.model));
  EXPECT_EQ(archive_of(second.scaler), archive_of(whole.scaler));
}

TEST_F(GraphedSteps, ContinueFromWhatIsRestoredBetweenCalls) {
  auto model = make_model();
  optim::AdamW optimizer(model->parameters(), adamw());
  GradScaler scaler(device_, {.growth_interval = 2});
  const auto pairs = make_pairs(4);
  const GraphedStep step =
      graphed_step(model, torch::nn::MSELoss(), optimizer, std::tuple(pairs[0].x, pairs[0].y), {.scaler = &scaler});
  step(pairs[0].x, pairs[0].y);
  const auto of_model = copies_of(values_of(model));
  const std::string of_optimizer = archive_of(optimizer), of_scaler = archive_of(scaler);
  const Tensor generator = state_of_generator();
  const auto three = [&] {
    for (int i = 1; i < 4; ++i) step(pairs[i].x, pairs[i].y);
    return copies_of(values_of(model));
  };
  const auto expected = three();
  for (std::size_t i = 0; i < of_model.size(); ++i) values_of(model)[i].detach().copy_(of_model[i]);
  load_from(of_optimizer, optimizer);
  load_from(of_scaler, scaler);
  set_state_of_generator(generator);
  expect_same(three(), expected);
  EXPECT_EQ(scaler.get_scale(), 65536 * 4);
}

/// Operators that the calling thread runs while it lives.
class CountedOperators {
 public:
  CountedOperators()
      : handle_(
            at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction&) {
                                         ++count;
                                         return std::unique_ptr<at::ObserverContext>();
                                       }).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {
    count = 0;
  }
  ~CountedOperators() { at::removeCallback(handle_); }
  CountedOperators(const CountedOperators&) = delete;
  CountedOperators& operator=(const CountedOperators&) = delete;

  static inline std::atomic<int> count;

 private:
  at::CallbackHandle handle_;
};

TEST_F(GraphedSteps, AreOneLaunchAndNoOperator) {
  auto model = make_model();
  optim::AdamW optimizer(model->parameters(), adamw());
  GradScaler scaler(device_);
  const auto pairs = make_pairs(4);
  const GraphedStep step = graphed_step(model, torch::nn::MSELoss(), optimizer, std::tuple(pairs[0].x, pairs[0].y),
                                        {.scaler = &scaler, .clip = ClipNorm{1}});
  int launches = 0;
  step.graph().add_hooks({.before_replay = [&](const StreamRef& /*stream*/) { ++launches; }});
  Tensor loss;
  {
    const CountedOperators operators;
    for (const Pair& each : pairs) loss = step(each.x, each.y);
    EXPECT_EQ(operators.count, 0);
  }
  EXPECT_EQ(launches, 4);
  EXPECT_GT(loss.item<float>(), 0);
}

TEST_F(GraphedSteps, OfTwoShapesTrainOneModel) {
  auto eager = make_model(), graphed = make_model();
  optim::AdamW of_eager(eager->parameters(), adamw()), of_graphed(graphed->parameters(), adamw());
  const auto large = make_pairs(4), small = make_pairs(4, 3);
  const auto make = [&](const Pair& sample) {
    return graphed_step(graphed, torch::nn::MSELoss(), of_graphed, std::tuple(sample.x, sample.y), {.warmup = 1});
  };
  const GraphedStep of_large = make(large[0]), of_small = make(small[0]);
  for (int i = 0; i < 8; ++i) {
    const Pair& pair = i % 2 == 0 ? large[i / 2] : small[i / 2];
    torch::manual_seed(i);
    const Tensor expected = eager_step(eager, of_eager, pair, {}, i);
    torch::manual_seed(i);
    ASSERT_TRUE(same((i % 2 == 0 ? of_large : of_small)(pair.x, pair.y), expected)) << i;
  }
  expect_same(values_of(graphed), values_of(eager));
}

TEST_F(GraphedSteps, CaptureWhatIsToHappenAfterTheLastBackward) {
  const Tensor weight = torch::ones({3}, device_).requires_grad_();
  optim::SGD optimizer({weight}, optim::SGDOptions(1));
  int calls = 0;
  const GraphedStep step = graphed_step(with_parameters([&](const Tensor& x) { return x * weight; }, {weight}),
                                        [](const Tensor& y) { return y.sum(); }, optimizer, torch::ones({3}, device_),
                                        {.clip = ClipValue{3}, .accumulate = 2, .warmup = 2, .after_backward = [&] {
                                           ++calls;
                                           weight.mutable_grad().mul_(4);
                                         }});
  EXPECT_EQ(calls, 3) << "two runs of the warm-up, and the capture";
  step(torch::full({3}, 0.5F, device_));
  step(torch::full({3}, 0.25F, device_));
  EXPECT_TRUE(same(weight.detach(), torch::full({3}, 1 - 4 * (0.25F + 0.125F))));
  for (int i = 0; i < 2; ++i) step(torch::full({3}, 2.0F, device_));
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(same(weight.detach(), torch::full({3}, -0.5F - 3))) << "clipped afterwards";
}

TEST_F(GraphedSteps, CaptureHooksOfParameters) {
  const Tensor weight = torch::ones({3}, device_).requires_grad_();
  weight.register_hook([](const Tensor& gradient) { return gradient * 2; });
  optim::SGD optimizer({weight}, optim::SGDOptions(1));
  const GraphedStep step = graphed_step(
      with_parameters([&](const Tensor& x) { return x * weight; }, {weight}), [](const Tensor& y) { return y.sum(); },
      optimizer, torch::ones({3}, device_));
  step(torch::full({3}, 0.25F, device_));
  EXPECT_TRUE(same(weight.detach(), torch::full({3}, 0.5F)));
}

/// Multiplies the gradient of a leaf by two, on a stream besides the backward, once that has accumulated it.
struct OnAnotherStream : torch::autograd::FunctionPostHook {
  OnAnotherStream(Tensor the_leaf, const Stream& the_side, const Device& on)
      : leaf(std::move(the_leaf)), side(the_side.ref()), device(on) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list& /*inputs*/) override {
    side.wait(current_stream(device));
    const StreamGuard guard(side);
    leaf.mutable_grad().mul_(2);
    return outputs;
  }
  Tensor leaf;
  StreamRef side;
  Device device;
};

TEST_F(GraphedSteps, JoinWorkThatHooksOfTheBackwardStartedOnAnotherStream) {
  const Tensor weight = torch::ones({3}, device_).requires_grad_();
  const Stream side(here_);
  const auto accumulator = torch::autograd::impl::grad_accumulator(weight);
  accumulator->add_post_hook(std::make_unique<OnAnotherStream>(weight, side, here_));
  optim::SGD optimizer({weight}, optim::SGDOptions(1));
  const GraphedStep step = graphed_step(with_parameters([&](const Tensor& x) { return x * weight; }, {weight}),
                                        [](const Tensor& y) { return y.sum(); }, optimizer, torch::ones({3}, device_),
                                        {.after_backward = [&] { current_stream(here_).wait(side); }});
  for (int i = 0; i < 3; ++i) step(torch::full({3}, 0.125F, device_));
  EXPECT_TRUE(same(weight.detach(), torch::full({3}, 0.25F)));
  stream_.synchronize();
}

TEST_F(GraphedSteps, HaveTheChecksAndAnnotationsOfGraphs) {
  auto model = make_model();
  optim::AdamW optimizer(model->parameters(), adamw());
  const Pair pair = make_pairs(1)[0];
  const auto loss = [](const Tensor& output, const Tensor& target) {
    const annotate scope("loss");
    return torch::mse_loss(output, target);
  };
  GraphedStep step = graphed_step(model, loss, optimizer, std::tuple(pair.x, pair.y),
                                  {.check_input_liveness = true, .enable_annotations = true});
  step(pair.x, pair.y);
  EXPECT_FALSE(step.graph().annotations().empty());
  EXPECT_FALSE(step.graph().inputs().empty());
}

TEST_F(GraphedSteps, TakeInputsInTuples) {
  torch::nn::Bilinear model(4, 4, 2);
  model->to(device_);
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.1));
  using Inputs = std::tuple<Tensor, Tensor>;
  const auto forward = with_module(
      [model](const Inputs& inputs) mutable { return model->forward(std::get<0>(inputs), std::get<1>(inputs)); },
      model);
  const Inputs inputs(random({5, 4}), random({5, 4}));
  const Tensor target = random({5, 2});
  const GraphedStep step = graphed_step(forward, torch::nn::L1Loss(), optimizer, std::tuple(inputs, target));
  const float first = step(inputs, target).item<float>();
  for (int i = 0; i < 50; ++i) step(inputs, target);
  EXPECT_LT(step(inputs, target).item<float>(), first);
}

TEST_F(GraphedSteps, CountMicroBatchesAndDiscardThem) {
  auto eager = make_model(), graphed = make_model();
  optim::AdamW of_eager(eager->parameters(), adamw()), of_graphed(graphed->parameters(), adamw());
  const auto pairs = make_pairs(4);
  const GraphedStepOptions options{.accumulate = 3};
  GraphedStep step =
      graphed_step(graphed, torch::nn::MSELoss(), of_graphed, std::tuple(pairs[0].x, pairs[0].y), options);
  eager->eval();  // without state of the calls that are discarded
  graphed->eval();
  EXPECT_THAT(refusal([&] { step(pairs[0].x, pairs[0].y); }), HasSubstr("another mode"));
  step = graphed_step(graphed, torch::nn::MSELoss(), of_graphed, std::tuple(pairs[0].x, pairs[0].y), options);
  step(pairs[3].x, pairs[3].y);
  step(pairs[2].x, pairs[2].y);
  EXPECT_EQ(step.accumulated(), 2);
  step.discard();
  EXPECT_EQ(step.accumulated(), 0);
  for (int i = 0; i < 3; ++i) {
    eager_step(eager, of_eager, pairs[i], options, i);
    step(pairs[i].x, pairs[i].y);
    EXPECT_EQ(step.accumulated(), (i + 1) % 3);
  }
  expect_same(graphed->parameters(), eager->parameters());
}

}  // namespace
}  // namespace reprise::libtorch::test
