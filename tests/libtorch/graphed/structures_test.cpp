// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include "tests/libtorch/graphed/graphed_fixture.h"

// What can be graphed: kinds of callables, of arguments and of results.

namespace mine {

struct Batch {
  torch::Tensor x;
  std::vector<torch::Tensor> more;
};

template <class F>
void for_each_tensor(Batch& batch, F&& f) {
  for_each_tensor(batch.x, f);
  for_each_tensor(batch.more, f);
}

struct Scores {
  torch::Tensor sum;
  std::string name;
};

template <class F>
void for_each_tensor(Scores& scores, F&& f) {
  f(scores.sum);
}

// The number of tensors is a value, without a container that would have it.
struct OneOrTwo {
  torch::Tensor a, b;
  bool both = true;
};

template <class F>
void for_each_tensor(OneOrTwo& some, F&& f) {
  f(some.a);
  if (some.both) f(some.b);
}

}  // namespace mine

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(GraphedCallables, TakeTiedSamplesByValue) {
  const Tensor a = random({2}), b = random({2});
  const auto f = [](const Tensor& x, const Tensor& y) { return x - y; };
  const auto graphed = make_graphed_callables(f, std::tie(a, b));
  static_assert(std::is_same_v<decltype(graphed), const GraphedCallable<Tensor, Tensor, Tensor>>);
  EXPECT_TRUE(same(graphed(b, a), b - a));
}

TEST_F(GraphedCallables, RefuseStructuresOfOnesOwnWithMoreOrFewerTensors) {
  const auto f = [](const mine::OneOrTwo& x) { return x.both ? x.a + x.b : x.a * 3; };
  const mine::OneOrTwo one{random({2}), random({2}), false}, two{random({2}), random({2}), true};
  const auto of_one = make_graphed_callables(f, one), of_two = make_graphed_callables(f, two);
  EXPECT_THAT(refusal([&] { of_one(two); }), HasSubstr("expected tensor, found tensor tensor"));
  EXPECT_THAT(refusal([&] { of_two(one); }), HasSubstr("expected tensor tensor, found tensor"));
  EXPECT_TRUE(same(of_one(one), one.a * 3));
  EXPECT_TRUE(same(of_two(two), two.a + two.b));
}

TEST_F(GraphedCallables, AreFunctionsWithoutParameters) {
  const auto f = [](const Tensor& a, const Tensor& b) { return (a * b).tanh(); };
  const auto graphed = make_graphed_callables(f, std::tuple(needing_gradient({3, 4}), random({3, 4})));
  static_assert(std::is_same_v<decltype(graphed), const GraphedCallable<Tensor, Tensor, Tensor>>);
  for (int i = 0; i < 3; ++i) {
    const Tensor a = needing_gradient({3, 4}), b = random({3, 4}), eager = a.detach().clone().requires_grad_();
    const Tensor found = graphed(a, b), expected = f(eager, b);
    EXPECT_TRUE(same(found, expected));
    found.sum().backward();
    expected.sum().backward();
    EXPECT_TRUE(same(a.grad(), eager.grad()));
  }
}

TEST_F(GraphedCallables, AreFunctionsWithParametersThatAreListed) {
  const Tensor w = needing_gradient({4, 3});
  const auto graphed =
      make_graphed_callables(with_parameters([w](const Tensor& x) { return x.mm(w).relu(); }, {w}), random({2, 4}));
  const Tensor x = random({2, 4});
  graphed(x).sum().backward();
  const Tensor found = w.grad().clone();
  w.mutable_grad() = Tensor();
  x.mm(w).relu().sum().backward();
  EXPECT_TRUE(same(found, w.grad()));
}

TEST_F(GraphedCallables, AreModulesOfAllHolders) {
  auto holder = linear(4, 3);
  const Tensor x = random({2, 4}), expected = holder->forward(x);
  EXPECT_TRUE(same(make_graphed_callables(holder, x)(x), expected));
  EXPECT_TRUE(same(make_graphed_callables(holder.ptr(), x)(x), expected));
  EXPECT_TRUE(same(make_graphed_callables(torch::nn::AnyModule(holder), x)(x), expected));
  EXPECT_TRUE(same(make_graphed_callables(torch::nn::Sequential(holder), x)(x), expected));
}

