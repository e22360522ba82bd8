// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/graphed_cache.h"

#include <c10/core/InferenceMode.h>

#include <array>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/annotations.h"
#include "tests/libtorch/graphed/cached_fixture.h"
#include "tests/support/warnings.h"

// One callable, whose graphs are those of many shapes.

namespace reprise::libtorch::test {
namespace {

using ::reprise::test::Warnings;
using ::testing::HasSubstr;

void expect_same(const std::vector<Tensor>& expected, const std::vector<Tensor>& found, const std::string& where) {
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same(expected[i], found[i])) << where << ", tensor " << i;
}

TEST_F(CachedCallables, GiveTheResultsAndGradientsOfEagerRunsForEachShape) {
  Model eager = model(), graphed = model();
  const auto cached = make_graphed_callables(graphed, GraphedCacheOptions{.max_entries = 8});
  for (int round = 0; round < 5; ++round)
    for (const int length : {3, 5, 8}) {
      const Tensor x = random({length, 4});
      expect_same(trained(
                      *eager, [&](const Tensor& in) { return eager->forward(in); }, x),
                  trained(*graphed, cached, x),
                  "round " + std::to_string(round) + ", length " + std::to_string(length));
    }
  const GraphCacheStatistics counts = cached.statistics();
  EXPECT_EQ(counts.eager.number, 6u);
  EXPECT_EQ(counts.captures.number, 3u);
  EXPECT_EQ(counts.hits, 6u);
  EXPECT_EQ(cached.size(), 3u);
  const GraphMemory memory = cached.memory();
  EXPECT_EQ(memory.graphs, 6u) << "forward and backward";
  EXPECT_EQ(memory.executables, 6u);
  EXPECT_GT(memory.nodes, 6u);
  EXPECT_GT(memory.pool.reserved_bytes + memory.tensor_reserved_bytes, 0u);
}

/// State that is registered nowhere: a count of calls, and a table that the first call fills.
struct WithUnregisteredState {
  explicit WithUnregisteredState(const torch::Device& device)
      : count(torch::zeros({2, 3}, device)), table(torch::zeros({3}, device)) {}
  Tensor operator()(const Tensor& x) {
    if (!has_table) table.copy_(torch::arange(3, table.options()));
    has_table = true;
    count[1].add_(1);
    return x * count[1] + table;
  }

  Tensor count, table;
  bool has_table = false;
};

// What replaced it lies in memory of the refused capture.
TEST_F(CachedCallables, AreRefusedIfTheyReplaceWhatTheyUse) {
  for (const std::size_t capture_after : {0, 2}) {
    Tensor state = torch::zeros({3}, device_);
    const auto cached = make_graphed_callables(
        [&](const Tensor& in) {
          state = state + 1;
          return in * state;
        },
        GraphedCacheOptions{.capture_after = capture_after});
    const Tensor x = torch::ones({2, 3}, device_);
    for (std::size_t i = 0; i < capture_after; ++i) EXPECT_TRUE(same(cached(x), x * static_cast<double>(i + 1)));
    try {
      static_cast<void>(cached(x));
      FAIL() << "expected an error";
    } catch (const DeadInputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("so that the body was not run eagerly"));
    }
    state = torch::zeros({3}, device_);
    for (int i = 1; i < 4; ++i) EXPECT_TRUE(same(cached(x), x * i)) << "eager from now on";
  }
}

TEST_F(CachedCallables, DoNotAdvanceStateThatIsNotRegistered) {
  for (const bool after_eager_calls : {false, true}) {
    WithUnregisteredState eager(device_), graphed(device_);
    const auto cached = make_graphed_callables([&](const Tensor& x) { return graphed(x); },
                                               GraphedCacheOptions{.capture_after = after_eager_calls ? 2U : 0U});
    const Tensor x = needing_gradient({2, 3});
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(same(cached(x), eager(x))) << "call " << i;
    EXPECT_TRUE(same(graphed.count, eager.count));
    EXPECT_EQ(cached.statistics().captures.number, 1u);
  }
}

