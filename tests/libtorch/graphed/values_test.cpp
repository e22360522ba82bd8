// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <string>

#include "tests/libtorch/graphed/graphed_fixture.h"

// Arguments of graphed callables that are no tensors: a graph has them as they were at the capture.

namespace mine {

struct Attention {
  torch::Tensor query;
  double scale = 1;
  bool causal = false;
};

template <class F>
void for_each_tensor(Attention& attention, F&& f) {
  for_each_tensor(attention.query, f);
  for_each_tensor(attention.scale, f);
  for_each_tensor(attention.causal, f);
}

enum class Reduction { none, mean, sum };

}  // namespace mine

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(GraphedCallables, RefuseOtherNumbersThanWereCaptured) {
  const auto f = [](const Tensor& x, double factor, int power) { return (x * factor).pow(power); };
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), 0.5, 2));
  const Tensor x = random({3});
  EXPECT_THAT(refusal([&] { graphed(x, 0.25, 2); }),
              AllOf(HasSubstr("A call of graphed callable 0 (a function): its arguments are not as the samples were:"),
                    HasSubstr("argument 1: expected 0.5, found 0.25"), Not(HasSubstr("argument 2")),
                    HasSubstr("make it again with these as the samples")));
  EXPECT_THAT(refusal([&] { graphed(x, 0.5, -2); }), HasSubstr("argument 2: expected 2, found -2"));
  EXPECT_TRUE(same(graphed(x, 0.5, 2), f(x, 0.5, 2)));
}

TEST_F(GraphedCallables, ListValuesAndTensorsThatDoNotFitTogether) {
  const auto f = [](const Tensor& x, double factor, const Tensor& y) { return x * factor + y; };
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), 2.0, random({3})));
  EXPECT_THAT(refusal([&] { graphed(random({3}), 3.0, random({4})); }),
              AllOf(HasSubstr("argument 1: expected 2.0, found 3.0"),
                    HasSubstr(on_device("argument 2: expected Float [3] on reprise:0, found Float [4] on reprise:0"))));
}

// One argument of a type, as it was captured and another one.
template <class T>
struct Values {
  T captured, other;
  const char* text;
};

TEST_F(GraphedCallables, RefuseOtherValuesOfAllKinds) {
  const auto expect_refused = [this]<class T>(const Values<T>& values) {
    const auto graphed = make_graphed_callables([](const Tensor& x, const T&) { return x * 2; },
                                                std::tuple(random({3}), values.captured));
    const Tensor x = random({3});
    EXPECT_THAT(refusal([&] { graphed(x, values.other); }), HasSubstr(values.text));
    EXPECT_TRUE(same(graphed(x, values.captured), x * 2));
  };
  using Optional = std::optional<double>;
  using Numbers = std::vector<std::int64_t>;
  using Nested = std::tuple<int, std::optional<std::string>>;
  expect_refused(Values<bool>{true, false, "argument 1: expected true, found false"});
  expect_refused(Values<float>{0.1F, 0.2F, "argument 1: expected 0.1, found 0.2"});
  expect_refused(Values<double>{0.0, -0.0, "argument 1: expected 0.0, found -0.0"});
  expect_refused(Values<std::uint64_t>{~0ULL, 1, "argument 1: expected 18446744073709551615, found 1"});
  expect_refused(Values<char>{'a', 'b', "argument 1: expected 97, found 98"});
  expect_refused(Values<at::Scalar>{1, 1.0, "argument 1: expected 1, found 1.0"});
  expect_refused(Values<at::Scalar>{c10::complex<double>(1, 2), 1.0, "argument 1: expected (1.0, 2.0), found 1.0"});
  expect_refused(Values<at::Scalar>{true, false, "argument 1: expected true, found false"});
  expect_refused(Values<std::string>{"mean", "sum", "argument 1: expected \"mean\", found \"sum\""});
  expect_refused(
      Values<mine::Reduction>{mine::Reduction::mean, mine::Reduction::sum, "argument 1: expected 1, found 2"});
  expect_refused(Values<at::ScalarType>{at::kFloat, at::kHalf, "argument 1: expected Float, found Half"});
  expect_refused(Values<at::Device>{at::kCPU, device_, "argument 1: expected cpu, found "});
  expect_refused(Values<Optional>{0.5, 0.25, "argument 1: expected optional[1] 0.5, found optional[1] 0.25"});
  expect_refused(Values<Optional>{0.5, std::nullopt, "argument 1: expected optional[1] 0.5, found optional[0]"});
  expect_refused(Values<Numbers>{{1, 2}, {1, 3}, "argument 1: expected vector[2] 1 2, found vector[2] 1 3"});
  expect_refused(Values<Numbers>{{1, 2}, {1}, "argument 1: expected vector[2] 1 2, found vector[1] 1"});
  expect_refused(
      Values<Nested>{{1, "a"}, {1, "b"}, "argument 1: expected 1 optional[1] \"a\", found 1 optional[1] \"b\""});
}

TEST_F(GraphedCallables, TakeTheSameValueAgainAlsoIfItIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto f = [](const Tensor& x, double fill, const at::Scalar& scalar) { return x * fill + scalar; };
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), nan, at::Scalar(nan)));
  EXPECT_TRUE(graphed(random({3}), nan, nan).isnan().all().item<bool>());
}

TEST_F(GraphedCallables, RefuseOtherValuesInStructuresOfOnesOwn) {
  const auto f = [](const mine::Attention& a) { return a.causal ? a.query.tril() * a.scale : a.query * a.scale; };
  const auto graphed = make_graphed_callables(f, mine::Attention{random({3, 3}), 0.5, true});
  const Tensor x = random({3, 3});
  EXPECT_THAT(refusal([&] {
                graphed({x, 0.5, false});
              }),
              HasSubstr("argument 0: expected tensor 0.5 true, found tensor 0.5 false"));
  EXPECT_TRUE(same(graphed({x, 0.5, true}), f({x, 0.5, true})));
}

TEST_F(GraphedCallables, ReturnValuesAsTheyWereAtTheCapture) {
  const auto graphed =
      make_graphed_callables([](const Tensor& x) { return std::tuple(x * 2, x.size(0), 0.5); }, random({3}));
  const Tensor x = random({3});
  const auto [y, size, half] = graphed(x);
  EXPECT_TRUE(same(y, x * 2));
  EXPECT_EQ(size, 3);
  EXPECT_EQ(half, 0.5);
  const auto with_value = make_graphed_callables([](const Tensor& a, double b) { return a * b; }, std::tuple(x, 0.5));
  EXPECT_EQ(std::get<1>(with_value.static_arguments()), 0.5);
}

TEST_F(GraphedCallables, InTheOtherModeTakeAnyValues) {
  struct ScaledImpl : torch::nn::Module {
    Tensor forward(const Tensor& x, double factor) { return x * factor; }
  };
  const auto scaled = std::make_shared<ScaledImpl>();
  const auto graphed = make_graphed_callables(scaled, std::tuple(random({3}), 0.5));
  scaled->eval();
  const Tensor x = random({3});
  EXPECT_TRUE(same(graphed(x, 0.25), x * 0.25));
}

}  // namespace
}  // namespace reprise::libtorch::test
