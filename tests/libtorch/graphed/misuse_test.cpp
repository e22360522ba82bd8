// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "reprise/host_device.h"
#include "tests/libtorch/graphed/graphed_fixture.h"

// What graphed callables refuse, and that everything is as usable as before.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GraphedCallables, ListAllArgumentsThatDoNotFit) {
  const auto f = [](const Tensor& a, const Tensor& b, const std::vector<Tensor>& c) { return a + b + c[0] + c[1]; };
  const auto graphed = make_graphed_callables(
      f, std::tuple(random({2, 3}), random({2, 3}), std::vector<Tensor>{random({2, 3}), random({2, 3})}));
  const Tensor fits = random({2, 3});
  EXPECT_THAT(
      refusal([&] {
        graphed(fits.to(torch::kDouble), fits, std::vector<Tensor>{random({3, 2}), fits.cpu()});
      }),
      AllOf(HasSubstr("callable 0 (a function): its arguments are not as the samples were:"),
            HasSubstr(on_device("argument 0: expected Float [2, 3] on reprise:0, found Double [2, 3] on reprise:0")),
            HasSubstr(
                on_device("argument 2, tensor 0: expected Float [2, 3] on reprise:0, found Float [3, 2] on reprise:0")),
            HasSubstr(on_device("argument 2, tensor 1: expected Float [2, 3] on reprise:0, found Float [2, 3] on cpu")),
            Not(HasSubstr("argument 1:"))));
  EXPECT_THAT(
      refusal([&] {
        graphed(fits, needing_gradient({2, 3}), std::vector<Tensor>{fits, fits});
      }),
      HasSubstr(on_device("argument 1: expected Float [2, 3] on reprise:0, found Float [2, 3] on reprise:0, needs a "
                          "gradient")));
  EXPECT_TRUE(same(graphed(fits, fits, std::vector<Tensor>{fits, fits}), fits * 4));
}

TEST_F(GraphedCallables, NameParametersThatWereMovedOrReplaced) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  net->to(device_);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(net, x);
  const auto refused = [&] { return refusal([&] { graphed(x); }); };
  EXPECT_EQ(refused(), "");
  net->to(torch::kCPU);
  EXPECT_THAT(refused(), AllOf(HasSubstr(on_device("0.weight was moved from reprise:0 to cpu")),
                               HasSubstr("1.running_mean"), HasSubstr("Make the graphed callable again")));
}

TEST_F(GraphedCallables, NameParametersWithOtherMemory) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  layer->bias.set_data(layer->bias.detach().clone());
  EXPECT_THAT(refusal([&] { graphed(x); }), AllOf(HasSubstr("bias has other memory now"), Not(HasSubstr("weight"))));
}

// A module that multiplies by a buffer.
struct TimesBufferImpl : torch::nn::Module {
  explicit TimesBufferImpl(Tensor buffer) : factor(register_buffer("factor", std::move(buffer))) {}
  Tensor forward(const Tensor& x) { return x * factor; }
  Tensor factor;
};
TORCH_MODULE(TimesBuffer);

TEST_F(GraphedCallables, NameParametersThatLieOtherwiseInTheSameMemory) {
  const torch::NoGradGuard no_grad;
  const Tensor x = random({3, 4});
  const char* const transposed = " has sizes [4, 4] and strides [1, 4] now, and had sizes [4, 4] and strides [4, 1]";
  for (const bool in_place : {false, true}) {
    auto layer = linear(4, 4);
    const auto graphed = make_graphed_callables(layer, x);
    in_place ? static_cast<void>(layer->weight.t_()) : layer->weight.set_data(layer->weight.data().t());
    EXPECT_THAT(refusal([&] { graphed(x); }), AllOf(HasSubstr("weight" + std::string(transposed)),
                                                    Not(HasSubstr("bias")), Not(HasSubstr("other memory"))));
    layer->weight.t_();
    EXPECT_TRUE(same(graphed(x), layer->forward(x)));
    layer->bias.set_data(layer->bias.data().view({1, 4}));
    EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("bias has sizes [1, 4] and strides [4, 1] now, and had"));
  }
  Tensor w = random({4, 4});
  const auto graphed = make_graphed_callables(with_parameters([w](const Tensor& y) { return y.mm(w); }, {w}), x);
  w.t_();
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("parameter 0" + std::string(transposed)));
}