TEST_F(GraphedCallables, DoNotAdvanceStateThatIsNotRegistered) {
  for (const int warmup : {1, 3}) {
    WithUnregisteredState eager(device_), graphed(device_);
    const Tensor x = needing_gradient({2, 3});
    const auto made =
        make_graphed_callables([&](const Tensor& in) { return graphed(in); }, x, {.num_warmup_iters = warmup});
    EXPECT_TRUE(same(graphed.count, torch::zeros({2, 3}, device_)));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same(made(x), eager(x))) << "call " << i;
  }
}

TEST_F(CachedCallables, TrainAsEagerWithBatchesOfSeveralLengths) {
  Model eager = model(), graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 1});
  torch::optim::SGD first(eager->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD second(graphed->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 24; ++step) {
    const Tensor x = random({2 + step * step % 3, 4});
    first.zero_grad();
    second.zero_grad();
    eager->forward(x).square().mean().backward();
    cached(x).square().mean().backward();
    first.step();
    second.step();
  }
  const auto expected = eager->parameters(), found = graphed->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(same(expected[i], found[i])) << i;
  EXPECT_GT(cached.statistics().hits, 15u);
}

TEST_F(CachedCallables, RunNoCodeOfTheHostInReplays) {
  Model graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 0});
  const Tensor x = random({3, 4});
  cached(x);
  const int runs = graphed->runs;
  cached(x);
  EXPECT_EQ(graphed->runs, runs);
}

TEST_F(CachedCallables, CountNumbersTextsAndStructuresAmongTheKey) {
  const auto f = [](const std::vector<Tensor>& xs, double factor, const std::string& how) {
    Tensor sum = xs[0] * factor;
    for (std::size_t i = 1; i < xs.size(); ++i) sum = how == "add" ? sum + xs[i] : sum - xs[i];
    return sum;
  };
  const auto cached = make_graphed_callables(f, {.capture_after = 0});
  const Tensor x = random({4});
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(same(cached(std::vector{x, x}, 2.0, std::string("add")), x * 2 + x));
    EXPECT_TRUE(same(cached(std::vector{x, x}, 3.0, std::string("add")), x * 3 + x));
    EXPECT_TRUE(same(cached(std::vector{x, x}, 2.0, std::string("subtract")), x * 2 - x));
    EXPECT_TRUE(same(cached(std::vector{x, x, x}, 2.0, std::string("add")), x * 2 + x + x));
  }
  EXPECT_EQ(cached.size(), 4u);
  EXPECT_EQ(cached.statistics().hits, 4u);
}

TEST_F(CachedCallables, ReturnPairsAndArraysAsSuch) {
  const auto f = [](const Tensor& x) { return std::pair(x + 1, std::array{x * 2, x * 3}); };
  const auto cached = make_graphed_callables(f, {.capture_after = 1});
  const Tensor x = random({4});
  for (int i = 0; i < 3; ++i) {
    const std::pair<Tensor, std::array<Tensor, 2>> y = cached(x);
    EXPECT_TRUE(same(y.first, x + 1));
    EXPECT_TRUE(same(y.second[0], x * 2));
    EXPECT_TRUE(same(y.second[1], x * 3));
  }
  EXPECT_EQ(cached.statistics().hits, 1u);
}

TEST_F(CachedCallables, TellApartTensorsThatEagerRunsTellApart) {
  const auto f = [](const Tensor& x) { return x + x; };
  const auto cached = make_graphed_callables(f, {.capture_after = 0});
  const Tensor x = random({4, 4});
  const std::vector<Tensor> all{x, x.t(), x.to(torch::kDouble), x.view({2, 8}), x.detach().requires_grad_()};
  for (const Tensor& each : all) {
    const Tensor y = cached(each);
    EXPECT_TRUE(same(y, each + each));
    EXPECT_EQ(y.strides(), (each + each).strides());
    EXPECT_EQ(y.requires_grad(), each.requires_grad());
  }
  EXPECT_EQ(cached.size(), all.size());
  cached(x[0].expand({4, 4}).clone());  // another tensor of the first kind
  EXPECT_EQ(cached.size(), all.size());
}

