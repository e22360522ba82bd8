// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "tests/libtorch/host/host_device_fixture.h"
#include "tests/libtorch/support/training.h"

// Modules, their files, generators and modes of libtorch with tensors on the host device.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

TEST_F(OnHostDevice, AModuleMovesThereAndBackWithItsValuesAndParametersStayTheSameObjects) {
  const Network network = make_network("convolutions", 0);
  const auto original = make_network("convolutions", 0);
  std::vector<torch::Tensor> held = network->parameters();
  network->to(device_);
  for (const auto& each : state_of(*network)) EXPECT_EQ(each.value().device(), device_) << each.key();
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(held[i].is_same(network->parameters()[i]));
  const auto expected = state_of(*original);
  for (const auto& each : state_of(*network)) EXPECT_TRUE(same(each.value(), expected[each.key()])) << each.key();

  network->to(device_, torch::kDouble);
  EXPECT_EQ(network->parameters()[0].scalar_type(), torch::kDouble);
  network->to(torch::kCPU, torch::kFloat);
  for (const auto& each : state_of(*network)) {
    EXPECT_TRUE(each.value().is_cpu());
    EXPECT_TRUE(same(each.value(), expected[each.key()])) << each.key();
  }
  EXPECT_TRUE(network->parameters()[0].requires_grad());
}

TEST_F(OnHostDevice, ACloneOfAModuleLivesWhereItIsTold) {
  torch::nn::Linear layer(3, 2);
  const auto clone = std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer->clone(device_));
  EXPECT_EQ(clone->weight.device(), device_);
  EXPECT_TRUE(layer->weight.is_cpu());
  EXPECT_TRUE(same(clone->weight, layer->weight));
}

TEST_F(OnHostDevice, AModuleIsSavedAndLoadedHereAndOnTheCpu) {
  const Network network = make_network("convolutions", 0);
  network->to(device_);
  torch::serialize::OutputArchive saved;
  network->save(saved);
  std::stringstream file;
  saved.save_to(file);

  const auto expected = state_of(*network);
  const auto load = [&](const torch::Device& lives, std::optional<torch::Device> map) {
    const auto loaded = make_network("convolutions", 0);
    for (auto& each : loaded->parameters()) each.data().zero_();
    loaded->to(lives);
    torch::serialize::InputArchive archive;
    file.clear();
    file.seekg(0);
    archive.load_from(file, map);
    loaded->load(archive);
    return loaded;
  };
  for (const torch::Device lives : {torch::Device(torch::kCPU), device_})
    for (const auto map : {std::optional<torch::Device>(), std::optional(torch::Device(torch::kCPU)),
                           std::optional<torch::Device>(device_)}) {
      const auto loaded = load(lives, map);
      for (const auto& each : state_of(*loaded)) EXPECT_TRUE(same(each.value(), expected[each.key()])) << each.key();
    }
  EXPECT_EQ(load(device_, std::nullopt)->parameters()[0].device(), device_);
  EXPECT_EQ(load(device_, device_)->parameters()[0].device(), device_);
}

TEST_F(OnHostDevice, ATensorIsSavedWithItsDeviceAndLoadedWhereItIsTold) {
  const auto values = torch::rand({3, 4});
  std::stringstream file;
  torch::save(std::vector<torch::Tensor>{here(values), here(values).t()}, file);
  std::vector<torch::Tensor> here_again, on_cpu;
  torch::load(here_again, file);
  file.clear();
  file.seekg(0);
  torch::load(on_cpu, file, torch::Device(torch::kCPU));
  EXPECT_EQ(here_again.at(0).device(), device_);
  EXPECT_TRUE(on_cpu.at(1).is_cpu());
  EXPECT_TRUE(same(here_again[0], values));
  EXPECT_TRUE(same(here_again[1], values.t()));
  EXPECT_TRUE(same(on_cpu[1], values.t()));
}

