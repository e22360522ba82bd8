// SPDX-License-Identifier: Apache-2.0
#include "tests/libtorch/graphed/graphed_module_fixture.h"

// GraphedModule: a graphed callable as a torch::nn::Module.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(GraphedModules, AreCalledAsTheOriginal) {
  auto original = block(4);
  original->eval();
  GraphedModule<Block> graphed(original, random({3, 4}));
  static_assert(std::is_same_v<decltype(graphed)::Impl, GraphedModuleImpl<BlockImpl, Tensor(const Tensor&)>>);
  const Tensor x = random({3, 4}), expected = original->forward(x);
  EXPECT_TRUE(same(graphed(x), expected));
  EXPECT_TRUE(same(graphed->forward(x), expected));
  EXPECT_TRUE(same(torch::nn::AnyModule(graphed).forward(x), expected));
  EXPECT_TRUE(same(torch::nn::Sequential(graphed)->forward(x), expected));
  EXPECT_EQ(graphed->original(), original.ptr());
  EXPECT_THAT(refusal([&] { graphed(random({5, 4})); }), HasSubstr("argument 0: expected Float [3, 4]"));
}

TEST_F(GraphedModules, AreMadeOfAllKindsOfModules) {
  const Tensor x = random({3, 4});
  auto layer = linear(4, 4);
  EXPECT_TRUE(same(GraphedModule(layer, x)(x), layer->forward(x)));
  EXPECT_TRUE(same(GraphedModule(layer.ptr(), std::tuple(x))(x), layer->forward(x)));
  torch::nn::Sequential both(layer, torch::nn::GELU());
  EXPECT_TRUE(same(GraphedModule(both, x)(x), both->forward(x)));
  EXPECT_THAT(refusal([&] { GraphedModule<Block>(Block(nullptr), x); }), HasSubstr("found an empty pointer"));
}

TEST_F(GraphedModules, HaveTheStateOfTheOriginalUnderTheSameNames) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  const auto state = state_of(*original), found = state_of(*graphed);
  EXPECT_EQ(found.keys(), state.keys());
  for (const auto& each : found) EXPECT_TRUE(each.value().is_same(state[each.key()])) << each.key();
  EXPECT_EQ(graphed->named_children().keys(), original->named_children().keys());
  original->scale.set_requires_grad(false);
  const GraphedModule<Block> frozen(original, random({3, 4}));
  EXPECT_FALSE(frozen->named_parameters()["scale"].requires_grad());
}

TEST_F(GraphedModules, AreVisitedAsTheOriginal) {
  GraphedModule<Block> graphed(block(4), random({3, 4}));
  std::vector<std::string> names;
  graphed->apply([&](const std::string& name, torch::nn::Module&) { names.push_back(name); });
  EXPECT_THAT(names, ElementsAre("", "first", "norm", "drop"));
  EXPECT_THAT(graphed->name(), HasSubstr("GraphedModule<reprise::libtorch::test::BlockImpl>"));
}

TEST_F(GraphedModules, ClearGradientsAsTheOriginal) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  graphed(random({3, 4})).sum().backward();
  graphed->zero_grad(/*set_to_none=*/false);
  EXPECT_TRUE(same(original->scale.grad(), torch::zeros({4})));
  graphed->zero_grad();
  EXPECT_FALSE(original->scale.grad().defined());
  EXPECT_FALSE(original->first->weight.grad().defined());
}

TEST_F(GraphedModules, RunTheOriginalInAModeWithoutACapture) {
  auto original = block(4, 0.5);
  torch::nn::Sequential network(GraphedModule(original, random({3, 4})));
  EXPECT_TRUE(network->is_training());
  network->eval();
  EXPECT_FALSE(original->is_training());
  EXPECT_FALSE(original->drop->is_training());
  EXPECT_FALSE(network[0]->is_training());
  const Tensor x = random({7, 4});
  EXPECT_TRUE(same(network->forward(x), original->forward(x))) << "of any size";
}

