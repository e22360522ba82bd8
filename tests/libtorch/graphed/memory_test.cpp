// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "backend/host_work.h"
#include "inspect/annotations/annotation_text.h"
#include "reprise/libtorch/host_device.h"
#include "tests/libtorch/graphed/graphed_fixture.h"
#include "tests/support/by_steps.h"
#include "tests/support/text_of.h"

// Memory of graphed callables: results in it, pools, and its release.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

Tensor twice(const Tensor& x) {
  return x * 2;
}

GraphedCallableOptions copying() {
  GraphedCallableOptions options;
  options.outputs = Outputs::copy;
  return options;
}

TEST_F(GraphedCallables, ReturnResultsInTheGraphsMemory) {
  const auto graphed = make_graphed_callables(&twice, random({3}));
  const Tensor a = graphed(torch::ones({3}, device_)), b = graphed(torch::zeros({3}, device_));
  EXPECT_EQ(a.const_data_ptr(), b.const_data_ptr());
  EXPECT_TRUE(same(a, torch::zeros({3})));
}

TEST_F(GraphedCallables, ReturnCopiesWhenAsked) {
  const auto graphed =
      make_graphed_callables([](const Tensor& x) { return std::tuple(x * 2, (x * 3).to(torch::kDouble).t(), x.sum()); },
                             random({2, 3}), copying());
  const Tensor x = random({2, 3}), y = random({2, 3});
  const auto [a, b, c] = graphed(x);
  static_cast<void>(graphed(y));
  EXPECT_TRUE(same(a, x * 2));
  EXPECT_TRUE(same(b, (x * 3).to(torch::kDouble).t()));
  EXPECT_TRUE(same(c, x.sum()));
}

TEST_F(GraphedCallables, RefuseResultsThatWereOverwritten) {
  const auto graphed = make_graphed_callables(&twice, random({3}));
  const auto other = make_graphed_callables(&twice, random({3}));
  const Tensor x = random({3}), stale = graphed(x);
  const Tensor view = stale.view({3, 1}).squeeze(), detached = stale.detach();
  static_cast<void>(graphed(x));
  for (const Tensor& each : {stale, view, detached})
    EXPECT_THAT(
        refusal([&] { other(each); }),
        HasSubstr("argument 0 is a result of call 1 of callable 0 (a function), and was overwritten by call 2 of "
                  "callable 0 (a function)"));
  EXPECT_THAT(refusal([&] { make_graphed_callables(&twice, stale); }), HasSubstr("which was overwritten by call 2"));
  EXPECT_EQ(refusal([&] { other(graphed(x)); }), "");
}

TEST_F(GraphedCallables, TakeTheirOwnResultsAsArguments) {
  const auto graphed = make_graphed_callables(&twice, random({3}));
  Tensor x = torch::ones({3}, device_);
  for (int i = 0; i < 5; ++i) x = graphed(x);
  EXPECT_TRUE(same(x, torch::full({3}, 32.F)));
}

TEST_F(GraphedCallables, TakeResultsThatWerePassedThroughInOtherPlaces) {
  const auto graphed = make_graphed_callables([](const Tensor& a, const Tensor& b) { return std::tuple(a, b); },
                                              std::tuple(random({2}), random({2})));
  const Tensor one = torch::ones({2}, device_), two = one * 2;
  const auto [a, b] = graphed(one, two);
  const auto [c, d] = graphed(b, a);
  EXPECT_TRUE(same(c, two));
  EXPECT_TRUE(same(d, one));
}

TEST_F(GraphedCallables, RefuseTheBackwardOfAChainThroughOneCallable) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x.pow(2); }, needing_gradient({3}));
  const Tensor x = needing_gradient({3}), y = graphed(graphed(x));
  EXPECT_TRUE(same(y, x.detach().pow(2).pow(2)));
  EXPECT_THAT(refusal([&] { y.sum().backward(); }), HasSubstr("backward of call 1"));
}

