// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include "reprise/libtorch/grad_scaler.h"
#include "tests/libtorch/optim/optim_fixture.h"

// Gradient scaling on the device: the decisions of the host, to the last bit.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::SGDOptions;

class GradScalers : public CapturedOptimizers {
 protected:
  static constexpr GradScalerOptions quickly{.init_scale = 1024, .growth_interval = 4};

  /// Steps whose gradients overflow: apart, in a row, and between two growths.
  static bool overflows(int step) {
    static constexpr std::array all = {0, 3, 17, 18, 19, 40, 77, 123, 124, 180, 199};
    return std::find(all.begin(), all.end(), step) != all.end();
  }

  /// Gradients as a backward of the scaled loss leaves them; in an overflow one value is infinite or not a number.
  static void set_scaled(const Parameters& parameters, const GradScaler& scaler, int step) {
    set_gradients(parameters, step);
    const double scale = scaler.get_scale();
    for (const Tensor& each : parameters) each.grad().mul_(scale);
    if (!overflows(step)) return;
    const double value = step % 2 == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    parameters[1].grad()[2][3].fill_(value);
  }

  static void iterate(GradScaler& scaler, torch::optim::Optimizer& optimizer) {
    scaler.step(optimizer);
    scaler.update();
  }

  /// 200 steps in a graph, and those that have no overflow eagerly without a scaler.
  template <class Optimizer, class Options>
  void expect_the_steps_without_overflow(const Options& options) {
    const Parameters found = make_parameters(), expected = make_parameters();
    Optimizer in_graph(found, options), eager(expected, options);
    GradScaler scaler(device_, quickly);
    graph_.reset();
    capture(graph_, [&] { iterate(scaler, in_graph); });
    double scale = 1024;
    int good = 0, skipped = 0;
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(scaler.get_scale(), scale) << "step " << i;
      set_scaled(found, scaler, i);
      graph_.replay();
      if (overflows(i)) {
        scale /= 2;
        good = 0;
        ++skipped;
      } else {
        set_gradients(expected, i);
        eager.step();
        if (++good == 4) {
          good = 0;
          scale *= 2;
        }
      }
      if (i % 20 == 0) expect_same(found, expected);
    }
    expect_same(found, expected);
    EXPECT_EQ(scaler.skipped_steps(), skipped);
  }
};

TEST_F(GradScalers, OfSgdGiveTheStepsWithoutOverflowToTheLastBit) {
  expect_the_steps_without_overflow<optim::SGD>(SGDOptions(0.1));
  expect_the_steps_without_overflow<optim::SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.3).weight_decay(0.01));
}

TEST_F(GradScalers, OfAdamGiveTheStepsWithoutOverflowToTheLastBit) {
  expect_the_steps_without_overflow<optim::Adam>(AdamOptions(0.01));
}

TEST_F(GradScalers, OfAdamWGiveTheStepsWithoutOverflowToTheLastBit) {
  expect_the_steps_without_overflow<optim::AdamW>(AdamWOptions(0.01).amsgrad(true));
}

TEST_F(GradScalers, LeaveEvenTheSignsOfZerosAsTheyAreInASkippedStep) {
  const Tensor weight = torch::full({4}, -0.0, device_).requires_grad_();
  weight.mutable_grad() = torch::full({4}, std::nan(""), device_);
  for (const double momentum : {0.0, 0.9}) {
    optim::SGD own({weight}, SGDOptions(0.1).momentum(momentum));
    GradScaler scaler(device_);
    iterate(scaler, own);
    EXPECT_TRUE(torch::signbit(weight.detach().cpu()).all().item<bool>()) << momentum;
    EXPECT_EQ(scaler.skipped_steps(), 1);
    EXPECT_EQ(scaler.get_scale(), 32768);
  }
}