TEST_F(CachedCallables, HaveGraphsForEachMode) {
  torch::nn::Sequential network(torch::nn::Linear(4, 4), torch::nn::Dropout(0.5));
  network->to(device_);
  const auto cached = make_graphed_callables(network, {.capture_after = 0});
  const Tensor x = random({16, 4});
  cached(x);
  network->eval();
  EXPECT_TRUE(same(cached(x), network->forward(x)));
  EXPECT_TRUE(same(cached(x), network->forward(x)));
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(cached(x).requires_grad());
  }
  network->train();
  torch::manual_seed(9);
  const Tensor expected = network->forward(x);
  torch::manual_seed(9);
  EXPECT_TRUE(same(cached(x), expected));
  EXPECT_EQ(cached.size(), 3u);
}

TEST_F(CachedCallables, ReleaseTheEntryThatWasNotUsedForLongest) {
  Model graphed = model();
  const auto cached = make_graphed_callables(graphed, {.max_entries = 2, .capture_after = 0});
  const Tensor a = random({2, 4}), b = random({3, 4}), c = random({4, 4});
  const auto y = cached(a);
  const Tensor expected = y.detach().clone();
  cached(b);
  cached(c);
  EXPECT_FALSE(cached.contains(a));
  EXPECT_TRUE(cached.contains(b));
  EXPECT_TRUE(cached.contains(c));
  EXPECT_EQ(cached.statistics().evictions.number, 1u);
}

TEST_F(CachedCallables, KeepABackwardOfAnEntryThatWasReleased) {
  Model eager = model(), graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 0});
  const Tensor x = random({3, 4});
  cached(x);
  const auto found = trained(
      *graphed,
      [&](const Tensor& in) {
        const Tensor y = cached(in);
        cached.clear();
        return y;
      },
      x);
  EXPECT_EQ(cached.size(), 0u);
  expect_same(trained(
                  *eager, [&](const Tensor& in) { return eager->forward(in); }, x),
              found, "after clear()");
}

TEST_F(CachedCallables, RefuseABackwardThatAForwardOfAnotherKeyMadeWrong) {
  Model graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 0});
  const Tensor a = random({3, 4}), b = random({5, 4});
  cached(a).sum().backward();
  cached(b).sum().backward();
  const Tensor first = cached(b).sum(), second = cached(a).sum();
  second.backward();
  EXPECT_THAT(refusal([&] { first.backward(); }), HasSubstr("overwritten"));
  cached(b).sum().backward();
}

TEST_F(CachedCallables, RunEagerlyWhatCannotBeCaptured) {
  const auto f = [](const Tensor& x) { return x * x.sum().item<float>(); };
  const auto cached = make_graphed_callables(f, {.capture_after = 1});
  const Tensor x = random({4}), y = random({5});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(cached(x), f(x)));
  const std::optional<CacheFailure> failure = cached.failure(x);
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what, HasSubstr("the capture of the forward of callable 0 (a function)"));
  EXPECT_FALSE(cached.failure(y));
  const GraphCacheStatistics counts = cached.statistics();
  EXPECT_EQ(counts.failed_captures.number, 1u);
  EXPECT_EQ(counts.eager_by_cause[static_cast<std::size_t>(EagerCause::failed)], 3u);
  EXPECT_TRUE(cached.forget(x));
  EXPECT_FALSE(cached.failure(x));
}

TEST_F(CachedCallables, PassExceptionsOfTheCallableOnAndStayUsable) {
  Model eager = model(), graphed = model();
  for (const std::size_t after : {0, 2}) {
    const auto cached = make_graphed_callables(graphed, {.capture_after = after});
    for (int i = 0; i < 4; ++i) EXPECT_THROW(cached(random({3, 5})), c10::Error) << i;
    const Tensor x = random({3, 4});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(same(cached(x), eager->forward(x)));
    EXPECT_EQ(cached.size(), 1u);
  }
}