TEST_F(GraphedCallables, TakeAndReturnWhatAnLstmDoes) {
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(4, 6).num_layers(2));
  lstm->to(device_);
  using State = std::optional<std::tuple<Tensor, Tensor>>;
  const State zero = std::tuple(torch::zeros({2, 3, 6}, device_), torch::zeros({2, 3, 6}, device_));
  const auto graphed = make_graphed_callables(lstm, std::tuple(random({5, 3, 4}), zero));
  const Tensor x = random({5, 3, 4});
  const State state = std::tuple(random({2, 3, 6}), random({2, 3, 6}));
  const auto [y, last] = graphed(x, state);
  const auto [expected_y, expected_last] = lstm->forward(x, state);
  EXPECT_TRUE(same(y, expected_y));
  EXPECT_TRUE(same(std::get<0>(last), std::get<0>(expected_last)));
  EXPECT_TRUE(same(std::get<1>(last), std::get<1>(expected_last)));
  (y.sum() + std::get<1>(last).pow(2).sum()).backward();
  const Tensor found = lstm->parameters()[0].grad().clone();
  lstm->zero_grad();
  (expected_y.sum() + std::get<1>(expected_last).pow(2).sum()).backward();
  EXPECT_TRUE(same(found, lstm->parameters()[0].grad()));
  EXPECT_THAT(refusal([&] { graphed(x, std::nullopt); }),
              HasSubstr("argument 1: expected optional[1] tensor tensor, found optional[0]"));
}

TEST_F(GraphedCallables, TakeNestedStructuresAndOnesOwn) {
  using Maps = std::map<std::string, std::vector<Tensor>>;
  const auto f = [](const mine::Batch& batch, const Maps& maps, const std::pair<Tensor, std::array<Tensor, 2>>& rest) {
    const Tensor sum = batch.x + batch.more.at(0) * 2 + maps.at("a").at(0) * 3 + maps.at("b").at(1) * 4;
    return std::tuple(mine::Scores{sum - rest.first, "scores"}, std::vector<Tensor>{rest.second[0] * rest.second[1]});
  };
  const auto make = [&] {
    return std::tuple(mine::Batch{random({3}), {random({3})}},
                      Maps{{"a", {random({3})}}, {"b", {random({3}), random({3})}}},
                      std::pair(random({3}), std::array<Tensor, 2>{random({3}), random({3})}));
  };
  const auto graphed = make_graphed_callables(f, make());
  const auto arguments = make();
  const auto [scores, products] = std::apply(graphed, arguments);
  const auto [expected_scores, expected_products] = std::apply(f, arguments);
  EXPECT_TRUE(same(scores.sum, expected_scores.sum));
  EXPECT_EQ(scores.name, "scores");
  ASSERT_EQ(products.size(), 1U);
  EXPECT_TRUE(same(products[0], expected_products[0]));
}

TEST_F(GraphedCallables, RefuseArgumentsThatAreBuiltInAnotherWay) {
  using Map = std::map<std::string, Tensor>;
  const auto graphed = make_graphed_callables([](const Map& map) { return map.begin()->second * 2; },
                                              std::tuple(Map{{"a", random({2})}, {"b", random({2})}}));
  EXPECT_THAT(refusal([&] { graphed(Map{{"a", random({2})}}); }), HasSubstr("map[1] \"a\" tensor"));
  EXPECT_THAT(refusal([&] {
                graphed(Map{{"a", random({2})}, {"c", random({2})}});
              }),
              HasSubstr("expected map[2] \"a\" tensor \"b\" tensor, found map[2] \"a\" tensor \"c\" tensor"));
  const Map fits{{"a", random({2})}, {"b", random({2})}};
  EXPECT_TRUE(same(graphed(fits), fits.at("a") * 2));
}

// What a structure was compared by once: a row of numbers, of which two structures can have the same hash.
std::uint64_t naive_hash(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::uint64_t each : numbers) hash = (hash ^ each) * 0x100000001B3U + 1;
  return hash;
}

TEST_F(GraphedCallables, TellStructuresApartThatHaveTheSameHash) {
  using Map = std::map<std::uint64_t, Tensor>;
  // The sizes, the keys and the numbers of the tensors: the second key of the other map makes up for the first one.
  constexpr std::uint64_t first = 1, second = 1000, other_first = 2;
  const std::uint64_t other_second = second ^ naive_hash({2, first, 1}) ^ naive_hash({2, other_first, 1});
  ASSERT_EQ(naive_hash({2, first, 1, second, 2}), naive_hash({2, other_first, 1, other_second, 2}));
  ASSERT_GT(other_second, other_first) << "the order in a map";
  const auto f = [](const Map& map) { return map.contains(1) ? map.begin()->second * 2 : map.begin()->second * 3; };
  const Map sample{{first, random({2})}, {second, random({2})}};
  const auto graphed = make_graphed_callables(f, std::tuple(sample));
  EXPECT_THAT(refusal([&] {
                graphed(Map{{other_first, random({2})}, {other_second, random({2})}});
              }),
              HasSubstr("expected map[2] 1 tensor 1000 tensor, found map[2] 2 tensor"));
  EXPECT_TRUE(same(graphed(sample), f(sample)));
}