TEST_F(GradScalers, ScaleLossesWithTheirHistory) {
  const Tensor weight = torch::full({3}, 2.0F, device_).requires_grad_();
  optim::SGD own({weight}, SGDOptions(0.5));
  GradScaler scaler(device_);
  scaler.scale(weight.sum()).backward();
  EXPECT_TRUE(same(weight.grad(), torch::full({3}, 65536.0F)));
  scaler.unscale_(own);
  EXPECT_TRUE(same(weight.grad(), torch::ones({3})));
  iterate(scaler, own);
  EXPECT_TRUE(same(weight.detach(), torch::full({3}, 1.5F))) << "gradients are divided once";
}

TEST_F(GradScalers, SkipTheStepOfOneOfTwoOptimizersAndBackOffForBoth) {
  const Tensor a = torch::ones({2}, device_).requires_grad_(), b = torch::ones({2}, device_).requires_grad_();
  optim::SGD of_a({a}, SGDOptions(1)), of_b({b}, SGDOptions(1));
  GradScaler scaler(device_);
  a.mutable_grad() = torch::full({2}, 65536.0F, device_);
  b.mutable_grad() = torch::full({2}, std::numeric_limits<float>::infinity(), device_);
  scaler.step(of_a);
  scaler.step(of_b);
  scaler.update();
  EXPECT_TRUE(same(a.detach(), torch::zeros({2})));
  EXPECT_TRUE(same(b.detach(), torch::ones({2})));
  EXPECT_EQ(scaler.get_scale(), 32768);
  EXPECT_EQ(scaler.skipped_steps(), 1);
}

TEST_F(GradScalers, RefuseCallsInAnotherOrderAndGoOn) {
  const Tensor weight = torch::ones({2}, device_).requires_grad_();
  optim::SGD own({weight}, SGDOptions(1));
  GradScaler scaler(device_);
  EXPECT_THAT(refusal([&] { scaler.update(); }), HasSubstr("neither step() nor unscale_() was called"));
  EXPECT_THAT(refusal([&] { scaler.step(own); }), HasSubstr("no parameter of reprise::libtorch::optim::SGD has any"));
  EXPECT_THAT(refusal([&] { scaler.unscale_(own); }), HasSubstr("GradScaler::unscale_: expected gradients"));
  weight.mutable_grad() = torch::full({2}, 65536.0F, device_);
  scaler.unscale_(own);
  EXPECT_THAT(refusal([&] { scaler.unscale_(own); }), HasSubstr("unscale_() was called already"));
  scaler.step(own);
  EXPECT_THAT(refusal([&] { scaler.unscale_(own); }), HasSubstr("step() was called already"));
  EXPECT_THAT(refusal([&] { scaler.step(own); }), HasSubstr("step() was called already"));
  scaler.update();
  EXPECT_THAT(refusal([&] { scaler.update(); }), HasSubstr("since the last update()"));
  EXPECT_TRUE(same(weight.detach(), torch::zeros({2})));
  EXPECT_EQ(scaler.get_scale(), 65536);
}

TEST_F(GradScalers, ForgetWhatACaptureThatFailedLeftHalfDone) {
  const Tensor weight = torch::ones({2}, device_).requires_grad_(), other = torch::ones({2}, device_).requires_grad_();
  optim::SGD own({weight, other}, SGDOptions(1));
  GradScaler scaler(device_);
  weight.mutable_grad() = torch::full({2}, 65536.0F, device_);
  EXPECT_THAT(refusal([&] { capture(graph_, [&] { scaler.step(own); }); }), HasSubstr("has no gradient"));
  other.requires_grad_(false);
  capture(graph_, [&] { iterate(scaler, own); });
  graph_.replay();
  EXPECT_TRUE(same(weight.detach(), torch::zeros({2})));
  EXPECT_THAT(refusal([&] { scaler.update(); }), HasSubstr("since the last update()"))
      << "the steps of a graph are none of eager work";
}