TEST_F(OnHostDevice, TrainingGoesOnWhereASavedOptimizerStopped) {
  const auto batches = make_batches("perceptron", 4);
  for (const char* name : {"SGD with momentum", "Adam", "AdamW", "RMSprop"}) {
    SCOPED_TRACE(name);
    const auto network = make_network("perceptron", 0), other = make_network("perceptron", 0);
    network->to(device_);
    other->to(device_);
    auto optimizer = make_optimizer(name, *network), resumed = make_optimizer(name, *other);
    for (int i = 0; i < 2; ++i) train_step(*network, *optimizer, here(batches[i].input), here(batches[i].target));
    std::stringstream file;
    torch::save(*optimizer, file);
    torch::load(*resumed, file);
    copy_state(*network, *other);
    for (int i = 2; i < 4; ++i) {
      const auto input = here(batches[i].input), target = here(batches[i].target);
      EXPECT_TRUE(same(train_step(*network, *optimizer, input, target), train_step(*other, *resumed, input, target)));
    }
    const auto expected = state_of(*network);
    for (const auto& each : state_of(*other)) EXPECT_TRUE(same(each.value(), expected[each.key()])) << each.key();
  }
}

// --- Random numbers --------------------------------------------------------------------------------------------------

TEST_F(OnHostDevice, TheSeedOfLibtorchReachesTheGeneratorHere) {
  const auto options = torch::TensorOptions().device(device_);
  torch::manual_seed(42);
  const auto a = torch::rand({16}, options), b = torch::rand({16}, options);
  EXPECT_FALSE(same(a, b));
  torch::manual_seed(42);
  EXPECT_TRUE(same(torch::rand({16}, options), a));
  EXPECT_TRUE(same(torch::rand({16}, options), b));
  EXPECT_EQ(default_generator(Device::parse("host")).current_seed(), 42U);
}

TEST_F(OnHostDevice, TheStateOfAGeneratorIsSavedAndRestored) {
  at::Generator generator = at::globalContext().defaultGenerator(device_);
  const auto options = torch::TensorOptions().device(device_);
  torch::rand({3}, options);
  const torch::Tensor state = generator.get_state();
  const auto expected = torch::randn({16}, options);
  generator.set_state(state);
  EXPECT_TRUE(same(torch::randn({16}, options), expected));
  EXPECT_THROW(generator.set_state(torch::zeros({3}, torch::kByte)), c10::Error);
  EXPECT_TRUE(generator.device() == device_);
}

TEST_F(OnHostDevice, AGeneratorThatIsGivenToAnOperatorIsTheOneThatItDrawsFrom) {
  const at::Generator& standard = at::globalContext().defaultGenerator(device_);
  at::Generator given = at::detail::getPrivateUse1Hooks().getNewGenerator(0);
  given.set_current_seed(8);
  const auto before = standard.get_offset();
  const auto first = torch::empty({16}, device_).uniform_(0, 1, given);
  const auto second = torch::rand({16}, given, torch::TensorOptions().device(device_));
  EXPECT_EQ(standard.get_offset(), before);
  EXPECT_GT(given.get_offset(), 0U);
  given.set_current_seed(8);
  EXPECT_TRUE(same(torch::empty({16}, device_).uniform_(0, 1, given), first));
  at::Generator clone = given.clone();
  EXPECT_TRUE(same(torch::rand({16}, clone, torch::TensorOptions().device(device_)), second));
  EXPECT_TRUE(same(torch::rand({16}, given, torch::TensorOptions().device(device_)), second))
      << "the clone has an offset of its own";
  at::Generator of_the_cpu = at::globalContext().defaultGenerator(torch::Device(torch::kCPU));
  EXPECT_THROW(torch::empty({4}, device_).normal_(0, 1, of_the_cpu), c10::Error);
}

TEST_F(OnHostDevice, AGraphDrawsFromARegisteredGeneratorAnewInEachReplay) {
  at::Generator given = at::detail::getPrivateUse1Hooks().getNewGenerator(0);
  given.set_current_seed(8);
  const auto expected =
      std::vector{torch::empty({8}, device_).normal_(0, 1, given), torch::empty({8}, device_).normal_(0, 1, given)};
  given.set_current_seed(8);
  CUDAGraph graph;
  register_generator_state(graph, given);
  torch::Tensor x = torch::empty({8}, device_);
  capture(graph, [&] { x.normal_(0, 1, given); });
  for (const auto& each : expected) {
    graph.replay();
    EXPECT_TRUE(same(x, each));
  }
}

// --- Modes -----------------------------------------------------------------------------------------------------------