TEST_F(GraphedCallables, NameBuffersThatLieOtherwiseInTheSameMemory) {
  TimesBuffer net(random({4, 4}));
  const Tensor x = random({4, 4});
  const auto graphed = make_graphed_callables(net, x);
  net->factor.t_();
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("factor has sizes [4, 4] and strides [1, 4] now"));
  net->factor.t_();
  EXPECT_TRUE(same(graphed(x), x * net->factor));
}

TEST_F(GraphedCallables, NameBuffersThatAreReadAsTheirConjugatesOrNegatives) {
  TimesBuffer net(torch::randn({3}, torch::TensorOptions(device_).dtype(torch::kComplexFloat)));
  const Tensor x = torch::randn({3}, net->factor.options());
  const auto graphed = make_graphed_callables(net, x);
  net->factor.set_data(net->factor.conj());
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("factor is the conjugate of its memory now"));
  net->factor.set_data(net->factor.conj());
  EXPECT_TRUE(same(graphed(x), x * net->factor));
  net->factor.set_data(torch::_neg_view(net->factor));
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("factor is the negative of its memory now"));
}

TEST_F(GraphedCallables, NameParametersOfAnotherType) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  layer->to(torch::kDouble);
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("weight is of type Double now, and was of type Float"));
}

TEST_F(GraphedCallables, NameParametersThatNeedGradientsNoMore) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  layer->weight.set_requires_grad(false);
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("weight does not need a gradient now"));
  layer->weight.set_requires_grad(true);
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
}

TEST_F(GraphedCallables, NameParametersThatWereAdded) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(layer, x);
  layer->register_parameter("more", random({2}));
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("more is new"));
}

TEST_F(GraphedCallables, NameBuffersThatWereAddedOrReplaced) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4}), scale = random({4});
  layer->register_buffer("offset", scale);
  Tensor& in_module = layer->register_buffer("scale", scale);
  const auto graphed = make_graphed_callables(layer, x);
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
  in_module = scale.clone();
  EXPECT_THAT(refusal([&] { graphed(x); }),
              AllOf(HasSubstr("buffer scale is another tensor now"), Not(HasSubstr("offset"))));
  in_module = scale;
  EXPECT_EQ(refusal([&] { graphed(x); }), "");
  layer->register_buffer("more", random({2}));
  EXPECT_THAT(refusal([&] { graphed(x); }), AllOf(HasSubstr("buffer more is new"), Not(HasSubstr("scale"))));
}

TEST_F(GraphedCallables, NamePartsThatWereAddedOrReplaced) {
  struct NetImpl : torch::nn::Module {
    NetImpl() { part = register_module("part", torch::nn::Linear(4, 4)); }
    Tensor forward(const Tensor& x) { return part->forward(x); }
    torch::nn::Linear part{nullptr};
  };
  const auto net = std::make_shared<NetImpl>();
  net->to(device_);
  const Tensor x = random({3, 4});
  const auto graphed = make_graphed_callables(net, x);
  net->replace_module("part", torch::nn::Linear(4, 4));
  EXPECT_THAT(refusal([&] { graphed(x); }), HasSubstr("modules in it were added, removed or replaced"));
}

TEST_F(GraphedCallables, RefuseSamplesThatCannotBeCaptured) {
  const auto f = [](const Tensor& a, const Tensor& b) { return a + b; };
  EXPECT_THAT(refusal([&] { make_graphed_callables(f, std::tuple(random({2}), torch::ones({2}))); }),
              HasSubstr("callable 0 (a function) cannot be graphed: argument 1 is on cpu"));
  EXPECT_THAT(refusal([&] { make_graphed_callables(f, std::tuple(torch::ones({2}), torch::ones({2}))); }),
              HasSubstr("argument 0 is on cpu; argument 1 is on cpu"));
  EXPECT_THAT(refusal([&] { make_graphed_callables([] { return Tensor(); }, std::tuple<>()); }),
              HasSubstr("neither an argument nor a parameter"));
  auto layer = torch::nn::Linear(2, 2);
  EXPECT_THAT(refusal([&] {
                make_graphed_callables(layer, random({2, 2}));
              }),
              HasSubstr("cannot be graphed: weight is on cpu; bias is on cpu. All"));
  GraphedCallableOptions options;
  options.num_warmup_iters = -1;
  EXPECT_THAT(refusal([&] { make_graphed_callables(f, std::tuple(random({2}), random({2})), options); }),
              HasSubstr("expected 0 or more, found -1"));
}

