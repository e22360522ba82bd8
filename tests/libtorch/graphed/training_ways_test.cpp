// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/libtorch/graphed/graphed_fixture.h"
#include "tests/libtorch/support/training.h"

// Ways to train that keep gradients over several backwards, or change them: bitwise what eager training gives.

namespace reprise::libtorch::test {
namespace {

const char* name_of(Gradients gradients) {
  return gradients == Gradients::fresh ? "fresh" : "alias";
}

class WaysOfTraining : public GraphedCallables,
                       public ::testing::WithParamInterface<std::tuple<const char*, Gradients>> {
 protected:
  static constexpr int steps = 50;
  using Forward = std::function<Tensor(const Tensor&)>;
  using Losses = std::vector<Tensor>;

  Network network_here() const {
    const char* const name = std::get<0>(GetParam());
    Network made = make_network(name, comparable_dropout(name, 0.3));
    made->to(device_);
    return made;
  }
  static Forward original(const Network& network) {
    return [network](const Tensor& x) { return network->forward(x); };
  }
  Tensor loss_of(const Forward& forward, const Batch& batch) const {
    const Tensor target = here(batch.target), output = forward(here(batch.input));
    return target.is_floating_point() ? torch::mse_loss(output, target) : torch::cross_entropy_loss(output, target);
  }
  const Batch& batch(int number) const { return batches_[static_cast<std::size_t>(number) % batches_.size()]; }

  void expect_same_training(const Network& eager, const Network& graphed, const Losses& expected,
                            const Losses& found) const {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_TRUE(same(expected[i], found[i])) << "loss " << i;
    EXPECT_FALSE(same(found.front(), found.back())) << "nothing was trained";
    const auto state = state_of(*eager);
    for (const auto& each : state_of(*graphed)) EXPECT_TRUE(same(each.value(), state[each.key()])) << each.key();
  }

  // The same training of two networks, one as it is and one graphed.
  template <class Train>
  void expect_graphed_equals_eager(const Train& train) {
    const Network eager = network_here(), graphed = network_here();
    const auto callable = make_graphed_callables(graphed, here(batch(0).input), options_);
    torch::manual_seed(12);
    const Losses expected = train(*eager, original(eager));
    torch::manual_seed(12);
    const Losses found = train(*graphed, [&](const Tensor& x) { return callable(x); });
    expect_same_training(eager, graphed, expected, found);
  }

  const std::vector<Batch> batches_ = make_batches(std::get<0>(GetParam()), steps);
  const GraphedCallableOptions options_ = with_gradients(std::get<1>(GetParam()));
};

// Adds gradients up that the next backward overwrites.
class Sum {
 public:
  explicit Sum(const NetworkImpl& network) : parameters_(network.parameters()), sums_(parameters_.size()) {}
  void add() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      Tensor& gradient = parameters_[i].mutable_grad();
      if (gradient.defined()) sums_[i] = sums_[i].defined() ? sums_[i].add_(gradient) : gradient.clone();
      gradient = Tensor();
    }
  }
  void set() {
    for (std::size_t i = 0; i < sums_.size(); ++i) parameters_[i].mutable_grad() = std::exchange(sums_[i], {});
  }

 private:
  std::vector<Tensor> parameters_, sums_;
};

TEST_P(WaysOfTraining, WithGradientsOfMicroBatchesAddedUp) {
  expect_graphed_equals_eager([&](NetworkImpl& network, const Forward& forward) {
    const auto optimizer = make_optimizer("SGD with momentum", network);
    Sum sum(network);
    Losses losses;
    for (int i = 0; i < steps; ++i) {
      optimizer->zero_grad(/*set_to_none=*/i % 3 != 0);
      for (int k = 0; k < 2; ++k) {
        const Tensor loss = loss_of(forward, batch(2 * i + k)) / 2;
        loss.backward();
        if (options_.gradients == Gradients::alias) sum.add();
        losses.push_back(loss.detach().cpu());
      }
      if (options_.gradients == Gradients::alias) sum.set();
      optimizer->step();
    }
    return losses;
  });
}

// What Python's GradScaler does: the loss is scaled, gradients are unscaled, and a step with infinite ones is left out.
TEST_P(WaysOfTraining, WithGradientScaling) {
  expect_graphed_equals_eager([&](NetworkImpl& network, const Forward& forward) {
    const auto optimizer = make_optimizer("SGD with momentum", network);
    float scale = 65536;
    int left_out = 0;
    Losses losses;
    for (int i = 0; i < steps; ++i) {
      optimizer->zero_grad();
      const Tensor loss = loss_of(forward, batch(i));
      const float too_large = i % 10 == 4 ? std::numeric_limits<float>::infinity() : 1.F;
      (loss * scale * too_large).backward();
      bool finite = true;
      for (const Tensor& each : network.parameters()) {
        if (!each.grad().defined()) continue;
        each.mutable_grad().mul_(1 / scale);
        finite = finite && each.grad().isfinite().all().item<bool>();
      }
      if (finite) optimizer->step();
      left_out += finite ? 0 : 1;
      scale = finite ? scale * 1.25F : scale / 2;
      losses.push_back(loss.detach().cpu());
    }
    EXPECT_EQ(left_out, steps / 10);
    return losses;
  });
}

// Two networks whose graphs share a pool; both go forward before one goes backward.
TEST_P(WaysOfTraining, OfTwoNetworksInOnePool) {
  const std::vector<Network> eager{network_here(), network_here()}, graphed{network_here(), network_here()};
  const auto callables = make_graphed_callables(graphed, std::vector(2, here(batch(0).input)), options_);
  const auto train = [&](const std::vector<Network>& networks, const std::vector<Forward>& forwards) {
    torch::manual_seed(12);
    const auto first = make_optimizer("SGD", *networks[0]), second = make_optimizer("SGD with momentum", *networks[1]);
    Losses losses;
    for (int i = 0; i < steps; ++i) {
      first->zero_grad();
      second->zero_grad();
      const Tensor a = loss_of(forwards[0], batch(i)), b = loss_of(forwards[1], batch(i + 1));
      b.backward();
      a.backward();
      first->step();
      second->step();
      losses.push_back(a.detach().cpu());
      losses.push_back(b.detach().cpu());
    }
    return losses;
  };
  const Losses expected = train(eager, {original(eager[0]), original(eager[1])});
  const Losses found = train(
      graphed, {[&](const Tensor& x) { return callables[0](x); }, [&](const Tensor& x) { return callables[1](x); }});
  for (std::size_t i = 0; i < 2; ++i) expect_same_training(eager[i], graphed[i], expected, found);
}

INSTANTIATE_TEST_SUITE_P(Networks, WaysOfTraining,
                         ::testing::Combine(::testing::Values("perceptron", "convolutions", "lstm", "transformer"),
                                            ::testing::Values(Gradients::fresh, Gradients::alias)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param)) + "_" + name_of(std::get<1>(each.param));
                         });

}  // namespace
}  // namespace reprise::libtorch::test
