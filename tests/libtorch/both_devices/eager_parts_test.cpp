// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include "reprise/breakable.h"
#include "reprise/error.h"
#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/support/text_of.h"

// Captures with eager parts of tensors.

namespace reprise::libtorch::test {
namespace {

using ::reprise::test::text_of;
using ::testing::HasSubstr;

class EagerPartsWithTensors : public OnDevice {
 protected:
  Tensor counting(std::int64_t n) const { return here(torch::arange(n, torch::kFloat)); }
};

TEST_F(EagerPartsWithTensors, FillThemForTheSegmentsBehind) {
  const Tensor x = counting(8), y = here(torch::zeros({8})), kept = here(torch::zeros({8}));
  const auto body = [&](const Tensor& state, const Tensor& sum) {
    state.add_(1);
    // The host decides by the values: no graph could.
    eager([state, kept] {
      const double mean = state.mean().item<double>();
      kept.copy_(state.cpu().gt(mean));
    });
    sum.add_(kept * state);
  };
  const Tensor x_eager = x.clone(), y_eager = y.clone();
  BreakableGraph graph = breakable([&] { body(x, y); });
  body(x_eager, y_eager);
  EXPECT_TRUE(same(y, y_eager));
  for (int i = 0; i < 3; ++i) {
    x.mul_(-1.5);
    x_eager.mul_(-1.5);
    graph.replay();
    body(x_eager, y_eager);
    EXPECT_TRUE(same(y, y_eager)) << i;
  }
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
  const Tensor drawn = torch::zeros({16}, device_);
  torch::manual_seed(3);
  BreakableGraph graph = breakable([&] {
    a = torch::rand({16}, device_);
    eager([drawn] { drawn.copy_(torch::rand({16}, drawn.device())); });
    b = drawn + torch::rand({16}, device_);
  });
  graph.replay();
  torch::manual_seed(3);
  Tensor expected_a, expected_b;
  for (int i = 0; i < 2; ++i) {
    expected_a = torch::rand({16}, device_);
    const Tensor also_drawn = torch::rand({16}, device_);
    expected_b = also_drawn + torch::rand({16}, device_);
  }
  EXPECT_TRUE(same(a, expected_a));
  EXPECT_TRUE(same(b, expected_b));
}

TEST_F(EagerPartsWithTensors, MayTrainAroundThem) {
  Tensor weight = torch::ones({4}, device_).requires_grad_(), eager_weight = torch::ones({4}, device_).requires_grad_();
  const Tensor x = counting(4), scale = here(torch::zeros({}));
  const auto step = [&x, &scale](Tensor& w) {
    const Tensor gradient = torch::autograd::grad({(w * x).pow(2).sum()}, {w})[0];
    eager([gradient, scale] { scale.fill_(gradient.norm().item<float>() > 10 ? 0.001f : 0.01f); });
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