TEST_F(GraphedCallables, RefuseOptionsWithoutAName) {
  const auto twice = [](const Tensor& x) { return x * 2; };
  const Tensor x = random({2});
  GraphedCallableOptions outputs, gradients;
  outputs.outputs = Outputs(9);
  gradients.gradients = Gradients(9);
  EXPECT_THAT(
      refusal([&] { make_graphed_callables(twice, x, outputs); }),
      HasSubstr("GraphedCallableOptions::outputs expected Outputs::alias or Outputs::copy; found the number 9"));
  EXPECT_THAT(refusal([&] { make_graphed_callables(twice, x, gradients); }),
              HasSubstr("GraphedCallableOptions::gradients expected Gradients::fresh or Gradients::alias; "
                        "found the number 9"));
  EXPECT_TRUE(same(make_graphed_callables(twice, x)(x), x * 2));
}

TEST_F(GraphedCallables, NameEachSampleAndParameterOnTheCpuOnce) {
  EXPECT_THAT(refusal([&] {
                make_graphed_callables(linear(2, 2), torch::ones({2, 2}));
              }),
              HasSubstr("cannot be graphed: argument 0 is on cpu. All"));
  const Tensor w = torch::ones({2}), computed = needing_gradient({2}) * 2;
  const auto f = [](const Tensor& x) { return x; };
  EXPECT_THAT(refusal([&] {
                make_graphed_callables(with_parameters(f, {w, w, computed}), random({2}));
              }),
              HasSubstr("cannot be graphed: parameter 0 is on cpu; parameter 2 is no leaf: it was computed from "
                        "others. All"));
}

TEST_F(GraphedCallables, RefuseBuffersThatNeedGradients) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2));
  net->to(device_);
  net->register_buffer("scale", needing_gradient({2}));
  EXPECT_THAT(refusal([&] {
                make_graphed_callables(net, random({2, 2}));
              }),
              HasSubstr("buffer scale needs a gradient"));
}

TEST_F(GraphedCallables, RefuseBackwardAfterABufferWasChanged) {
  TimesBuffer net(torch::full({3}, 2.0F, device_));
  const Tensor x = needing_gradient({3});
  const auto graphed = make_graphed_callables(net, x);
  const Tensor y = graphed(x);
  net->factor.fill_(5);
  EXPECT_THAT(refusal([&] { y.sum().backward(); }), HasSubstr("a parameter or buffer"));
  graphed(x).sum().backward();
  EXPECT_TRUE(same(x.grad(), torch::full({3}, 5.0F, device_)));
}

TEST_F(GraphedCallables, TakeBuffersWhoseValuesShareOnePlace) {
  TimesBuffer net(torch::full({1}, 2.0F, device_).expand({3}));
  const Tensor x = random({3});
  EXPECT_TRUE(same(make_graphed_callables(net, x)(x), x * 2));
}

TEST_F(GraphedCallables, RefuseToGiveArgumentsAnotherSize) {
  for (const int warm_up : {0, 3}) {
    GraphedCallableOptions options;
    options.num_warmup_iters = warm_up;
    const auto f = [](Tensor x) { return x.resize_({4096}).fill_(1).sum(); };
    EXPECT_THAT(refusal([&] { make_graphed_callables(f, random({3}), options); }),
                HasSubstr("it gives argument 0 another size or other memory"));
  }
}

TEST_F(GraphedCallables, RefuseResultsOnTheCpu) {
  EXPECT_THAT(refusal([&] {
                make_graphed_callables([](const Tensor& x) { return std::tuple(x + 1, torch::ones({2})); },
                                       random({2}));
              }),
              HasSubstr("the warm-up of callable 0 (a function): result 1 is on cpu"));
}