// `x` has the gradient of two calls.
template <class F>
void expect_gradient_twice(const F& f, const Tensor& x) {
  const Tensor found = x.grad().clone();
  x.mutable_grad() = Tensor();
  f(x).sum().backward();
  EXPECT_TRUE(torch::allclose(found.cpu(), (x.grad() * 2).cpu()));
}

TEST_F(GraphedCallables, OfOnePoolRefuseBackwardsInTheOrderOfTheForwards) {
  const auto f = [](const Tensor& x) { return x.exp().tanh(); };
  const auto graphed =
      make_graphed_callables(std::vector{f, f}, std::vector<Tensor>{needing_gradient({3}), needing_gradient({3})});
  const Tensor x = needing_gradient({3});
  {
    const Tensor first = graphed[0](x), second = graphed[1](x);
    first.sum().backward();
    EXPECT_THAT(
        refusal([&] { second.sum().backward(); }),
        HasSubstr("backward of call 1 of callable 1 (a function): what it needs was overwritten by a backward of "
                  "callable 0 (a function)"));
  }
  const Tensor first = graphed[0](x), second = graphed[1](x);
  x.mutable_grad() = Tensor();
  second.sum().backward();
  first.sum().backward();
  expect_gradient_twice(f, x);
}

TEST_F(GraphedCallables, OfOnePoolRefuseForwardsInAnotherOrder) {
  const auto f = [](const Tensor& x) { return x.exp().tanh(); };
  const auto graphed =
      make_graphed_callables(std::vector{f, f}, std::vector<Tensor>{needing_gradient({3}), needing_gradient({3})});
  const Tensor x = needing_gradient({3}), second = graphed[1](x), first = graphed[0](x);
  EXPECT_THAT(refusal([&] { second.sum().backward(); }), HasSubstr("overwritten by call 1 of callable 0"));
  first.sum().backward();
}

TEST_F(GraphedCallables, ThatWereMadeOneByOneRunInAnyOrder) {
  const auto f = [](const Tensor& x) { return x.exp().tanh(); };
  const auto a = make_graphed_callables(f, needing_gradient({3})), b = make_graphed_callables(f, needing_gradient({3}));
  const Tensor x = needing_gradient({3}), second = b(x), first = a(x);
  second.sum().backward();
  first.sum().backward();
  expect_gradient_twice(f, x);
}

TEST_F(GraphedCallables, MadeOneByOneInOnePoolKnowOfEachOther) {
  GraphedCallableOptions options;
  options.pool = graph_pool_handle();
  const auto f = [](const Tensor& x) { return x.exp().tanh(); };
  const auto a = make_graphed_callables(f, needing_gradient({3}), options);
  const auto b = make_graphed_callables(f, needing_gradient({3}), options);
  // Tensors of other devices lie in libtorch's own allocator.
  if (device_.is_privateuseone()) {
    EXPECT_GT(CachingAllocator::of(here_).statistics(options.pool).reserved_bytes, 0U);
  }
  const Tensor x = needing_gradient({3}), first = a(x), second = b(x);
  EXPECT_THAT(refusal([&] { first.sum().backward(); }), HasSubstr("overwritten by call 1 of callable 0"));
  second.sum().backward();
}

TEST_F(GraphedCallables, GiveTheirMemoryBack) {
  auto layer = linear(64, 64);
  const Tensor x = random({32, 64});
  layer->forward(x).sum().backward();
  layer->zero_grad();
  const auto before = memory_of_tensors();
  for (int i = 0; i < 3; ++i) {
    const auto graphed = make_graphed_callables(layer, x);
    graphed(x).sum().backward();
    layer->zero_grad();
  }
  EXPECT_TRUE(all_released(before));
}

TEST_F(GraphedCallables, NeedNoNewMemoryForCalls) {
  auto layer = linear(8, 8);
  const Tensor x = random({4, 8});
  const auto graphed = make_graphed_callables(layer, x);
  const auto step = [&] {
    graphed(x).sum().backward();
    layer->zero_grad();
  };
  for (int i = 0; i < 3; ++i) step();
  const auto bytes = memory_of_tensors().allocated_bytes;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(memory_of_tensors().allocated_bytes, bytes);
}

