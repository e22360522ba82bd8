// SPDX-License-Identifier: Apache-2.0
#include "reprise/host_device.h"
#include "tests/libtorch/graphed/failing_calls.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// How arguments, results and gradients come into graphs and out of them: copies that are nodes of the graphs.

namespace reprise::libtorch::test {
namespace {

using ::testing::HasSubstr;

// How often the simulated device was called by that name, during `work`: the n-th call fails, for larger and larger n,
// until none does.
template <class F>
int calls(const char* name, F&& work) {
  for (std::uint64_t nth = 1;; ++nth) {
    const InjectedFailure failure({.call = name, .code = ErrorCode::unknown, .nth = nth});
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

// A replay that fails at any of its calls leaves behind what the next one repairs.
TEST_F(GraphedCallables, GoOnAfterAReplayThatFailed) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  for (const Gradients gradients : {Gradients::fresh, Gradients::alias}) {
    auto layer = linear(4, 4);
    const auto graphed = make_graphed_callables(layer, needing_gradient({3, 4}), with_gradients(gradients));
    const auto work = [&](const Tensor& x) {
      graphed(x).pow(2).sum().backward();
      return gradients_of(*layer);
    };
    for (const std::string& call : all_calls()) {
      bool failed = true;
      for (std::uint64_t nth = 1; failed || nth <= 6; ++nth) {
        const Tensor x = random({3, 4}), y = random({3, 4});
        layer->zero_grad();
        {
          const InjectedFailure failure({.call = call, .code = ErrorCode::unknown, .nth = nth});
          try {
            work(x);
            if (nth % 2 == 0) work(x);
          } catch (const std::exception&) {
          }
          failed = failure.happened();
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
}

// A network with all that making must leave as it was: parameters that have gradients, buffers, random numbers.
class GraphedCallablesThatFailed : public GraphedCallables {
 protected:
  GraphedCallablesThatFailed() {
    net_->to(device_);
    net_->forward(x_).sum().backward();
  }

  auto make(Gradients gradients) const {
    GraphedCallableOptions options = with_gradients(gradients);
    options.num_warmup_iters = 1;
    return make_graphed_callables(net_, x_, options);
  }
  std::vector<Tensor> state() const {
    std::vector<Tensor> all;  // on the CPU: they are there when memory is looked at
    for (const Tensor& each : gradients_of(*net_)) all.push_back(each.to(torch::kCPU, false, /*copy=*/true));
    for (const Tensor& each : net_->buffers()) all.push_back(each.to(torch::kCPU, false, /*copy=*/true));
    all.push_back(at::globalContext().defaultGenerator(device_).get_state());
    return all;
  }
  template <class F>
  Tensor result_of(const F& callable) const {
    torch::manual_seed(3);
    return callable(x_).detach().clone();
  }

  torch::nn::Sequential net_{torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4), torch::nn::Dropout(0.5)};
  Tensor x_ = random({3, 4});
};

// At each call of each kind.
TEST_F(GraphedCallablesThatFailed, LeaveEverythingAsItWasAndAreMadeAgain) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  int failures = 0;
  const auto fail_once = [&](const std::string& call, std::uint64_t nth, Gradients gradients) {
    SCOPED_TRACE(call + " " + std::to_string(nth) + " " + std::to_string(static_cast<int>(gradients)));
    const auto before_all = memory_of_tensors();
    const auto before = state();
    bool failed = false;
    {
      const InjectedFailure failure({.call = call, .code = ErrorCode::unknown, .nth = nth});
      try {
        make(gradients);
      } catch (const std::exception&) {
        ++failures;
      }
      failed = failure.happened();
    }
    EXPECT_FALSE(is_current_stream_capturing());
    const auto after = state();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(same(before[i], after[i])) << i;
    EXPECT_TRUE(loses_memory(call) || all_released(before_all));
    EXPECT_TRUE(same(result_of(make(gradients)), result_of([&](const Tensor& x) { return net_->forward(x); })));
    return failed && !HasFailure();
  };
  for (const Gradients gradients : {Gradients::fresh, Gradients::alias})
    for (const std::string& call : all_calls())
      for (std::uint64_t nth = 1; fail_once(call, nth, gradients); ++nth) continue;
  EXPECT_GT(failures, 100);
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