TEST_F(GraphedCallables, RefuseToBeMadeInACapture) {
  const Tensor x = random({2});
  CUDAGraph graph;
  reprise::capture(graph, [&] {
    EXPECT_THAT(refusal([&] { make_graphed_callables([](const Tensor& y) { return y * 2; }, x); }),
                HasSubstr("in a capture"));
    x.add_(1);
  });
  EXPECT_EQ(graph.node_count(), 1U);
}

TEST_F(GraphedCallables, ThatFailInTheWarmUpLeaveEverythingAsItWas) {
  torch::nn::Sequential net(torch::nn::BatchNorm1d(4), torch::nn::Dropout(0.5));
  net->to(device_);
  const Tensor x = random({3, 4}), mean = net->named_buffers()["0.running_mean"], before = mean.clone();
  const auto before_all = memory_of_tensors();
  int runs = 0;
  const auto f = with_module(
      [&](const Tensor& y) -> Tensor {
        const Tensor z = net->forward(y);
        if (++runs == 2) throw std::runtime_error("no luck");
        return z;
      },
      net);
  try {
    make_graphed_callables(std::tuple(torch::nn::Linear(linear(4, 4)), f), std::tuple(x, x));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the warm-up of callable 1 (torch::nn::SequentialImpl): no luck"));
    EXPECT_THROW(std::rethrow_if_nested(error), std::runtime_error);
  }
  EXPECT_TRUE(same(mean, before));
  EXPECT_TRUE(all_released(before_all));
  EXPECT_EQ(refusal([&] { make_graphed_callables(f, x)(x); }), "");
}

TEST_F(GraphedCallables, ThatFailInACaptureNameTheOperator) {
  GraphedCallableOptions options;
  options.num_warmup_iters = 0;
  try {
    make_graphed_callables([](const Tensor& x) { return x.mm(x); }, random({2, 3}), options);
    ADD_FAILURE() << "matrices that do not fit were multiplied";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("aten::mm"), HasSubstr("the capture of the forward of callable 0")));
  }
}

TEST_F(GraphedCallables, ThatFailInACaptureLeaveEverythingAsItWas) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto before_all = memory_of_tensors();
  const auto syncs = with_module(
      [&](const Tensor& y) {
        const Tensor z = layer->forward(y);
        return z * z.sum().item<float>();
      },
      layer);
  try {
    make_graphed_callables(std::tuple(layer, syncs), std::tuple(x, x));
    FAIL() << "a capture cannot wait";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(device_.is_cuda() ? "captur" : "item()"),
                                    HasSubstr("the capture of the forward of callable 1")));
  }
  EXPECT_TRUE(all_released(before_all));
  EXPECT_FALSE(is_current_stream_capturing());
  layer->forward(x).sum().backward();
  EXPECT_EQ(refusal([&] { make_graphed_callables(layer, x)(x); }), "");
}

TEST_F(GraphedCallables, ThatTheDeviceCannotHoldSayInWhichPhase) {
  REPRISE_HOST_ONLY("its calls are made to fail");
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  for (std::uint64_t nth = 1; nth <= 2; ++nth) {
    const InjectedFailure failure(
        {.call = "cuGraphInstantiateWithParams", .code = ErrorCode::out_of_memory, .nth = nth});
    try {
      make_graphed_callables(layer, x);
      FAIL() << "nothing failed";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(nth == 1 ? "the capture of the forward of callable 0 (torch::nn::LinearImpl)"
                                                   : "the capture of the backward of callable 0"));
    }
  }
  EXPECT_TRUE(same(make_graphed_callables(layer, x)(x), layer->forward(x)));
}

TEST_F(GraphedCallables, ThatTheGraphCannotDifferentiateAreRefusedByAutograd) {
  try {
    make_graphed_callables([](const Tensor& x) { return Tensor(x).add_(1) * 1; }, needing_gradient({3}));
    FAIL() << "a leaf cannot be changed in place";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a leaf Variable that requires grad"), HasSubstr("the warm-up of")));
  }
}

}  // namespace
}  // namespace reprise::libtorch::test