TEST_F(GradScalers, RefuseOptimizersThatCountOnTheHost) {
  const Tensor weight = torch::ones({2}, device_).requires_grad_();
  weight.mutable_grad() = torch::ones({2}, device_);
  torch::optim::Adam adam({weight}, AdamOptions(0.1));
  GradScaler scaler(device_);
  const auto refused = AllOf(HasSubstr("found torch::optim::Adam"), HasSubstr("AdamW of reprise::libtorch::optim"));
  EXPECT_THAT(refusal([&] { scaler.step(adam); }), AllOf(HasSubstr("GradScaler::step"), refused));
  EXPECT_THAT(refusal([&] { scaler.unscale_(adam); }), AllOf(HasSubstr("GradScaler::unscale_"), refused));
}

TEST_F(GradScalers, RefuseGradientsAndLossesThatTheyCannotScale) {
  const Tensor half = torch::ones({2}, torch::TensorOptions(torch::kHalf).device(device_)).requires_grad_();
  half.mutable_grad() = torch::ones_like(half);
  optim::SGD own({half}, SGDOptions(1));
  GradScaler scaler(device_);
  EXPECT_THAT(refusal([&] { scaler.step(own); }),
              AllOf(HasSubstr("expected dense gradients of type float32 or float64"), HasSubstr("found one Half [2]")));
  EXPECT_TRUE(same(half.grad(), torch::ones({2}, torch::kHalf)));
  EXPECT_THAT(refusal([&] { scaler.scale(torch::ones({})); }), HasSubstr("found one on cpu"));
  EXPECT_THAT(refusal([&] { scaler.scale({}); }), HasSubstr("found an undefined tensor"));
}

TEST_F(GradScalers, ReportAScaleThatIsNoneAtTheNextQuery) {
  const Tensor weight = torch::ones({2}, device_).requires_grad_();
  optim::SGD own({weight}, SGDOptions(1));
  GradScaler scaler(device_, {.init_scale = 1e-44, .backoff_factor = 0.1});
  weight.mutable_grad() = torch::full({2}, std::nan(""), device_);
  capture(graph_, [&] { iterate(scaler, own); });
  for (int i = 0; i < 3; ++i) graph_.replay();
  try {
    scaler.get_scale();
    ADD_FAILURE() << "a scale of zero was returned";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("expected a finite scale above 0, found 0"), HasSubstr("update(new_scale)")));
  }
  scaler.update(256);
  EXPECT_EQ(scaler.get_scale(), 256);
  std::stringstream archive;
  {
    torch::serialize::OutputArchive out;
    out.write("scale", c10::IValue(std::nan("")));
    out.write("growth_factor", c10::IValue(2.0));
    out.write("backoff_factor", c10::IValue(0.1));
    out.write("growth_interval", c10::IValue(2000));
    out.write("_growth_tracker", c10::IValue(0));
    out.write("skipped_steps", c10::IValue(0));
    out.save_to(archive);
  }
  torch::load(scaler, archive);
  graph_.replay();
  EXPECT_THROW(scaler.get_scale(), Error) << "not a number";
  EXPECT_TRUE(same(weight.detach(), torch::ones({2})));
}

TEST_F(GradScalers, RefuseAllThatWaitsInACapture) {
  GradScaler scaler(device_);
  std::stringstream archive;
  torch::save(scaler, archive);
  const auto in_capture = [&](const std::function<void()>& call) {
    graph_.reset();
    return refusal([&] { capture(graph_, call); });
  };
  EXPECT_THAT(in_capture([&] { scaler.get_scale(); }), HasSubstr("GradScaler::get_scale was called in a capture"));
  EXPECT_THAT(in_capture([&] { scaler.skipped_steps(); }), HasSubstr("skipped_steps was called in a capture"));
  EXPECT_THAT(in_capture([&] {
                std::stringstream out;
                torch::save(scaler, out);
              }),
              HasSubstr("save was called in a capture"));
  EXPECT_THAT(in_capture([&] { torch::load(scaler, archive); }), HasSubstr("load was called in a capture"));
  EXPECT_THAT(in_capture([&] { GradScaler another(device_); }), HasSubstr("constructor was called in a capture"));
  EXPECT_EQ(scaler.get_scale(), 65536);
}

