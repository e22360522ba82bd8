// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "tests/libtorch/graphed/graphed_fixture.h"
#include "tests/support/test_file.h"

// The graphs of graphed callables: forward_graph() and backward_graph().

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool uses(const CUDAGraph& graph, const Tensor& tensor) {
  const auto inputs = graph.inputs();
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  return std::any_of(inputs.begin(), inputs.end(), [&](const GraphInput& each) {
    const auto begin = reinterpret_cast<std::uintptr_t>(each.address);
    return begin <= address && address < begin + each.bytes;
  });
}

TEST_F(GraphedCallables, ShowTheirGraphs) {
  auto layer = linear(4, 2);
  GraphedCallableOptions options;
  options.check_input_liveness = true;
  const auto graphed = make_graphed_callables(layer, random({3, 4}), options);
  const CUDAGraph &forward = graphed.forward_graph(), &backward = graphed.backward_graph();
  EXPECT_NE(&forward, &backward);
  EXPECT_GT(forward.node_count(), 0U);
  EXPECT_GT(backward.node_count(), 0U);
  EXPECT_EQ(forward.pool(), backward.pool());
  EXPECT_EQ(forward.device(), here_);
  EXPECT_TRUE(uses(forward, layer->weight));
  const reprise::test::TestFile file;
  forward.debug_dump(file.path());
  EXPECT_GT(std::filesystem::file_size(file.path()), 0U);
}

TEST_F(GraphedCallables, RunHooksOfTheirGraphs) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  int forwards = 0, backwards = 0;
  const HookId id = graphed.forward_graph().add_hooks({.before_replay = [&](const StreamRef&) { ++forwards; }});
  graphed.backward_graph().add_hooks({.before_replay = [&](const StreamRef&) { ++backwards; }});
  const Tensor y = graphed(x);
  EXPECT_EQ(forwards, 1);
  EXPECT_EQ(backwards, 0);
  y.sum().backward();
  EXPECT_EQ(backwards, 1);
  layer->eval();
  static_cast<void>(graphed(x));
  EXPECT_EQ(forwards, 1) << "in the other mode there is no replay";
  layer->train();
  graphed.forward_graph().remove_hooks(id);
  static_cast<void>(graphed(x));
  EXPECT_EQ(forwards, 1);
}

TEST_F(GraphedCallables, GoOnAfterAHookThatRefusedAReplay) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  const HookId id = graphed.forward_graph().add_hooks(
      {.before_replay = [](const StreamRef&) { throw std::runtime_error("not now"); }});
  EXPECT_THROW(graphed(x), std::runtime_error);
  graphed.forward_graph().remove_hooks(id);
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
}

// What a hook throws after a launch does not undo it.
GraphHooks throwing_after_the_launch() {
  return {.after_replay = [](auto&&...) { throw std::runtime_error("of the hook"); }};
}

TEST_F(GraphedCallables, ChangeTheirArgumentsAlsoWhereAHookThrowsAfterTheLaunch) {
  const auto graphed =
      make_graphed_callables([](Tensor& count) { return (count += 1) * 1; }, torch::zeros({2}, device_));
  const Tensor count = torch::full({2}, 5.F, torch::TensorOptions(device_));
  const HookId id = graphed.forward_graph().add_hooks(throwing_after_the_launch());
  Tensor argument = count;
  EXPECT_THROW(static_cast<void>(graphed(argument)), std::runtime_error);
  EXPECT_EQ(count[0].item<float>(), 6);
  graphed.forward_graph().remove_hooks(id);
  EXPECT_EQ(graphed(argument)[0].item<float>(), 7);
}

// The argument lies in the memory of another static one, and is copied first.
TEST_F(GraphedCallables, ForgetTheCopyOfAnArgumentOfACallThatFailed) {
  const auto f = [](const Tensor& a, const Tensor& b) { return a * 1 + b * 100; };
  const auto graphed = make_graphed_callables(f, std::tuple(random({4}), random({4})));
  const auto [a, b] = graphed.static_arguments();
  a.fill_(1);
  b.fill_(2);
  const HookId id = graphed.forward_graph().add_hooks(
      {.before_replay = [](const StreamRef&) { throw std::runtime_error("not now"); }});
  EXPECT_THROW(static_cast<void>(graphed(b, a)), std::runtime_error);
  graphed.forward_graph().remove_hooks(id);
  const Tensor x = torch::full({4}, 5.F, torch::TensorOptions(device_)), y = x * 2;
  EXPECT_TRUE(same(graphed(x, y), f(x, y)));
}

TEST_F(GraphedCallables, RetainObjectsWithTheirGraphs) {
  const auto before = memory_of_tensors();
  std::optional graphed(make_graphed_callables([](const Tensor& x) { return x * 2; }, random({3})));
  auto object = std::make_shared<Tensor>(random({1 << 20}));
  const std::weak_ptr<Tensor> seen = object;
  graphed->forward_graph().retain(std::exchange(object, nullptr));
  static_cast<void>((*graphed)(random({3})));
  EXPECT_FALSE(seen.expired());
  graphed.reset();
  EXPECT_TRUE(all_released(before));
  EXPECT_TRUE(seen.expired());
}

TEST_F(GraphedCallables, RefuseReplaysAndTheResetOfTheirGraphs) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  const auto belongs = HasSubstr("the graph belongs to graphed callable 0 (torch::nn::LinearImpl)");
  for (CUDAGraph* const each : {&graphed.forward_graph(), &graphed.backward_graph()}) {
    EXPECT_THAT(refusal([&] { each->replay(); }), AllOf(HasSubstr("CUDAGraph::replay"), belongs));
    EXPECT_THAT(refusal([&] { each->replay(stream_); }), belongs);
    EXPECT_THAT(refusal([&] { static_cast<void>(time_replay(*each)); }), AllOf(HasSubstr("time_replay"), belongs));
    EXPECT_THAT(refusal([&] { each->reset(); }), AllOf(HasSubstr("CUDAGraph::reset"), belongs));
    EXPECT_NE(refusal([&] { each->capture_begin(); }), "");
  }
  graphed(x).sum().backward();
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4})));
}

TEST_F(GraphedCallables, HaveTimesOfACall) {
  auto layer = linear(4, 2);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  ReplayTimer forward(graphed.forward_graph()), backward(graphed.backward_graph());
  const Tensor loss = graphed(x).sum();
  const ReplayTiming of_forward = forward.take();
  EXPECT_EQ(of_forward.nodes.size(), graphed.forward_graph().node_count());
  EXPECT_THAT(refusal([&] { static_cast<void>(backward.take()); }), HasSubstr("expected a replay of the graph"));
  loss.backward();
  EXPECT_EQ(backward.take().nodes.size(), graphed.backward_graph().node_count());
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({2, 4})));
}

TEST_F(GraphedCallables, WithoutABackwardSayWhyThereIsNoGraphOfIt) {
  const auto doubled = [](const Tensor& x) { return x * 2; };
  EXPECT_THAT(refusal([&] { make_graphed_callables(doubled, random({3})).backward_graph(); }),
              AllOf(HasSubstr("graphed callable 0 (a function) has no backward graph: no result needs a gradient"),
                    HasSubstr("with an argument or parameter that needs one")));
  const torch::NoGradGuard no_grad;
  EXPECT_THAT(refusal([&] { make_graphed_callables(doubled, needing_gradient({3})).backward_graph(); }),
              AllOf(HasSubstr("it was captured while grad mode was off"), HasSubstr("Make it again in grad mode")));
}

}  // namespace
}  // namespace reprise::libtorch::test
