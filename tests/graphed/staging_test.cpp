// SPDX-License-Identifier: Apache-2.0
#include "reprise/host_failures.h"
#include "tests/graphed/graphed_test.h"

// How arguments, results and gradients come into graphs and out of them: copies that are nodes of the graphs.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

// How often the simulated device was called by that name, during `work`: the n-th call fails, for larger and larger n,
// until none does.
template <class F>
int calls(const char* name, F&& work) {
  for (std::uint64_t nth = 1;; ++nth) {
    const InjectedFailure failure({.call = name, .code = Result::unknown, .nth = nth});
    try {
      work();
    } catch (const std::exception&) {
    }
    if (!failure.happened()) return static_cast<int>(nth) - 1;
  }
}

TEST_F(GraphedCallables, CopyManyArgumentsByNodesOfTheGraph) {
  const auto f = [](const std::vector<Tensor>& xs) {
    Tensor sum = xs[0];
    for (std::size_t i = 1; i < xs.size(); ++i) sum = sum * 0.5 + xs[i];
    return sum;
  };
  const auto some = [&] {
    std::vector<Tensor> xs;
    for (int i = 0; i < 300; ++i) xs.push_back(random({3}));  // three tables
    return xs;
  };
  const auto graphed = make_graphed_callables(f, std::tuple(some()));
  for (int i = 0; i < 2; ++i) {
    const auto xs = some();
    EXPECT_TRUE(same(graphed(xs), f(xs)));
  }
}

TEST_F(GraphedCallables, NeedNoOtherLaunchesThanTheGraphs) {
  REPRISE_HOST_ONLY("its calls are counted");
  const auto f = [](const Tensor& a, const Tensor& b) { return (a * b).tanh(); };
  GraphedCallableOptions copying;
  copying.outputs = Outputs::copy;
  for (const auto& options : {GraphedCallableOptions{}, copying}) {
    const auto graphed = make_graphed_callables(f, std::tuple(needing_gradient({3}), needing_gradient({3})), options);
    const Tensor a = needing_gradient({3}), b = needing_gradient({3}), g = random({3});
    const auto work = [&] { graphed(a, b).backward(g); };
    work();
    a.mutable_grad() = b.mutable_grad() = Tensor();
    EXPECT_EQ(calls("cuLaunchKernelEx", work), 0);
  }
}

TEST_F(GraphedCallables, ChangeNothingInTheGraphsForTheSameArguments) {
  REPRISE_HOST_ONLY("its calls are counted");
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x * 2; }, random({3}));
  const Tensor x = random({3}), y = random({3});
  static_cast<void>(graphed(x));
  EXPECT_EQ(calls("cuGraphExecNodeSetParams", [&] { graphed(x); }), 0);
  EXPECT_EQ(calls("cuGraphExecNodeSetParams", [&] { graphed(y); }), 1);
  const auto [input] = graphed.static_arguments();
  EXPECT_EQ(calls("cuGraphExecNodeSetParams", [&] { graphed(input); }), 1) << "nothing is copied from now on";
  EXPECT_EQ(calls("cuGraphExecNodeSetParams", [&] { graphed(input); }), 0);
}

TEST_F(GraphedCallables, TakeNewMemoryOfAnArgumentEachTime) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x * 2; }, random({1000}));
  for (int i = 0; i < 20; ++i) {
    const Tensor found = graphed(torch::full({1000}, static_cast<float>(i), torch::TensorOptions(device_)));
    EXPECT_EQ(found[999].item<float>(), 2.F * static_cast<float>(i));
  }
}