TEST_F(GraphedModules, SwitchBetweenTheCapturesOfBothModes) {
  auto original = block(4, 0.5), eager = block(4, 0.5);
  load(eager, saved(original));
  GraphedModule<Block> graphed(original, random({3, 4}));
  graphed->eval();
  EXPECT_THAT(refusal([&] { static_cast<void>(graphed->callable()); }),
              AllOf(HasSubstr("BlockImpl>::callable: the module is in evaluation mode"), HasSubstr("call capture()")));
  graphed->capture(random({5, 4}));
  int replays = 0;
  const auto count = [&] {
    graphed->callable().forward_graph().add_hooks({.before_replay = [&](const StreamRef&) { ++replays; }});
  };
  count();
  graphed->train();
  count();
  for (int i = 1; i <= 4; ++i) {
    const bool training = i % 2 == 1;
    graphed->train(training);
    eager->train(training);
    const Tensor x = random({training ? 3 : 5, 4});
    torch::manual_seed(i);
    const Tensor expected = eager->forward(x);
    torch::manual_seed(i);
    EXPECT_TRUE(same(graphed(x), expected));
    EXPECT_EQ(replays, i);
  }
}

TEST_F(GraphedModules, ReplaceTheCaptureOfAMode) {
  auto original = block(4);
  original->eval();
  GraphedModule<Block> graphed(original, random({3, 4}));
  const auto* const first = &graphed->callable().forward_graph();
  EXPECT_THAT(refusal([&] { graphed->capture(torch::rand({3, 4})); }), HasSubstr("argument 0 is on cpu"));
  EXPECT_EQ(&graphed->callable().forward_graph(), first) << "what failed replaces nothing";
  graphed->capture(random({5, 4}));
  const Tensor x = random({5, 4});
  EXPECT_TRUE(same(graphed(x), original->forward(x)));
  EXPECT_THAT(refusal([&] { graphed(random({3, 4})); }), HasSubstr("expected Float [5, 4]"));
}

TEST_F(GraphedModules, StayWhereThereIsNothingToConvert) {
  auto original = block(4);
  original->eval();
  torch::nn::Sequential network(linear(4, 4), GraphedModule(original, random({3, 4})));
  const void* const memory = original->scale.const_data_ptr();
  network->to(device_);
  network->to(torch::Device(device_.type())) /* the current one */;
  EXPECT_EQ(original->scale.const_data_ptr(), memory);
  const Tensor x = random({3, 4});
  EXPECT_TRUE(same(network[1]->as<GraphedModule<Block>>()->forward(x), original->forward(x)));
}

TEST_F(GraphedModules, NameWhatAConversionHasMoved) {
  auto original = block(4);
  GraphedModule<Block> graphed(original, random({3, 4}));
  graphed->to(torch::kCPU);
  EXPECT_THAT(refusal([&] { graphed(random({3, 4})); }), HasSubstr(on_device("scale was moved from reprise:0 to cpu")));
  GraphedModule<Block> converted(block(4), random({3, 4}));
  converted->to(torch::kDouble);
  EXPECT_THAT(refusal([&] { converted(random({3, 4})); }), HasSubstr("scale is of type Double now"));
}

TEST_F(GraphedModules, RefuseToBeCloned) {
  struct ParentImpl : torch::nn::Cloneable<ParentImpl> {
    explicit ParentImpl(GraphedModule<Block> part) : part_(std::move(part)) { reset(); }
    void reset() override { register_module("part", part_); }
    GraphedModule<Block> part_;
  };
  GraphedModule<Block> graphed(block(4), random({3, 4}));
  const auto refused = AllOf(HasSubstr("BlockImpl> cannot be cloned: its graphs use the memory of the original"),
                             HasSubstr("original()->clone()"));
  EXPECT_THAT(refusal([&] { graphed->clone(); }), refused);
  EXPECT_THAT(refusal([&] { torch::nn::Sequential(graphed)->clone(); }), refused);
  EXPECT_THAT(refusal([&] { ParentImpl(graphed).clone(); }), refused);
}

}  // namespace
}  // namespace reprise::libtorch::test