TEST_F(CachedCallables, ArePrecededByWhatTheirArgumentsNeed) {
  Model eager = model(), graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 0});
  const Tensor x = random({3, 4});
  cached(x);
  const Stream other;
  other.wait(stream_);
  const StreamGuard guard(other);
  const Tensor shifted = x + 1;
  EXPECT_TRUE(same(cached(shifted), eager->forward(shifted)));
}

TEST_F(CachedCallables, ChangeArgumentsAsTheCallableDoes) {
  const auto f = [](Tensor x) { x.add_(1); };
  const auto cached = make_graphed_callables(f, {.capture_after = 1});
  const Tensor x = torch::zeros({3}, device_), y = torch::zeros({4}, device_);
  for (int i = 0; i < 4; ++i) {
    cached(x);
    cached(y);
  }
  EXPECT_TRUE(same(x, torch::full({3}, 4.0f)));
  EXPECT_TRUE(same(y, torch::full({4}, 4.0f)));
}

TEST_F(CachedCallables, CountAutocastAndInferenceModeAmongTheKey) {
  auto layer = linear(4, 4);
  const auto cached = make_graphed_callables(layer, {.capture_after = 0});
  const Tensor x = random({3, 4});
  EXPECT_EQ(cached(x).scalar_type(), torch::kFloat);
  {
    const Autocast autocast(torch::kHalf, device_.type());
    EXPECT_EQ(cached(x).scalar_type(), torch::kHalf);
    EXPECT_EQ(cached(x).scalar_type(), torch::kHalf);
  }
  EXPECT_EQ(cached(x).scalar_type(), torch::kFloat);
  const c10::InferenceMode inference;
  EXPECT_FALSE(cached(x).requires_grad());
  EXPECT_EQ(cached.size(), 3u);
}

TEST_F(CachedCallables, CountTheDefaultTypeAmongTheKey) {
  const auto f = [](const Tensor& x) { return x.to(c10::get_default_dtype_as_scalartype()) * 2; };
  const auto cached = make_graphed_callables(f, {.capture_after = 0});
  const Tensor x = torch::arange(4, torch::TensorOptions(torch::kInt).device(device_));
  const auto type = [&] { return cached(x).scalar_type(); };
  EXPECT_EQ(type(), torch::kFloat);
  torch::set_default_dtype(caffe2::TypeMeta::fromScalarType(torch::kDouble));
  const bool of_double = type() == torch::kDouble && type() == torch::kDouble;
  torch::set_default_dtype(caffe2::TypeMeta::fromScalarType(torch::kFloat));
  EXPECT_TRUE(of_double);
  EXPECT_EQ(type(), torch::kFloat);
  EXPECT_EQ(cached.size(), 2u);
}

TEST_F(CachedCallables, AreBoundedInBytes) {
  const auto f = [](const Tensor& x) { return x * 2; };
  const auto cached = make_graphed_callables(f, {.max_bytes = std::uint64_t{24} << 20, .capture_after = 0});
  for (int mebibytes = 1; mebibytes < 9; ++mebibytes) {  // 36 MiB of results, as many of inputs
    const Tensor x = random({mebibytes << 18});
    EXPECT_TRUE(same(cached(x), x * 2));
    const GraphCacheStatistics counts = cached.statistics();
    EXPECT_LE(counts.pool_bytes + counts.entry_bytes, counts.max_bytes);
  }
  EXPECT_GT(cached.statistics().evictions.number, 0u);
}

TEST_F(CachedCallables, GiveTheirMemoryBack) {
  const auto f = [](const Tensor& x) { return x * 2; };
  const Tensor x = random({1000});
  const PoolStatistics before = memory_of_tensors();
  {
    const auto cached = make_graphed_callables(f, {.capture_after = 0});
    for (int i = 1; i < 5; ++i) cached(x.slice(0, 0, 100 * i));
  }
  EXPECT_TRUE(all_released(before));
}