TEST_F(GraphedCallables, TakeTheirStaticArgumentsInOtherPlaces) {
  const auto f = [](const Tensor& a, const Tensor& b) { return std::tuple(a * 1, b * 2); };
  const auto graphed = make_graphed_callables(f, std::tuple(random({4}), random({4})));
  const auto [a, b] = graphed.static_arguments();
  const Tensor x = random({4}), y = random({4});
  const auto fill = [&, a = a, b = b] {
    a.copy_(x);
    b.copy_(y);
  };
  fill();
  const auto [p, q] = graphed(b, a);
  EXPECT_TRUE(same(p, y));
  EXPECT_TRUE(same(q, x * 2));
  fill();
  const auto [r, s] = graphed(b.flip(0), a.view({2, 2}).t().reshape({4}));
  EXPECT_TRUE(same(r, y.flip(0)));
  EXPECT_TRUE(same(s, x.view({2, 2}).t().reshape({4}) * 2));
  fill();
  EXPECT_TRUE(same(std::get<1>(graphed(b.as_strided({4}, {0}), a)), x * 2));
}

TEST_F(GraphedCallables, TakeArgumentsOfAllStridesInOneCall) {
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) { return a + b * 2 + c * 3; };
  const auto graphed = make_graphed_callables(f, std::tuple(random({4, 4}), random({4, 4}).t(), random({4, 4})));
  for (int i = 0; i < 2; ++i) {
    const Tensor a = random({4, 4}), b = random({4, 4}).t(), c = random({8, 8}).slice(0, 0, 8, 2).slice(1, 0, 8, 2);
    EXPECT_TRUE(same(graphed(a, b, c), f(a, b, c)));
    EXPECT_TRUE(same(graphed(c, a, b), f(c, a, b)));
    EXPECT_TRUE(same(graphed(a.t(), b.t(), a[0].expand({4, 4})), f(a.t(), b.t(), a[0].expand({4, 4}))));
  }
}

TEST_F(GraphedCallables, TakeGradientsOfAllStrides) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x.pow(2); }, needing_gradient({4, 4}));
  const Tensor x = needing_gradient({4, 4});
  for (const Tensor& g : {random({4, 4}), random({4, 4}).t(), random({4}).expand({4, 4}), random({4, 4})}) {
    x.mutable_grad() = Tensor();
    graphed(x).backward(g);
    const Tensor found = x.grad().clone();
    x.mutable_grad() = Tensor();
    x.pow(2).backward(g);
    EXPECT_TRUE(same(found, x.grad()));
  }
}

TEST_F(GraphedCallables, TakeArgumentsWithoutValues) {
  const auto f = [](const Tensor& a, const Tensor& b) { return std::tuple(a * 2, b.sum(0)); };
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), random({0, 2})));
  const Tensor a = random({3});
  const auto [x, y] = graphed(a, random({0, 2}));
  EXPECT_TRUE(same(x, a * 2));
  EXPECT_TRUE(same(y, torch::zeros({2})));
}

// A replay that fails at any of its calls leaves behind what the next one mends.
TEST_F(GraphedCallables, GoOnAfterAReplayThatFailed) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  for (const Gradients gradients : {Gradients::fresh, Gradients::alias, Gradients::accumulate_in_graph}) {
    auto layer = linear(4, 4);
    const auto graphed = make_graphed_callables(layer, needing_gradient({3, 4}), with_gradients(gradients));
    const auto work = [&](const Tensor& x) {
      graphed(x).pow(2).sum().backward();
      return gradients_of(*layer);
    };
    for (const char* const call : {"cuGraphExecNodeSetParams", "cuGraphNodeSetEnabled", "cuGraphLaunch", "cuMemAlloc"})
      for (std::uint64_t nth = 1; nth <= 6; ++nth) {
        const Tensor x = random({3, 4}), y = random({3, 4});
        layer->zero_grad();
        {
          const InjectedFailure failure({.call = call, .code = Result::unknown, .nth = nth});
          try {
            work(x);
            if (nth % 2 == 0) work(x);
          } catch (const std::exception&) {
          }
        }
        if (nth % 3 != 0) layer->zero_grad();
        layer->zero_grad(/*set_to_none=*/nth % 2 == 0 || gradients == Gradients::alias);
        const auto found = work(y);
        layer->zero_grad();
        layer->forward(y).pow(2).sum().backward();
        const auto expected = gradients_of(*layer);
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_TRUE(same(found[i], expected[i])) << call << ' ' << nth << ' ' << static_cast<int>(gradients);
      }
  }
}

