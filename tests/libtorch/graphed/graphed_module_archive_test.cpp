// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/graphed/graphed_module_fixture.h"

// Archives of GraphedModule: saved, loaded and exchanged with those of the original; and training.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Where the values of parameters and buffers are.
std::vector<const void*> memory_of(const torch::nn::Module& module) {
  std::vector<const void*> memory;
  for (const auto& tensors : {module.parameters(), module.buffers()})
    for (const Tensor& each : tensors) memory.push_back(each.const_data_ptr());
  return memory;
}

TEST_F(GraphedModules, TrainAsEagerAndExchangeArchivesWithTheOriginal) {
  using torch::nn::Linear;
  const auto plain = [&] {
    torch::nn::Sequential made(Linear(6, 8), Block(8, 0.2), torch::nn::GELU(), Linear(8, 2));
    made->to(device_);
    return made;
  };
  const auto with_graph = [&] {
    const auto parts = plain();
    return torch::nn::Sequential(parts->ptr<torch::nn::LinearImpl>(0),
                                 GraphedModule(parts->ptr<BlockImpl>(1), needing_gradient({5, 8})), torch::nn::GELU(),
                                 parts->ptr<torch::nn::LinearImpl>(3));
  };
  auto eager = plain(), graphed = with_graph();
  load(graphed, saved(eager));
  const auto train = [&](torch::nn::Sequential& network) {
    torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    torch::manual_seed(7);
    std::vector<Tensor> losses;
    for (int i = 0; i < 20; ++i) {
      const Tensor x = random({5, 6});
      optimizer.zero_grad();
      losses.push_back(torch::mse_loss(network->forward(x), x.slice(1, 0, 2)));
      losses.back().backward();
      optimizer.step();
    }
    return losses;
  };
  const auto expected = train(eager), found = train(graphed);
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(same(found[i], expected[i])) << "loss of step " << i;
  EXPECT_FALSE(same(found.front(), found.back())) << "nothing was trained";
  expect_same_state(*graphed, *eager);

  auto loaded = plain(), loaded_graphed = with_graph();
  const auto memory = memory_of(*loaded_graphed[1]);
  load(loaded, saved(graphed));
  load(loaded_graphed, saved(graphed));
  expect_same_state(*loaded, *eager);
  expect_same_state(*loaded_graphed, *eager);
  EXPECT_EQ(memory_of(*loaded_graphed[1]), memory);
  EXPECT_EQ(saved(graphed).size(), saved(eager).size());
  const auto again = train(eager);
  for (auto* const each : {&loaded, &loaded_graphed}) {
    const auto losses = train(*each);
    for (std::size_t i = 0; i < again.size(); ++i) ASSERT_TRUE(same(losses[i], again[i])) << "loss of step " << i;
  }
}

TEST_F(GraphedModules, LoadIntoTheMemoryOfTheirGraphs) {
  auto original = block(4), other = block(4);
  original->eval();
  GraphedModule<Block> graphed(original, random({3, 4}));
  other->eval();
  const Tensor x = random({3, 4}), expected = other->forward(x);
  const auto memory = memory_of(*graphed);
  const auto version = original->scale._version();
  ASSERT_FALSE(same(graphed(x), expected));
  load(graphed, saved(other));
  EXPECT_TRUE(same(graphed(x), expected));
  EXPECT_EQ(memory_of(*graphed), memory);
  EXPECT_GT(original->scale._version(), version) << "autograd must know";
  EXPECT_TRUE(original->scale.requires_grad());
  EXPECT_TRUE(original->scale.is_leaf());
}

TEST_F(GraphedModules, LoadArchivesOfOtherDevicesAndTypes) {
  for (const bool other_type : {false, true}) {
    auto original = block(4);
    Block other(4);
    original->eval();
    if (other_type) other->to(torch::kDouble);
    GraphedModule<Block> graphed(original, random({3, 4}));
    load(graphed, saved(other));
    for (const auto& each : state_of(*graphed)) {
      EXPECT_EQ(each.value().device(), device_) << each.key();
      EXPECT_TRUE(same(each.value(), state_of(*other)[each.key()].to(each.value().scalar_type()))) << each.key();
    }
    const Tensor x = random({3, 4});
    EXPECT_TRUE(same(graphed(x), original->forward(x)));
  }
}

TEST_F(GraphedModules, LoadArchivesOfOtherTypesOnTheirDevice) {
  auto original = block(4), other = block(4);
  other->first->to(torch::kDouble);
  GraphedModule<Block> graphed(original, random({3, 4}));
  const auto memory = memory_of(*graphed);
  load(graphed, saved(other));
  EXPECT_EQ(memory_of(*graphed), memory);
  EXPECT_TRUE(same(original->first->weight, other->first->weight.to(torch::kFloat)));
}

TEST_F(GraphedModules, RefuseArchivesOfOtherSizesAndKeepTheirValues) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  const std::string before = saved(original);
  const auto memory = memory_of(*graphed);
  EXPECT_THAT(
      refusal([&] { load(graphed, saved(block(6))); }),
      AllOf(HasSubstr("GraphedModule::load: the archive has tensors of other sizes"),
            HasSubstr("scale: expected [4], found [6]"), HasSubstr("first.weight: expected [4, 4], found [6, 6]"),
            HasSubstr("norm.running_mean: expected [4], found [6]"), Not(HasSubstr("num_batches"))));
  EXPECT_EQ(memory_of(*graphed), memory);
  auto expected = block(4);
  load(expected, before);
  expect_same_state(*original, *expected);
  EXPECT_TRUE(graphed(random({3, 4})).defined());
}

TEST_F(GraphedModules, KeepTheirValuesWhenAnArchiveLacksSome) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  const std::string before = saved(original);
  const auto memory = memory_of(*graphed);
  torch::serialize::OutputArchive lacking;
  lacking.write("scale", torch::zeros({4}, device_));
  std::ostringstream stream;
  lacking.save_to(stream);
  EXPECT_THROW(load(graphed, stream.str()), c10::Error);
  EXPECT_EQ(memory_of(*graphed), memory);
  auto expected = block(4);
  load(expected, before);
  expect_same_state(*original, *expected);
}

TEST_F(GraphedModules, RefuseBackwardAfterALoad) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  const std::string archive = saved(original);
  const Tensor y = graphed(random({3, 4}));
  load(graphed, archive);
  EXPECT_THAT(refusal([&] { y.sum().backward(); }), HasSubstr("a parameter or buffer"));
}

TEST_F(GraphedModules, NameWhatALoadIntoTheOriginalHasMoved) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  load(original, saved(block(4)));
  EXPECT_THAT(refusal([&] { graphed(random({3, 4})); }), HasSubstr("scale has other memory now"));
  graphed->capture(random({3, 4}));
  EXPECT_TRUE(graphed(random({3, 4})).defined());
}

}  // namespace
}  // namespace reprise::libtorch::test