TEST_F(CachedCallables, AreRefusedInACapture) {
  Model graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 0});
  const Tensor x = random({3, 4});
  on_side_stream([&] { graphed->forward(x); });
  CUDAGraph graph;
  EXPECT_THAT(refusal([&] { graph = capture([&] { cached(x); }); }),
              HasSubstr("expected a current stream that is not being captured"));
  cached(x);
}

TEST_F(CachedCallables, RefuseWhatTheyCannotDo) {
  Model graphed = model();
  const auto text = [&](const GraphedCacheOptions& options) {
    return refusal([&] { make_graphed_callables(graphed, options); });
  };
  EXPECT_THAT(text({.max_entries = 0}), HasSubstr("GraphedCacheOptions::max_entries to be at least 1"));
  EXPECT_THAT(text({.callable = {.pool = graph_pool_handle()}}), HasSubstr("GraphedCallableOptions::pool"));
  const auto cached = make_graphed_callables([](const Tensor& x) { return x + 1; }, {.capture_after = 0});
  EXPECT_THAT(refusal([&] { cached(torch::ones({2})); }), HasSubstr("cpu"));
  cached(random({2}));
  const auto numbers = make_graphed_callables([](double x) { return x; }, {.capture_after = 0});
  EXPECT_THAT(refusal([&] { numbers(1.0); }), HasSubstr("to determine the device; found none"));
}

TEST_F(CachedCallables, NameParametersThatWereReplacedUntilTheyAreCleared) {
  auto layer = linear(4, 4);
  const auto cached = make_graphed_callables(layer, {.capture_after = 0});
  const Tensor x = random({3, 4});
  cached(x);
  layer->bias.set_data(layer->bias.detach() + 1);
  EXPECT_THAT(refusal([&] { cached(x); }), HasSubstr("bias has other memory now"));
  cached.clear();
  EXPECT_TRUE(same(cached(x), layer->forward(x)));
}

// Keys come back and are released in random order.
TEST_F(CachedCallables, GiveTheResultsOfEagerRunsInRandomCalls) {
  const Warnings warnings;  // of keys that are called too seldom
  const auto f = [](const Tensor& x, const Tensor& y, double factor, bool adds) {
    const Tensor z = torch::tanh(x * factor) + y;
    return adds ? z + x : z * x;
  };
  const auto cached = make_graphed_callables(f, {.max_entries = 5, .capture_after = 1});
  std::mt19937_64 numbers(7);
  for (int call = 0; call < 400; ++call) {
    const auto rows = static_cast<std::int64_t>(1 + numbers() % 6);
    const Tensor x = random({rows, 3}), y = numbers() % 4 == 0 ? x : random({rows, 3});
    const double factor = numbers() % 3 == 0 ? 0.5 : 2;
    const bool adds = numbers() % 2 == 0;
    ASSERT_TRUE(same(cached(x, y, factor, adds), f(x, y, factor, adds))) << "call " << call;
    if (numbers() % 50 == 0) cached.clear();
  }
  const GraphCacheStatistics counts = cached.statistics();
  EXPECT_GT(counts.hits, 20u);
  EXPECT_GT(counts.evictions.number, 20u);
}

TEST_F(CachedCallables, OfEightThreadsWorkAtOnce) {
  const Warnings warnings;  // likewise
  const auto work = [&](int seed) {
    const DeviceGuard device(here_);
    const Stream mine(here_);
    const StreamGuard guard(mine);
    const auto f = [](const Tensor& x, double factor) { return x * factor + 1; };
    const auto cached = make_graphed_callables(f, {.max_entries = 3, .capture_after = 1});
    for (int call = 0; call < 40; ++call) {
      const Tensor x = torch::full({1 + (call * seed) % 5}, call, torch::TensorOptions().device(device_));
      ASSERT_TRUE(same(cached(x, seed), f(x, seed))) << "thread " << seed << ", call " << call;
    }
  };
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 8; ++seed) threads.emplace_back(work, seed);
  for (std::thread& each : threads) each.join();
}