TEST_F(GraphedCallables, AreOutlivedByTheirResultsAndGradients) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  Tensor y, z;
  {
    const auto graphed = make_graphed_callables(layer, x);
    y = graphed(x);
    z = y.view({12});
  }
  EXPECT_TRUE(same(y, layer->forward(x)));
  y.sum().backward();
  EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({4, 4})));
  const Tensor other = random({300});  // must not get the memory of the gradients
  EXPECT_TRUE(same(z, layer->forward(x).view({12})));
}

TEST_F(GraphedCallables, RunOnTheCurrentStreamWithTheirBackward) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  const Tensor expected = layer->forward(x).detach();
  stream_.synchronize();
  const Stream other(here_);
  {
    const StreamGuard guard(other);
    const Tensor y = graphed(x);
    EXPECT_TRUE(same(y, expected));
    y.sum().backward();
    EXPECT_TRUE(close(layer->weight.grad(), x.sum(0).expand({4, 4})));
  }
}

TEST_F(GraphedCallables, NoticeThatATensorDiedWhichAFunctionUsed) {
  GraphedCallableOptions options;
  options.check_input_liveness = true;
  Tensor factor = torch::full({1024}, 3.0F, device_);
  const auto graphed = make_graphed_callables([&](const Tensor& x) { return x * factor; }, random({1024}), options);
  const Tensor x = random({1024});
  EXPECT_TRUE(same(graphed(x), x * 3));
  factor = Tensor();
  EXPECT_THROW(graphed(x), DeadInputError);
}

TEST_F(GraphedCallables, AreRefusedIfTheirFunctionFreesWhatItUses) {
  Tensor state = torch::full({1024}, 3.0F, device_);
  const auto replaces = [&](const Tensor& x) {
    Tensor y = x * state;
    state = state + 1;  // in memory of the graph, once captured
    return y;
  };
  EXPECT_THAT(reprise::test::text_of<Error>([&] { make_graphed_callables(replaces, random({1024})); }),
              HasSubstr("the capture of the forward of callable 0 (a function): capture: 1 input of the graph is dead: "
                        "it reads or writes memory that was freed before its capture ended"));
  Tensor workspace = torch::zeros({16}, device_);
  std::int64_t length = 16;
  const auto grows = [&](const Tensor& x) {
    Tensor y = x + workspace[0];
    workspace.resize_({length *= 1024});
    return y;
  };
  GraphedCallableOptions options;
  options.num_warmup_iters = 1;
  EXPECT_THAT(reprise::test::text_of<Error>([&] { make_graphed_callables(grows, random({1024}), options); }),
              HasSubstr("freed before its capture ended"));
}

TEST_F(GraphedCallables, MayFreeWhatTheirGraphDoesNotUse) {
  Tensor unused = torch::zeros({1024}, device_);
  const auto f = [&](const Tensor& x) {
    unused = torch::Tensor();
    Tensor y = x * 2;
    const Tensor temporary = y + 1;
    return temporary * 2;
  };
  GraphedCallableOptions options;
  options.num_warmup_iters = 0;
  const auto graphed = make_graphed_callables(f, random({1024}), options);
  const Tensor x = random({1024});
  EXPECT_TRUE(same(graphed(x), (x * 2 + 1) * 2));
}

TEST_F(GraphedCallables, CarryAnnotationsInBothGraphs) {
  GraphedCallableOptions options;
  options.enable_annotations = true;
  const auto f = [](const Tensor& x) {
    const annotate scope("body");
    return x.exp();
  };
  const auto graphed = make_graphed_callables(f, needing_gradient({8}), options);
  const auto texts = [](const CUDAGraph& graph) {
    std::set<std::string> found;
    for (const AnnotatedNode& each : graph.annotations()) found.insert(inspect::annotation_text(each.annotation));
    return found;
  };
  EXPECT_THAT(texts(graphed.forward_graph()), ::testing::ElementsAre("body"));
  EXPECT_THAT(texts(graphed.backward_graph()), ::testing::ElementsAre("body, pass=backward"));
}