TEST_F(GraphedCallables, AreCapturedAgainAfterACaptureThatFailedAnywhere) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  static_cast<void>(layer->forward(x));
  for (const Gradients gradients : {Gradients::fresh, Gradients::accumulate_in_graph})
    for (const char* const call :
         {"cuLaunchKernelEx", "cuStreamGetCaptureInfo", "cuGraphGetNodes", "cuGraphInstantiateWithParams"}) {
      bool failed = true;
      for (std::uint64_t nth = 1; failed && nth < 200; nth += nth < 4 ? 1 : 7) {
        const InjectedFailure failure({.call = call, .code = Result::unknown, .nth = nth});
        try {
          make_graphed_callables(layer, x, with_gradients(gradients));
        } catch (const std::exception&) {
        }
        failed = failure.happened();
        EXPECT_FALSE(is_current_stream_capturing());
      }
      EXPECT_TRUE(same(make_graphed_callables(layer, x, with_gradients(gradients))(x), layer->forward(x))) << call;
    }
}

TEST_F(GraphedCallables, RefuseToChangeOneOfTwoArgumentsInTheSameMemory) {
  const auto f = [](Tensor& count, const Tensor& x) {
    count += 1;
    return x * count;
  };
  const Tensor both = random({4});
  EXPECT_THAT(refusal([&] { make_graphed_callables(f, std::tuple(both, both)); }),
              HasSubstr("changes argument 0 in place, and the sample of argument 1 lies in the same memory"));
  const auto graphed = make_graphed_callables(f, std::tuple(random({2}), random({2})));
  EXPECT_THAT(refusal([&] { graphed(both.slice(0, 0, 2), both.slice(0, 1, 3)); }),
              HasSubstr("argument 0 is changed in place, and argument 1 lies in the same memory"));
  const Tensor x = both.slice(0, 2, 4).clone(), count = both.slice(0, 0, 2).clone();
  EXPECT_TRUE(same(graphed(both.slice(0, 0, 2), both.slice(0, 2, 4)), x * (count + 1)));
  EXPECT_TRUE(same(both.slice(0, 0, 2), count + 1));
}

TEST_F(GraphedCallables, MayGetTheSameArgumentTwiceWhereNoneIsChanged) {
  const auto graphed = make_graphed_callables([](const Tensor& a, const Tensor& b) { return a * 2 + b; },
                                              std::tuple(random({3}), random({3})));
  const Tensor x = random({3});
  EXPECT_TRUE(same(graphed(x, x), x * 2 + x));
}

TEST_F(GraphedCallables, ThatReturnNothingWorkByWhatTheyChange) {
  const auto f = [](Tensor& sum, const Tensor& x) { sum += x; };
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), random({3})));
  static_assert(std::is_void_v<decltype(graphed(std::declval<Tensor>(), std::declval<Tensor>()))>);
  const Tensor sum = torch::zeros({3}, device_), x = random({3});
  graphed(sum, x);
  graphed(sum, x);
  EXPECT_TRUE(same(sum, x + x));
}

TEST_F(GraphedCallables, ThatReturnNothingMayBeModulesInAnyMode) {
  struct CounterImpl : torch::nn::Module {
    explicit CounterImpl(torch::Device device) { total = register_buffer("total", torch::zeros({2}, device)); }
    void forward(const Tensor& x) { total += is_training() ? x : -x; }
    Tensor total;
  };
  const auto counter = std::make_shared<CounterImpl>(device_);
  const auto graphed = make_graphed_callables(counter, random({2}));
  const Tensor x = random({2});
  graphed(x);
  EXPECT_TRUE(same(counter->total, x)) << "the warm-up was undone";
  counter->eval();
  graphed(x);
  EXPECT_TRUE(same(counter->total, torch::zeros({2})));
}

}  // namespace
}  // namespace reprise::libtorch::test
