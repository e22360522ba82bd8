// SPDX-License-Identifier: Apache-2.0
#include <c10/core/InferenceMode.h>

#include <optional>

#include "tests/libtorch/graphed/graphed_fixture.h"

// Graphed callables that are made or called in inference mode.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

// The modes of libtorch that record no history.
class WithoutHistory {
 public:
  explicit WithoutHistory(bool inference) {
    if (inference)
      inference_.emplace();
    else
      no_grad_.emplace();
  }

 private:
  std::optional<c10::InferenceMode> inference_;
  std::optional<torch::NoGradGuard> no_grad_;
};

TEST_F(GraphedCallables, GiveWhatEagerGivesInAndOutsideOfInferenceMode) {
  auto layer = linear(4, 2);
  for (const Outputs outputs : {Outputs::alias, Outputs::copy})
    for (const bool made_inside : {true, false}) {
      GraphedCallableOptions options;
      options.outputs = outputs;
      const auto graphed = [&] {
        const WithoutHistory mode(made_inside);
        return make_graphed_callables(layer, random({3, 4}), options);
      }();
      for (const bool called_inside : {true, false, true}) {
        const WithoutHistory mode(called_inside);
        const Tensor x = random({3, 4}), y = graphed(x);
        EXPECT_TRUE(same(y, layer->forward(x)));
        EXPECT_EQ(y.is_inference(), called_inside);
      }
    }
}

TEST_F(GraphedCallables, MadeInInferenceModeRefuseToGiveGradients) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  const auto graphed = [&] {
    const c10::InferenceMode inference;
    const torch::AutoGradMode records_nothing_there(true);
    return make_graphed_callables(layer, needing_gradient({3, 4}));
  }();
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("captured while grad mode was off, or in inference mode"));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
}

TEST_F(GraphedCallables, MadeWithGradientsGiveThemAfterCallsInInferenceMode) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, random({3, 4}));
  {
    const c10::InferenceMode inference;
    const torch::AutoGradMode records_nothing_here(true);
    EXPECT_FALSE(graphed(random({3, 4})).requires_grad());
  }
  const Tensor x = random({3, 4});
  graphed(x).sum().backward();
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4})));
}

TEST_F(GraphedCallables, TakeArgumentsThatWereMadeInInferenceMode) {
  auto layer = linear(4, 2);
  const auto graphed = make_graphed_callables(layer, random({3, 4}));
  const Tensor x = [&] {
    const c10::InferenceMode inference;
    return random({3, 4});
  }();
  graphed(x).sum().backward();
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4})));
}

TEST_F(GraphedCallables, WriteChangedArgumentsBackInInferenceMode) {
  const c10::InferenceMode inference;
  const auto f = [](const Tensor& x, Tensor& count) {
    count.view({1}) += 1;
    return x * count;
  };
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), torch::zeros({}, device_)));
  const Tensor x = random({3}), count = torch::full({}, 5.F, torch::TensorOptions(device_));
  EXPECT_TRUE(same(graphed(x, count), x * 6));
  EXPECT_TRUE(same(graphed(x, count), x * 7));
  EXPECT_EQ(count.item<float>(), 7);
  const auto [static_x, static_count] = graphed.static_arguments();
  static_count.fill_(1);
  EXPECT_TRUE(same(graphed(x, static_count), x * 2));
  EXPECT_EQ(static_count.item<float>(), 2);
}

TEST_F(GraphedCallables, RefuseToChangeInferenceTensorsOutsideOfTheirMode) {
  const auto graphed =
      make_graphed_callables([](Tensor& count) { return (count += 1) * 1; }, torch::zeros({}, device_));
  Tensor count = [&] {
    const c10::InferenceMode inference;
    return torch::zeros({}, device_);
  }();
  EXPECT_THAT(refusal([&] { graphed(count); }),
              HasSubstr("argument 0 is changed in place, and is an inference tensor"));
  EXPECT_EQ(count.item<float>(), 0);
  const c10::InferenceMode inference;
  EXPECT_EQ(graphed(count).item<float>(), 1);
  EXPECT_EQ(count.item<float>(), 1);
}

// Counts its runs in a buffer.
struct CountingImpl : torch::nn::Module {
  explicit CountingImpl(const Tensor& start) : count(register_buffer("count", start)) {}
  Tensor forward(const Tensor& x) {
    if (is_training()) count += 1;
    return x * count;
  }
  Tensor count;
};
TORCH_MODULE(Counting);

TEST_F(GraphedCallables, RestoreBuffersThatWereMadeInInferenceMode) {
  for (const bool training : {true, false}) {
    Counting counting = [&] {
      const c10::InferenceMode inference;
      return Counting(torch::full({}, 2.F, torch::TensorOptions(device_)));
    }();
    counting->train(training);
    const WithoutHistory mode(/*inference=*/training);  // only there can they be changed
    const Tensor x = random({3});
    const auto graphed = make_graphed_callables(counting, x);
    EXPECT_EQ(counting->count.item<float>(), 2);
    EXPECT_TRUE(same(graphed(x), x * (training ? 3 : 2)));
    EXPECT_TRUE(same(graphed(x), x * (training ? 4 : 2)));
  }
}

}  // namespace
}  // namespace reprise::libtorch::test