TEST_F(CachedCallables, MayBeCalledByThreadsInTurn) {
  Model eager = model(), graphed = model();
  const auto cached = make_graphed_callables(graphed, {.capture_after = 1});
  for (int i = 0; i < 4; ++i)
    std::thread([&] {
      const DeviceGuard device(here_);
      const StreamGuard guard(stream_);
      const torch::NoGradGuard no_grad;
      const Tensor x = random({3 + i % 2, 4});
      EXPECT_TRUE(same(cached(x), eager->forward(x)));
    }).join();
  EXPECT_GT(cached.size(), 0u);
}

TEST_F(CachedCallables, RunEagerlyWhereArgumentsThatTheyChangeShareMemory) {
  const auto f = [](Tensor a, const Tensor& b) { a.add_(b); };
  const auto cached = make_graphed_callables(f, {.capture_after = 0});
  const Tensor x = torch::ones({3}, device_), y = torch::ones({3}, device_);
  for (int i = 0; i < 2; ++i) {
    cached(x, y);
    cached(y, y);
  }
  EXPECT_TRUE(same(x, torch::full({3}, 4.0f)));
  EXPECT_TRUE(same(y, torch::full({3}, 4.0f)));
  EXPECT_TRUE(cached.contains(x, y));
  EXPECT_FALSE(cached.contains(y, y));
  const auto g = make_graphed_callables([](const Tensor& a, const Tensor& b) { return a + b; }, {.capture_after = 0});
  EXPECT_TRUE(same(g(x, x), x + x));
  EXPECT_TRUE(g.contains(x, x));
}

TEST_F(CachedCallables, DistinguishViewsOfOneStorageThatOverlapFromThoseThatLieApart) {
  const auto adding = [](Tensor a, const Tensor& b) {
    a.mul_(2);
    a.add_(b.sum());  // of values that the first operator may have changed
  };
  const auto subtracting = [](const Tensor& a, const Tensor& b) { return a * 2 - b; };
  for (const bool apart_first : {true, false}) {
    const auto changes = make_graphed_callables(adding, {.capture_after = 0});
    const auto reads = make_graphed_callables(subtracting, {.capture_after = 0});
    for (int i = 0; i < 6; ++i) {
      // Views of 4 values at 0 and at `distance`: those at 2 and 3 overlap.
      const int distance = std::array{4, 2, 5, 3, 6, 2}[static_cast<std::size_t>(apart_first ? i : 5 - i)];
      Tensor found = random({12});
      Tensor expected = found.clone();
      const auto first = [](const Tensor& x) { return x.slice(0, 0, 4); };
      const auto second = [&](const Tensor& x) { return x.slice(0, distance, distance + 4); };
      adding(first(expected), second(expected));
      changes(first(found), second(found));
      EXPECT_TRUE(same(found, expected)) << distance;
      EXPECT_EQ(changes.contains(first(found), second(found)), distance >= 4) << "otherwise it runs eagerly";
      EXPECT_TRUE(same(reads(first(found), second(found)), subtracting(first(found), second(found)))) << distance;
    }
    EXPECT_EQ(changes.size(), 1u) << "that of views which lie apart, whatever their distance";
    EXPECT_EQ(changes.statistics().hits, 2u);
    EXPECT_EQ(reads.size(), 2u);
  }
}

TEST_F(CachedCallables, FindAutocastWithoutTensorsAmongTheArguments) {
  auto layer = linear(4, 4);
  const Tensor x = random({3, 4});
  const auto cached = make_graphed_callables(
      with_module([=](double factor) mutable { return layer->forward(x * factor); }, layer), {.capture_after = 0});
  EXPECT_EQ(cached(2.0).scalar_type(), torch::kFloat);
  const Autocast autocast(torch::kHalf, device_.type());
  EXPECT_EQ(cached(2.0).scalar_type(), torch::kHalf);
  EXPECT_EQ(cached.size(), 2u);
}