TEST_F(GraphedCallables, RefuseAsManyTensorsThatAreDistributedInAnotherWay) {
  const auto f = [](const mine::OneOrTwo& x, const mine::OneOrTwo& y) { return x.both ? x.a + x.b : y.a + y.b; };
  const mine::OneOrTwo one{random({2}), random({2}), false}, two{random({2}), random({2}), true};
  const auto graphed = make_graphed_callables(f, std::tuple(one, two));
  EXPECT_TRUE(same(graphed(one, two), f(one, two)));
  EXPECT_THAT(refusal([&] { graphed(two, one); }),
              AllOf(HasSubstr("argument 0: expected tensor, found tensor tensor"),
                    HasSubstr("argument 1: expected tensor tensor, found tensor")));
}

TEST_F(GraphedCallables, RefuseOptionalsThatAreEmptyElsewhere) {
  using Optional = std::optional<Tensor>;
  const auto f = [](const std::vector<Optional>& x) { return (x.front() ? *x.front() : *x.back()) * 2; };
  const Tensor x = random({2});
  const auto graphed = make_graphed_callables(f, std::tuple(std::vector<Optional>{x, std::nullopt}));
  EXPECT_THAT(
      refusal([&] {
        graphed(std::vector<Optional>{std::nullopt, x});
      }),
      HasSubstr("expected vector[2] optional[1] tensor | optional[0], found vector[2] optional[0] | optional[1] "
                "tensor"));
}

TEST_F(GraphedCallables, ReturnUndefinedTensorsWhereTheCallableDoes) {
  const auto graphed = make_graphed_callables(
      [](const Tensor& x) {
        return std::vector<Tensor>{Tensor(), x + 1};
      },
      random({2}));
  const auto found = graphed(torch::ones({2}, device_));
  EXPECT_FALSE(found[0].defined());
  EXPECT_EQ(found[1][0].item<float>(), 2);
}

TEST_F(GraphedCallables, TakeUndefinedTensorsWhereTheSampleWasOne) {
  const auto f = [](const Tensor& x, const Tensor& mask) { return mask.defined() ? x * mask : x + 1; };
  const auto graphed = make_graphed_callables(f, std::tuple(random({2}), Tensor()));
  const Tensor x = random({2});
  EXPECT_TRUE(same(graphed(x, Tensor()), x + 1));
  EXPECT_THAT(refusal([&] { graphed(x, x); }), HasSubstr("argument 1: expected an undefined tensor, found Float [2]"));
}

TEST_F(GraphedCallables, MayPassAnArgumentThrough) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x; }, needing_gradient({2}));
  const Tensor x = needing_gradient({2}), y = graphed(x);
  EXPECT_TRUE(same(x, y));
  (y * 3).sum().backward();
  EXPECT_TRUE(same(x.grad(), torch::full({2}, 3.F)));
}

TEST_F(GraphedCallables, MayReturnAParameterAndViews) {
  const Tensor w = needing_gradient({4, 6});
  const auto f = with_parameters(
      [w](const Tensor& x) {
        const auto halves = x.mm(w).chunk(2, 1);
        return std::tuple(w, halves[0], halves[1].t());
      },
      {w});
  const auto graphed = make_graphed_callables(f, random({2, 4}));
  const Tensor x = random({2, 4});
  const auto [own, left, right] = graphed(x);
  EXPECT_TRUE(same(own, w));
  EXPECT_TRUE(same(left, x.mm(w).slice(1, 0, 3)));
  EXPECT_TRUE(same(right, x.mm(w).slice(1, 3, 6).t()));
  (own.sum() + left.sum() + right.sum()).backward();
  EXPECT_TRUE(close(w.grad(), x.sum(0).unsqueeze(1).expand({4, 6}) + 1));
}

