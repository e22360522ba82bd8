// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/libtorch/graphed/graphed_fixture.h"
#include "tests/libtorch/support/error_text.h"

// Calls of graphed callables in states and places in which a call is not expected.

namespace reprise::libtorch::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class GraphedMisuse : public GraphedCallables {
 protected:
  static Tensor twice(const Tensor& x) { return x * 2; }

  const Tensor x_ = torch::full({4}, 3.0F, device_);
};

TEST_F(GraphedMisuse, ACallableThatWasMovedFromIsTheSameCallable) {
  auto graphed = make_graphed_callables(&twice, x_);
  auto moved = std::move(graphed);
  for (const auto* const each : {&graphed, &moved}) {  // NOLINT(bugprone-use-after-move)
    EXPECT_TRUE(same((*each)(x_), x_ * 2));
    EXPECT_TRUE(same(std::get<0>(each->static_arguments()), x_));
  }
  EXPECT_EQ(&graphed.forward_graph(), &moved.forward_graph());
}

TEST_F(GraphedMisuse, CallsInACaptureAreRefusedAndTheCaptureGoesOn) {
  const auto graphed = make_graphed_callables(&twice, x_);
  Tensor y = torch::zeros({4}, device_);
  CUDAGraph graph;
  reprise::capture(graph, [&] {
    EXPECT_THAT(refusal([&] { graphed(x_); }), HasSubstr("the stream is being captured"));
    y.add_(1);
  });
  EXPECT_EQ(graph.node_count(), 1U);
  graph.replay();
  EXPECT_TRUE(same(y, torch::ones({4})));
  EXPECT_TRUE(same(graphed(x_), x_ * 2));
}

TEST_F(GraphedMisuse, CallsDuringAnotherCallAreRefusedAndChangeNothing) {
  const auto graphed = make_graphed_callables(&twice, x_);
  const Tensor other = x_ + 5;
  std::vector<std::string> texts;
  const auto call = [&] { texts.push_back(refusal([&] { graphed(other); })); };
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) {
    call();
    std::thread(call).join();
  };
  graphed.forward_graph().add_hooks(hooks);
  EXPECT_TRUE(same(graphed(x_), x_ * 2));
  EXPECT_THAT(texts, SizeIs(2));
  EXPECT_THAT(texts, Each(HasSubstr("another call of it has not returned")));
}

TEST_F(GraphedMisuse, WithinAHookOfAnotherGraphCallablesAreMadeAndCalled) {
  Tensor y = torch::zeros({4}, device_), of_graphed;
  GraphOptions options;
  options.hooks.before_replay = [&](const StreamRef&) { of_graphed = make_graphed_callables(&twice, x_)(x_).clone(); };
  CUDAGraph graph = reprise::capture(options, [&] { y.add_(1); });
  graph.replay();
  EXPECT_TRUE(same(y, torch::ones({4})));
  EXPECT_TRUE(same(of_graphed, x_ * 2));
}

TEST_F(GraphedMisuse, UndefinedParametersAreLeftOutAndEmptyModulesRefused) {
  EXPECT_TRUE(same(make_graphed_callables(with_parameters(&twice, {Tensor()}), x_)(x_), x_ * 2));
  const std::shared_ptr<torch::nn::LinearImpl> none;
  EXPECT_THAT(refusal([&] { make_graphed_callables(with_module(&twice, none), x_); }),
              HasSubstr("expected a module, found an empty pointer"));
  const torch::nn::Linear moved_from(nullptr);
  EXPECT_THAT(error_text([&] { make_graphed_callables(moved_from, x_); }), HasSubstr("empty ModuleHolder"));
  EXPECT_THAT(error_text([&] { static_cast<void>(with_module(&twice, moved_from)); }), HasSubstr("empty ModuleHolder"));
  EXPECT_TRUE(same(make_graphed_callables(with_parameters(&twice, {}), x_)(x_), x_ * 2));
}

TEST_F(GraphedMisuse, OfNoCallablesNoneAreMade) {
  using Function = Tensor (*)(const Tensor&);
  EXPECT_THAT(make_graphed_callables(std::vector<Function>(), std::vector<Tensor>()), IsEmpty());
  EXPECT_THAT(refusal([&] { make_graphed_callables(std::vector<Function>{&twice}, std::vector<Tensor>()); }),
              HasSubstr("expected the samples of 1 callables, found those of 0"));
}

}  // namespace
}  // namespace reprise::libtorch::test