TEST_F(GraphedCallables, OfOneModuleMayBeMadeByTwoThreads) {
  auto layer = linear(4, 4);
  int hooks = 0;
  layer->weight.register_hook([&](const Tensor& gradient) {
    ++hooks;
    return gradient;
  });
  const Tensor x = random({3, 4});
  const auto make = [&] {
    for (int i = 0; i < 10; ++i) make_graphed_callables(layer, x);
  };
  stream_.synchronize();  // the thread's stream is another
  std::thread other(make);
  make();
  other.join();
  layer->forward(x).sum().backward();
  EXPECT_EQ(hooks, 1);
}

TEST_F(GraphedCallables, MayBeDestroyedWhileTheyRunOnAnotherStream) {
  REPRISE_HOST_ONLY("work is held at a gate");
  reprise::test::skip_by_steps();
  const Tensor x = torch::ones({1 << 18}, device_);
  std::optional graphed(make_graphed_callables(&twice, x));
  memory_of_tensors();
  const Stream other(here_);
  std::atomic<bool> open = false;
  Tensor y;
  {
    const StreamGuard guard(other);
    backend::enqueue(other, "gate",
                     [&] {
                       while (!open) std::this_thread::yield();
                     },
                     {});
    const auto [input] = graphed->static_arguments();
    y = (*graphed)(input);
  }
  graphed.reset();
  std::vector<Tensor> others;  // who gets its memory?
  for (int i = 0; i < 8; ++i) others.push_back(torch::full({1 << 18}, 7.F, torch::TensorOptions(device_)));
  stream_.synchronize();
  open = true;
  other.synchronize();
  EXPECT_TRUE(same(y, torch::full({1 << 18}, 2.F)));
}

TEST_F(GraphedCallables, RunOnTheDeviceOfTheirTensors) {
  REPRISE_HOST_ONLY("only it can always have two devices");
  if (devices().size() < 2) GTEST_SKIP() << "needs two devices: REPRISE_HOST_DEVICES=2";
  const auto second = host_device(1);
  torch::nn::Linear layer(4, 4);
  layer->to(second);
  const Tensor x = torch::randn({3, 4}, second);
  const auto graphed = make_graphed_callables(layer, x);
  const Tensor y = graphed(x);
  EXPECT_EQ(y.device(), second);
  EXPECT_TRUE(same(y, layer->forward(x)));
  y.sum().backward();
  EXPECT_TRUE(torch::allclose(layer->weight.grad().cpu(), x.sum(0).expand({4, 4}).cpu()));
  EXPECT_THAT(refusal([&] {
                graphed(random({3, 4}));
              }),
              HasSubstr(on_device("expected Float [3, 4] on reprise:1, found Float [3, 4] on reprise:0")));
  EXPECT_THAT(refusal([&] {
                make_graphed_callables(std::vector{&twice, &twice}, std::vector{x, random({2})});
              }),
              HasSubstr("callables of one device"));
}

TEST_F(GraphedCallables, AreWarmedUpAsOftenAsTheOptionsSayAndCapturedOnce) {
  GraphedCallableOptions options;
  for (const int iterations : {0, 1, 4}) {
    options.num_warmup_iters = iterations;
    int runs = 0;
    const auto graphed = make_graphed_callables(
        [&](const Tensor& x) {
          ++runs;
          return x * 2;
        },
        random({2}), options);
    EXPECT_EQ(runs, iterations + 1);
    EXPECT_TRUE(same(graphed(torch::ones({2}, device_)), torch::full({2}, 2.F)));
    EXPECT_EQ(runs, iterations + 1) << "calls do not run it";
  }
}

TEST_F(GraphedCallables, AreCapturedInTheModeThatTheOptionsSay) {
  GraphedCallableOptions options;
  const Event event(here_);
  event.record();
  const auto make = [&] {
    make_graphed_callables(
        [&](const Tensor& x) {
          event.synchronize();  // refused in a capture unless it is relaxed
          return x * 2;
        },
        random({2}), options);
  };
  EXPECT_THROW(make(), Error);
  options.capture_error_mode = CaptureMode::relaxed;
  EXPECT_NO_THROW(make());
}

}  // namespace
}  // namespace reprise::libtorch::test