TEST_F(GraphedCallables, OfSeveralShareAPoolAndGiveWhatEagerGives) {
  auto a = linear(4, 8), c = linear(8, 2);
  const auto b = [](const Tensor& x) { return torch::gelu(x); };
  const auto [ga, gb, gc] = make_graphed_callables(
      std::tuple(a, b, c), std::tuple(needing_gradient({3, 4}), needing_gradient({3, 8}), needing_gradient({3, 8})));
  torch::nn::Sequential eager(a, torch::nn::GELU(), c);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = needing_gradient({3, 4}), y = x.detach().clone().requires_grad_();
    eager->zero_grad();
    eager->forward(y).pow(2).sum().backward();
    std::vector<Tensor> expected;
    for (const auto& each : eager->parameters()) expected.push_back(each.grad().clone());
    eager->zero_grad();
    gc(gb(ga(x))).pow(2).sum().backward();
    EXPECT_TRUE(same(x.grad(), y.grad()));
    for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_TRUE(same(eager->parameters()[k].grad(), expected[k]));
  }
}

TEST_F(GraphedCallables, OfOneTypeComeAsAVector) {
  std::vector<torch::nn::Linear> layers{linear(4, 4), linear(4, 4)};
  const auto graphed = make_graphed_callables(layers, std::vector<Tensor>{random({2, 4}), needing_gradient({2, 4})});
  ASSERT_EQ(graphed.size(), 2U);
  const Tensor x = random({2, 4});
  EXPECT_TRUE(same(graphed[1](graphed[0](x)), layers[1]->forward(layers[0]->forward(x))));
  EXPECT_THAT(refusal([&] { make_graphed_callables(layers, std::vector<Tensor>{x}); }),
              HasSubstr("the samples of 2 callables, found those of 1"));
}

TEST_F(GraphedCallables, ShareWeights) {
  auto layer = linear(4, 4);
  const auto graphed =
      make_graphed_callables(std::vector{layer, layer}, std::vector<Tensor>{random({2, 4}), needing_gradient({2, 4})});
  const Tensor x = random({2, 4});
  graphed[1](graphed[0](x)).sum().backward();
  const Tensor found = layer->weight.grad().clone();
  layer->zero_grad();
  layer->forward(layer->forward(x)).sum().backward();
  EXPECT_TRUE(torch::allclose(found.cpu(), layer->weight.grad().cpu()));
}

TEST_F(GraphedCallables, WriteChangedArgumentsBack) {
  const auto f = [](const Tensor& x, Tensor& count) {
    count += 1;
    return x * count;
  };
  const Tensor start = torch::zeros({}, device_);
  const auto graphed = make_graphed_callables(f, std::tuple(random({3}), start));
  EXPECT_EQ(start.item<float>(), 0) << "the sample stays";
  const Tensor x = random({3}), count = torch::full({}, 5.F, torch::TensorOptions(device_));
  const auto version = count._version();
  EXPECT_TRUE(same(graphed(x, count), x * 6));
  EXPECT_EQ(count.item<float>(), 6);
  EXPECT_TRUE(same(graphed(x, count), x * 7));
  EXPECT_EQ(count.item<float>(), 7);
  EXPECT_GT(count._version(), version) << "autograd must know";
}

TEST_F(GraphedCallables, ChangeTheirStaticArgumentsInPlace) {
  const auto graphed =
      make_graphed_callables([](Tensor& count) { return (count += 1) * 1; }, torch::zeros({2}, device_));
  const auto [count] = graphed.static_arguments();
  EXPECT_EQ(count[0].item<float>(), 0) << "what the warm-up added was undone";
  static_cast<void>(graphed(count));
  EXPECT_EQ(graphed(count)[0].item<float>(), 2);
}

TEST_F(GraphedCallables, ReadStaticArgumentsWithoutACopy) {
  auto layer = linear(4, 3);
  const auto graphed = make_graphed_callables(layer, random({2, 4}));
  const auto [input] = graphed.static_arguments();
  const Tensor x = random({2, 4});
  input.copy_(x);
  const auto version = input._version();
  EXPECT_TRUE(same(graphed(input), layer->forward(x)));
  EXPECT_EQ(input._version(), version) << "nothing was copied";
  EXPECT_TRUE(same(graphed(x), layer->forward(x)));
  EXPECT_GT(input._version(), version);
}

TEST_F(GraphedCallables, TakeArgumentsOfOtherStrides) {
  const auto graphed = make_graphed_callables([](const Tensor& x) { return x * 2; }, random({3, 4}));
  const Tensor x = random({4, 3}).t();
  EXPECT_TRUE(same(graphed(x), x * 2));
  const Tensor row = random({1, 4});
  EXPECT_TRUE(same(graphed(row.expand({3, 4})), (row * 2).expand({3, 4})));
}

}  // namespace
}  // namespace reprise::libtorch::test