TEST_F(OnHostDevice, InferenceModeMakesTensorsWithoutHistoryAlsoInACapture) {
  torch::nn::Linear layer(4, 3);
  layer->to(device_);
  const auto x = torch::rand({2, 4}, device_);
  const auto expected = layer->forward(x).detach();
  CUDAGraph graph;
  torch::Tensor y;
  {
    const c10::InferenceMode mode;
    y = layer->forward(x);
    EXPECT_TRUE(y.is_inference());
    y.mul_(2).view({6}).add_(1);
    EXPECT_TRUE(same(y, expected * 2 + 1));
    capture(graph, [&] { y = layer->forward(x).t().contiguous(); });
  }
  EXPECT_FALSE(y.requires_grad());
  x.mul_(3);
  graph.replay();
  EXPECT_TRUE(same(y, layer->forward(x).detach().t().contiguous()));
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(layer->forward(x).requires_grad());
    layer->weight.zero_();
  }
  EXPECT_TRUE(layer->forward(x).requires_grad());
  EXPECT_TRUE(same(layer->forward(x).detach()[0], layer->bias.detach()));
}

TEST_F(OnHostDevice, HistoryAndVersionsAreCheckedAsOnTheCpu) {
  auto x = torch::rand({4}, device_).requires_grad_();
  auto y = x * x;
  const auto z = y.exp();
  y.detach().zero_();
  z.detach().zero_();
  EXPECT_THROW(z.sum().backward(), c10::Error) << "exp() keeps its result, which was changed";
  EXPECT_THROW(x.add_(1), c10::Error) << "a leaf that wants a gradient";
  auto w = torch::rand({2, 3}, device_);
  auto leaf = torch::ones({3}, device_).requires_grad_();
  w.select(0, 1).copy_(leaf * 2);
  w.sum().backward();
  EXPECT_TRUE(same(leaf.grad(), torch::full({3}, 2.0F)));
}

// --- Losses ----------------------------------------------------------------------------------------------------------

class Losses : public OnHostDevice {
 protected:
  // Value and gradients of a loss, on the CPU, eagerly here, and replayed with the values put in after the capture. Of
  // the values, the first `with_gradient` want one if they are no integers.
  void check(const char* name, const std::function<torch::Tensor(const std::vector<torch::Tensor>&)>& loss,
             const std::vector<torch::Tensor>& values, std::size_t with_gradient = 3) {
    SCOPED_TRACE(name);
    const auto run = [&](const std::vector<torch::Tensor>& inputs) {
      std::vector<torch::Tensor> leaves;
      for (const auto& each : inputs)
        if (each.requires_grad()) leaves.push_back(each);
      const torch::Tensor value = loss(inputs);
      auto results = torch::autograd::grad({value.sum()}, leaves);
      results.push_back(value.detach());
      return results;
    };
    const auto on = [&](const torch::Device& device, bool blank) {
      std::vector<torch::Tensor> made;
      for (const auto& each : values) {
        const bool wanted = each.is_floating_point() && made.size() < with_gradient;
        auto copy = (blank && each.is_floating_point() ? torch::full_like(each, 0.5) : each.clone()).to(device);
        made.push_back(copy.requires_grad_(wanted));
      }
      return made;
    };
    const auto expected = run(on(torch::kCPU, false)), eager = run(on(device_, false));
    const auto inputs = on(device_, true);
    CUDAGraph graph;
    std::vector<torch::Tensor> graphed;
    capture(graph, [&] { graphed = run(inputs); });
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].detach().copy_(values[i]);
    graph.replay();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(torch::allclose(eager[i].cpu(), expected[i], 1e-5, 1e-6)) << i;
      EXPECT_TRUE(same(graphed[i], eager[i])) << i;
    }
  }
};