TEST_F(GradScalers, RefuseOptionsOutOfTheirRange) {
  const auto refused = [&](const GradScalerOptions& options) {
    return refusal([&] { GradScaler scaler(device_, options); });
  };
  EXPECT_THAT(refused({.init_scale = 0}), HasSubstr("init_scale: expected a finite number above 0, found 0"));
  EXPECT_THAT(refused({.init_scale = std::nan("")}), HasSubstr("init_scale"));
  EXPECT_THAT(refused({.growth_factor = 1}), HasSubstr("growth_factor: expected a finite number above 1, found 1"));
  EXPECT_THAT(refused({.backoff_factor = 1}), HasSubstr("backoff_factor: expected a number between 0 and 1, found 1"));
  EXPECT_THAT(refused({.growth_interval = 0}), HasSubstr("growth_interval: expected 1 or more, found 0"));
  GradScaler scaler(device_);
  EXPECT_THAT(refusal([&] { scaler.update(-1); }), HasSubstr("expected a finite scale above 0, found -1"));
}

TEST_F(GradScalers, ContinueFromAnArchiveWithTheSameNumbers) {
  const Parameters found = make_parameters(), expected = make_parameters();
  optim::Adam of_found(found, AdamOptions(0.01)), of_expected(expected, AdamOptions(0.01));
  GradScaler whole(device_, quickly), first(device_, quickly), second(device_, quickly);
  const auto train = [&](GradScaler& scaler, optim::Adam& optimizer, const Parameters& parameters, int from, int to) {
    for (int i = from; i < to; ++i) {
      set_scaled(parameters, scaler, i);
      iterate(scaler, optimizer);
    }
  };
  train(whole, of_expected, expected, 0, 30);
  train(first, of_found, found, 0, 15);
  capture(graph_, [&] { iterate(second, of_found); });
  std::stringstream archive;
  torch::save(first, archive);
  torch::load(second, archive);
  EXPECT_EQ(second.skipped_steps(), 2);
  for (int i = 15; i < 30; ++i) {
    set_scaled(found, second, i);
    graph_.replay();
  }
  expect_same(found, expected);
  EXPECT_EQ(second.get_scale(), whole.get_scale());
}

TEST_F(GradScalers, RefuseArchivesWithOtherFactorsAndChangeNothing) {
  GradScaler scaler(device_), other(device_, {.init_scale = 2, .growth_interval = 7});
  std::stringstream archive;
  torch::save(other, archive);
  EXPECT_THAT(refusal([&] { torch::load(scaler, archive); }),
              HasSubstr("the archive has growth_interval = 7, and this scaler 2000"));
  EXPECT_EQ(scaler.get_scale(), 65536);
}

TEST_F(GradScalers, ThatAreNotEnabledDoNothing) {
  const Tensor weight = torch::ones({2}, device_).requires_grad_();
  optim::SGD own({weight}, SGDOptions(1));
  GradScaler scaler(device_, {.enabled = false});
  scaler.scale(weight.sum()).backward();
  scaler.unscale_(own);
  iterate(scaler, own);
  EXPECT_TRUE(same(weight.detach(), torch::zeros({2})));
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(scaler.skipped_steps(), 0);
}

TEST_F(GradScalers, AreKeptByTheirGraph) {
  const Tensor weight = torch::ones({2}, device_).requires_grad_();
  weight.mutable_grad() = torch::full({2}, 1024.0F, device_);
  {
    optim::SGD own({weight}, SGDOptions(0.25));
    GradScaler scaler(device_, quickly);
    capture(graph_, [&] { iterate(scaler, own); });
  }
  std::vector<Tensor> others;  // in memory that is free
  for (int i = 0; i < 64; ++i) others.push_back(torch::zeros({1}, device_));
  graph_.replay();
  EXPECT_TRUE(same(weight.detach(), torch::full({2}, 0.75F)));
  for (const Tensor& each : others) EXPECT_EQ(each.item<float>(), 0);
}

}  // namespace
}  // namespace reprise::libtorch::test
