// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/libtorch/eager_tensors.h"
#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/support/text_of.h"

// Captures with eager parts of tensors.

namespace reprise::libtorch::test {
namespace {

using reprise::test::text_of;
using ::testing::HasSubstr;

class EagerPartsWithTensors : public OnDevice {
 protected:
  Tensor counting(std::int64_t n) const { return here(torch::arange(n, torch::kFloat)); }
};

TEST_F(EagerPartsWithTensors, ReturnThemForTheSegmentsBehind) {
  const Tensor x = counting(8), y = here(torch::zeros({8}));
  const auto body = [&](const Tensor& state, const Tensor& sum) {
    state.add_(1);
    // The host decides by the values: no graph could.
    const Tensor kept = eager([state] {
      const double mean = state.mean().item<double>();
      return state.cpu().gt(mean).to(torch::kFloat).to(state.device());
    });
    sum.add_(kept * state);
  };
  const Tensor x_eager = x.clone(), y_eager = y.clone();
  BreakableGraph graph = breakable([&] { body(x, y); });
  all_eager([&] { body(x_eager, y_eager); });
  EXPECT_TRUE(same(y, y_eager));
  for (int i = 0; i < 3; ++i) {
    x.mul_(-1.5);
    x_eager.mul_(-1.5);
    graph.replay();
    all_eager([&] { body(x_eager, y_eager); });
    EXPECT_TRUE(same(y, y_eager)) << i;
  }
  EXPECT_EQ(graph.statistics().result_bytes, 8 * sizeof(float));
}

TEST_F(EagerPartsWithTensors, MayReturnStructuresAndTransposedTensors) {
  const Tensor x = counting(6), y = here(torch::zeros({3, 2}));
  BreakableGraph graph = breakable([&] {
    x.add_(1);
    const auto [first, rest] = eager([x] {
      return std::pair(x.reshape({2, 3}).t(), std::vector<Tensor>{(x * 2).reshape({3, 2}), x.to(torch::kLong)});
    });
    y.copy_(first + rest[0]);
    x.add_(rest[1]);
  });
  graph.replay();
  Tensor x_eager = counting(6), y_eager;
  for (int i = 0; i < 2; ++i) {
    x_eager.add_(1);
    y_eager = x_eager.reshape({2, 3}).t() + (x_eager * 2).reshape({3, 2});
    x_eager = x_eager + x_eager.to(torch::kLong);
  }
  EXPECT_TRUE(same(x, x_eager));
  EXPECT_TRUE(same(y, y_eager));
}

TEST_F(EagerPartsWithTensors, OfOtherShapesTypesOrStructuresAreRefused) {
  const Tensor x = counting(4);
  std::int64_t size = 4, count = 1;
  auto type = torch::kFloat;
  BreakableGraph graph = breakable([&] {
    const std::vector<Tensor> made = eager([&size, &count, &type, device = device_] {
      return std::vector<Tensor>(static_cast<std::size_t>(count),
                                 torch::ones({size}, torch::TensorOptions().device(device).dtype(type)));
    });
    x.add_(made[0]);
  });
  size = 5;
  EXPECT_THAT(text_of<UsageError>([&] { graph.replay(); }), HasSubstr("sizes [4]"));
  size = 4;
  type = torch::kDouble;
  EXPECT_THAT(text_of<UsageError>([&] { graph.replay(); }), HasSubstr("as tensor 0; found a tensor of"));
  type = torch::kFloat;
  count = 2;
  EXPECT_THAT(text_of<UsageError>([&] { graph.replay(); }), HasSubstr("in the same structure"));
  count = 1;
  graph.replay();
  EXPECT_TRUE(same(x, counting(4) + 2));
}

TEST_F(EagerPartsWithTensors, OnTheCpuAreRefused) {
  const Tensor x = counting(4);
  EXPECT_THAT(text_of<UsageError>([&] {
                static_cast<void>(breakable([&] {
                  x.add_(1);
                  const Tensor made = eager([] { return torch::ones({4}); });
                }));
              }),
              HasSubstr("on which it is captured"));
}

TEST_F(EagerPartsWithTensors, ATensorThatIsReplacedBehindItsSegmentIsRefused) {
  for (const bool in_eager_part : {false, true}) {
    Tensor state = counting(8);
    const Tensor x = here(torch::zeros({8}));
    EXPECT_THAT(text_of<DeadInputError>([&] {
                  static_cast<void>(breakable([&] {
                    x.copy_(state);
                    eager([&] {
                      if (in_eager_part) state = Tensor();
                    });
                    if (!in_eager_part) state = x + 1;
                    x.add_(1);
                  }));
                }),
                HasSubstr("breakable: 1 input of the graph `segment 1` is dead"));
  }
}

TEST_F(EagerPartsWithTensors, DrawTheRandomNumbersOfEagerRuns) {
  Tensor a, b;
  torch::manual_seed(3);
  BreakableGraph graph = breakable([&] {
    a = torch::rand({16}, device_);
    const Tensor drawn = eager([device = device_] { return torch::rand({16}, device); });
    b = drawn + torch::rand({16}, device_);
  });
  graph.replay();
  torch::manual_seed(3);
  Tensor expected_a, expected_b;
  for (int i = 0; i < 2; ++i) {
    expected_a = torch::rand({16}, device_);
    const Tensor drawn = torch::rand({16}, device_);
    expected_b = drawn + torch::rand({16}, device_);
  }
  EXPECT_TRUE(same(a, expected_a));
  EXPECT_TRUE(same(b, expected_b));
}

TEST_F(EagerPartsWithTensors, MayTrainAroundThem) {
  Tensor weight = torch::ones({4}, device_).requires_grad_(), eager_weight = torch::ones({4}, device_).requires_grad_();
  const Tensor x = counting(4);
  const auto step = [&x](Tensor& w) {
    const Tensor gradient = torch::autograd::grad({(w * x).pow(2).sum()}, {w})[0];
    const Tensor scale = eager([gradient] {
      return torch::full({}, gradient.norm().item<float>() > 10 ? 0.001f : 0.01f, gradient.options());
    });
    const torch::NoGradGuard no_grad;
    w.sub_(gradient * scale);
  };
  BreakableGraph graph = breakable({.warmup = 1}, [&] { step(weight); });
  for (int i = 0; i < 5; ++i) graph.replay();
  for (int i = 0; i < 7; ++i) step(eager_weight);
  EXPECT_TRUE(same(weight.detach(), eager_weight.detach()));
}

}  // namespace
}  // namespace reprise::libtorch::test