TEST_F(Losses, OfRegressionEqualTheCpusAndTheirGraphs) {
  namespace nn = torch::nn;
  const auto a = torch::rand({4, 5}), b = torch::rand({4, 5}), c = torch::rand({4, 5});
  const auto of_two = [](auto module) { return [module](const auto& in) mutable { return module(in[0], in[1]); }; };
  check("L1Loss", of_two(nn::L1Loss()), {a, b});
  check("MSELoss", of_two(nn::MSELoss()), {a, b});
  check("SmoothL1Loss", of_two(nn::SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.3))), {a, b});
  check("HuberLoss", of_two(nn::HuberLoss(nn::HuberLossOptions().reduction(torch::kSum).delta(0.2))), {a, b});
  check("KLDivLoss", of_two(nn::KLDivLoss(nn::KLDivLossOptions().reduction(torch::kBatchMean))), {a.log(), b});
  check("PoissonNLLLoss", of_two(nn::PoissonNLLLoss()), {a, b});
  check("BCELoss", of_two(nn::BCELoss()), {a * 0.9 + 0.05, b * 0.9 + 0.05});
  check("BCEWithLogitsLoss", of_two(nn::BCEWithLogitsLoss()), {a, b});
  check("TripletMarginLoss", [](const auto& in) { return nn::TripletMarginLoss()(in[0], in[1], in[2]); }, {a, b, c});
  check("TripletMarginWithDistanceLoss",
        [](const auto& in) { return nn::TripletMarginWithDistanceLoss()(in[0], in[1], in[2]); }, {a, b, c});
}

TEST_F(Losses, OfClassesEqualTheCpusAndTheirGraphs) {
  namespace nn = torch::nn;
  const auto a = torch::rand({4, 5}), b = torch::rand({4, 5});
  const auto classes = torch::tensor({1, 0, 4, 2}, torch::kLong);
  const auto signs = torch::tensor({1, -1, 1, -1}, torch::kLong);
  const auto many = torch::tensor({{1, 0, 1, 0, 0}, {0, 0, 1, 1, 0}, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 1}}, torch::kLong);
  const auto of_two = [](auto module) { return [module](const auto& in) mutable { return module(in[0], in[1]); }; };
  check("NLLLoss", of_two(nn::NLLLoss()), {a.log_softmax(1), classes});
  check("NLLLoss of pictures", of_two(nn::NLLLoss()),
        {torch::rand({2, 5, 2, 2}), classes.view({2, 2, 1}).repeat({1, 1, 2})});
  check("CrossEntropyLoss", of_two(nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1))),
        {a, classes});
  check("CrossEntropyLoss of probabilities", of_two(nn::CrossEntropyLoss()), {a, b.softmax(1)});
  check("MultiMarginLoss", of_two(nn::MultiMarginLoss()), {a, classes});
  check("MultiLabelMarginLoss", of_two(nn::MultiLabelMarginLoss()), {a, many});
  check("MultiLabelSoftMarginLoss", of_two(nn::MultiLabelSoftMarginLoss()), {a, many});
  check("SoftMarginLoss", of_two(nn::SoftMarginLoss()), {a[0].slice(0, 0, 4), signs.to(torch::kFloat)}, 1);
  check("HingeEmbeddingLoss", of_two(nn::HingeEmbeddingLoss()), {a[0].slice(0, 0, 4), signs});
  check("CosineEmbeddingLoss", [](const auto& in) { return nn::CosineEmbeddingLoss()(in[0], in[1], in[2]); },
        {a, b, signs});
  check("MarginRankingLoss", [](const auto& in) { return nn::MarginRankingLoss()(in[0], in[1], in[2]); },
        {a[0].slice(0, 0, 4), b[0].slice(0, 0, 4), signs});
}

// The loops run over lengths that the host knows, which CUDA's kernels get in copies that wait: no graph there either.
TEST_F(OnHostDevice, TheLossOfConnectionistTemporalClassificationEqualsTheCpus) {
  const auto values = torch::rand({6, 2, 5}).log_softmax(2);
  const auto targets = torch::tensor({{1, 2, 2}, {3, 1, 4}}, torch::kLong);
  const auto results = [&](const torch::Device& device) {
    const auto x = values.to(device).clone().requires_grad_();
    const auto loss = torch::nn::CTCLoss()(x, targets.to(device), torch::full({2}, 6, torch::kLong),
                                           torch::full({2}, 3, torch::kLong));
    return std::pair(loss.detach().cpu(), torch::autograd::grad({loss}, {x})[0].cpu());
  };
  const auto expected = results(torch::kCPU), found = results(device_);
  EXPECT_TRUE(torch::allclose(found.first, expected.first));
  EXPECT_TRUE(torch::allclose(found.second, expected.second));
}

}  // namespace
}  // namespace reprise::libtorch::test