TEST_F(CachedCallables, LeaveBackwardsThatArePendingValid) {
  torch::nn::Sequential network(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4));
  network->to(device_);
  const auto one = make_graphed_callables(network, {.capture_after = 0});
  const auto other = make_graphed_callables(network, {.capture_after = 0});
  const Tensor a = needing_gradient({3, 4}), b = needing_gradient({5, 4});
  one(a).sum().backward();
  network->eval();
  const Tensor first = one(a);  // uses the statistics
  const Tensor eager = network->forward(a);
  const Tensor second = other(b);  // is captured
  first.sum().backward();
  eager.sum().backward();
  second.sum().backward();
}

TEST_F(CachedCallables, CaptureAnewWhileAResultOfAReleasedEntryLives) {
  const torch::NoGradGuard no_grad;
  const auto cached =
      make_graphed_callables([](const Tensor& x) { return x * 2; }, {.max_entries = 1, .capture_after = 0});
  const Tensor a = random({3}), b = random({4});
  Tensor y = cached(a);
  for (int i = 0; i < 3; ++i) {
    y = cached(b);
    EXPECT_TRUE(same(y, b * 2));
    y = cached(a);
    EXPECT_TRUE(same(y, a * 2));
  }
  EXPECT_FALSE(cached.failure(a));
  EXPECT_FALSE(cached.failure(b));
}

TEST_F(CachedCallables, TakeUndefinedAndEmptyTensors) {
  const auto f = [](const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x * 2; };
  const auto cached = make_graphed_callables(f, {.capture_after = 0});
  const Tensor x = random({3}), empty = random({0});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(same(cached(x, Tensor()), x * 2));
    EXPECT_TRUE(same(cached(x, x), x + x));
    EXPECT_EQ(cached(empty, Tensor()).numel(), 0);
  }
  EXPECT_GE(cached.size(), 2u);
}

TEST_F(CachedCallables, ThatWereMovedFromAreTheSameCallable) {
  auto cached = make_graphed_callables([](const Tensor& x) { return x * 2; }, {.capture_after = 0});
  const Tensor x = random({3});
  const auto other = std::move(cached);
  EXPECT_TRUE(same(cached(x), x * 2));
  EXPECT_TRUE(other.contains(x));
  EXPECT_TRUE(cached.capture(x));
  EXPECT_FALSE(cached.failure(x));
  EXPECT_TRUE(cached.forget(x));
  cached.clear();
  EXPECT_EQ(other.size(), 0u);
}

TEST_F(CachedCallables, AnswerBeforeTheFirstCall) {
  const auto cached = make_graphed_callables([](const Tensor& x) { return x * 2; }, {});
  const Tensor x = random({3});
  EXPECT_EQ(cached.size(), 0u);
  EXPECT_EQ(cached.statistics().captures.number, 0u);
  EXPECT_EQ(cached.memory().graphs, 0u);
  EXPECT_FALSE(cached.contains(x));
  EXPECT_FALSE(cached.failure(x));
  EXPECT_FALSE(cached.forget(x));
  cached.clear();
}

TEST_F(CachedCallables, MayBeCalledWithinAHookOfAnotherGraph) {
  const auto cached = make_graphed_callables([](const Tensor& x) { return x * 2; }, {.capture_after = 0});
  const Tensor x = random({3});
  Tensor y;
  on_side_stream([&] { static_cast<void>(x + 1); });
  CUDAGraph graph = capture([&] { y = x + 1; });
  int calls = 0;
  GraphHooks hooks;
  hooks.before_replay = [&](const StreamRef&) { calls += same(cached(x), x * 2) ? 1 : 0; };
  graph.add_hooks(hooks);
  graph.replay();
  graph.replay();
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace reprise::libtorch::test
