// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/libtorch/host_counters.h"
#include "tests/libtorch/both_devices/device_fixture.h"
#include "tests/support/warnings.h"

// Optimizers in captures: refused are those that count their steps on the host, and those without a state.

namespace reprise::libtorch::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A weight of ones with a gradient of ones, and the work of a step.
class OptimizersInCaptures : public OnDevice {
 protected:
  OptimizersInCaptures() { weight_.mutable_grad() = torch::ones({8}, device_); }

  std::vector<Tensor> weights() const { return {weight_}; }
  void expect_weight(float value) const {
    EXPECT_TRUE(torch::allclose(weight_.detach().cpu(), torch::full({8}, value), 0, 1e-5)) << weight_;
  }

  /// The error of a capture of the step.
  std::string refusal_of(torch::optim::Optimizer& optimizer) {
    try {
      capture(graph_, [&] { optimizer.step(); });
    } catch (const UsageError& error) {
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }
  /// \param instead what the error recommends.
  void expect_refused(torch::optim::Optimizer& optimizer, const std::string& name, const std::string& instead) {
    EXPECT_THAT(refusal_of(optimizer),
                AllOf(HasSubstr(name + "::step was called in a capture"), HasSubstr("the host"), HasSubstr(instead),
                      HasSubstr("after the replay"), HasSubstr("AllowHostCounters")));
    const auto report = graph_.capture_report();
    ASSERT_TRUE(report && report->broken_by);
    EXPECT_EQ(report->broken_by->name, name + "::step");
    EXPECT_THAT(report->str(), HasSubstr(name + "::step"));
    // Everything is usable.
    expect_weight(1);
    Tensor sum;
    capture(graph_, [&] { sum = weight_.detach() + 1; });
    graph_.replay();
    EXPECT_TRUE(same(sum, torch::full({8}, 2.0F)));
    optimizer.step();
    expect_weight(0.9F);
  }

  Tensor weight_ = torch::ones({8}, device_).requires_grad_();
  CUDAGraph graph_;
};

TEST_F(OptimizersInCaptures, AdamIsRefused) {
  torch::optim::Adam optimizer(weights(), torch::optim::AdamOptions(0.1));
  expect_refused(optimizer, "torch::optim::Adam", "take reprise::libtorch::optim::Adam,");
}

TEST_F(OptimizersInCaptures, AdamWIsRefused) {
  torch::optim::AdamW optimizer(weights(), torch::optim::AdamWOptions(0.1).weight_decay(0));
  expect_refused(optimizer, "torch::optim::AdamW", "take reprise::libtorch::optim::AdamW,");
}

TEST_F(OptimizersInCaptures, AdagradIsRefused) {
  torch::optim::Adagrad optimizer(weights(), torch::optim::AdagradOptions(0.1));
  expect_refused(optimizer, "torch::optim::Adagrad", "take reprise::libtorch::optim::Adam, AdamW or SGD");
}

TEST_F(OptimizersInCaptures, AreRefusedAlsoWhenTheyHaveAState) {
  torch::optim::Adam optimizer(weights(), torch::optim::AdamOptions(0.1));
  optimizer.step();
  EXPECT_THAT(refusal_of(optimizer), HasSubstr("torch::optim::Adam::step"));
  expect_weight(0.9F);
  optimizer.step();
}

TEST_F(OptimizersInCaptures, AreRefusedWithinASubclassAndWithinAScope) {
  struct Mine : torch::optim::Adam {
    using torch::optim::Adam::Adam;
    Tensor step(LossClosure closure = nullptr) override { return torch::optim::Adam::step(std::move(closure)); }
  };
  Mine optimizer(weights(), torch::optim::AdamOptions(0.1));
  EXPECT_THROW(
      {
        class graph scope(graph_);
        optimizer.step();
      },
      UsageError);
  EXPECT_TRUE(graph_.capture_report()->broken_by);
}

TEST_F(OptimizersInCaptures, AreRefusedAtTheEndWhenTheBodyGoesOn) {
  torch::optim::Adam optimizer(weights(), torch::optim::AdamOptions(0.1));
  graph_.capture_begin();
  EXPECT_THROW(optimizer.step(), UsageError);
  weight_.detach().add_(1);
  EXPECT_THROW(graph_.capture_end(), UsageError);
  expect_weight(1);
}

/// Steps on a thread of their own, whose current stream takes part in the capture of `graph_`.
class OptimizersOfOtherThreads : public OptimizersInCaptures {
 protected:
  /// The error of the step there, and that of the capture.
  std::pair<std::string, std::string> refusals_of(const std::function<void()>& step, CaptureMode mode) {
    std::pair<std::string, std::string> errors;
    GraphOptions options;
    options.capture_error_mode = mode;
    try {
      capture(graph_, options, [&](const StreamRef& captured) {
        std::thread([&] {
          const StreamGuard guard(captured);
          try {
            step();
          } catch (const UsageError& error) {
            errors.first = error.what();
          }
        }).join();
      });
    } catch (const UsageError& error) {
      errors.second = error.what();
    }
    return errors;
  }
};

TEST_F(OptimizersOfOtherThreads, AreRefusedThereAndAtTheEndOfTheCapture) {
  torch::optim::Adam adam(weights(), torch::optim::AdamOptions(0.1));
  torch::optim::AdamW adamw(weights(), torch::optim::AdamWOptions(0.1).weight_decay(0));
  torch::optim::Adagrad adagrad(weights(), torch::optim::AdagradOptions(0.1));
  const std::vector<std::pair<torch::optim::Optimizer*, std::string>> all = {{&adam, "torch::optim::Adam::step"},
                                                                             {&adamw, "torch::optim::AdamW::step"},
                                                                             {&adagrad, "torch::optim::Adagrad::step"}};
  for (const CaptureMode mode : {CaptureMode::global, CaptureMode::thread, CaptureMode::relaxed})
    for (const auto& [optimizer, name] : all) {
      const auto [there, here] = refusals_of([&, &one = *optimizer] { one.step(); }, mode);
      EXPECT_THAT(there, HasSubstr(name + " was called in a capture"));
      EXPECT_THAT(here, HasSubstr(name + " was called in a capture"));
      expect_weight(1);
    }
  adam.step();
  expect_weight(0.9F);
}

TEST_F(OptimizersOfOtherThreads, AreCapturedWhereThatThreadAllowsThem) {
  torch::optim::Adagrad optimizer(weights(), torch::optim::AdagradOptions(0.1));
  const auto [there, here] = refusals_of(
      [&] {
        const AllowHostCounters allowed;
        optimizer.step();
      },
      CaptureMode::thread);
  EXPECT_EQ(there, "");
  EXPECT_EQ(here, "");
  graph_.replay();
  expect_weight(0.9F);
}

TEST_F(OptimizersOfOtherThreads, LeaveTheThreadAsItWasOnceNothingIsCaptured) {
  constexpr auto key = c10::DispatchKey::DeferredInit;  // which no one else uses
  Tensor sum, zeros;
  bool included = false, included_later = true;
  std::promise<void> ran, captured;
  std::thread other;
  capture(graph_, [&](const StreamRef& stream) {
    other = std::thread([&, stream] {
      {
        const StreamGuard guard(stream);
        sum = weight_.detach() + 1;
      }
      included = c10::impl::tls_is_dispatch_key_included(key);
      ran.set_value();
      captured.get_future().wait();
      zeros = torch::zeros_like(weight_.detach());
      included_later = c10::impl::tls_is_dispatch_key_included(key);
    });
    ran.get_future().wait();
  });
  captured.set_value();
  other.join();
  EXPECT_TRUE(included);
  EXPECT_FALSE(included_later);
}

TEST_F(OptimizersInCaptures, ThatDoNotCountAreCaptured) {
  torch::optim::SGD sgd(weights(), torch::optim::SGDOptions(0.1));
  capture(graph_, [&] { sgd.step(); });
  graph_.replay();
  graph_.replay();
  expect_weight(0.8F);
  torch::optim::RMSprop rmsprop(weights(), torch::optim::RMSpropOptions(0.1).alpha(0));
  rmsprop.step();
  expect_weight(0.7F);
  CUDAGraph other;
  capture(other, [&] { rmsprop.step(); });
  other.replay();
  expect_weight(0.6F);
}

/// Optimizers that do not count, and have a state.
class OptimizersWithState : public OptimizersInCaptures {
 protected:
  template <class Optimizer, class Options>
  void expect_refused_without_state(const std::string& name, const Options& options) {
    Optimizer optimizer(weights(), options), reference(weights(), options);
    EXPECT_THAT(refusal_of(optimizer),
                AllOf(HasSubstr(name + "::step was called in a capture: its state does not exist yet"),
                      HasSubstr("GraphOptions::warmup = 1"), HasSubstr("reprise::libtorch::optim"),
                      HasSubstr("AllowHostCounters")));
    expect_weight(1);
    for (int i = 0; i < 3; ++i) reference.step();
    const Tensor expected = weight_.detach().clone();
    weight_.detach().fill_(1);
    capture(graph_, {.warmup = 1}, [&] { optimizer.step(); });
    graph_.replay();
    graph_.replay();
    EXPECT_TRUE(torch::allclose(weight_.detach(), expected)) << weight_ << expected;
    CUDAGraph other;
    Optimizer allowed_one(weights(), options);
    capture(other, [&] {
      const AllowHostCounters allowed;
      allowed_one.step();
    });
  }
};

TEST_F(OptimizersWithState, SGDWithMomentumIsRefusedWithoutOne) {
  expect_refused_without_state<torch::optim::SGD>("torch::optim::SGD", torch::optim::SGDOptions(0.1).momentum(0.9));
}

TEST_F(OptimizersWithState, RMSpropIsRefusedWithoutOne) {
  expect_refused_without_state<torch::optim::RMSprop>("torch::optim::RMSprop", torch::optim::RMSpropOptions(0.1));
}

TEST_F(OptimizersWithState, AClosureOfAStepMayMakeTensors) {
  torch::optim::SGD optimizer(weights(), torch::optim::SGDOptions(0.1).momentum(0.9));
  optimizer.step();
  expect_weight(0.9F);
  const auto closure = [&] {
    weight_.mutable_grad().copy_(torch::ones_like(weight_.detach()).clone());
    return weight_.detach().sum();
  };
  capture(graph_, [&] { optimizer.step(closure); });
  graph_.replay();
  expect_weight(0.71F);
}

TEST_F(OptimizersInCaptures, AreCapturedWhereTheyAreAllowed) {
  torch::optim::Adagrad optimizer(weights(), torch::optim::AdagradOptions(0.1));
  optimizer.step();
  expect_weight(0.9F);
  capture(graph_, [&] {
    const AllowHostCounters allowed;
    optimizer.step();
  });
  graph_.replay();
  expect_weight(0.9F - 0.1F / std::sqrt(2.0F));
  CUDAGraph other;
  EXPECT_THROW(capture(other, [&] { optimizer.step(); }), UsageError) << "outside of that scope";
}

TEST_F(OptimizersInCaptures, AreAllowedOrNotAsBeforeWhenAScopeOfAnotherThreadEnds) {
  torch::optim::Adagrad optimizer(weights(), torch::optim::AdagradOptions(0.1));
  std::unique_ptr<AllowHostCounters> theirs;
  std::thread([&] { theirs = std::make_unique<AllowHostCounters>(); }).join();
  const reprise::test::Warnings warnings;
  theirs.reset();
  EXPECT_THAT(warnings.texts(), ElementsAre(HasSubstr("ended on another thread than it began on")));
  EXPECT_THAT(refusal_of(optimizer), HasSubstr("AllowHostCounters"));
  capture(graph_, [&] {
    const AllowHostCounters allowed;
    optimizer.step();
  });
  graph_.replay();
  expect_weight(0.9F);
}

TEST_F(OptimizersInCaptures, OfEagerWorkAreNotRefused) {
  torch::optim::Adam optimizer(weights(), torch::optim::AdamOptions(0.1));
  const auto on_cpu = torch::ones({8}).requires_grad_();
  on_cpu.mutable_grad() = torch::ones({8});
  torch::optim::Adam of_cpu({on_cpu}, torch::optim::AdamOptions(0.1));
  Tensor sum;
  const Stream eager;
  eager.wait(stream_);
  GraphOptions options;
  options.capture_error_mode = CaptureMode::relaxed;
  capture(graph_, options, [&] {
    sum = weight_.detach() + 1;
    of_cpu.step();
    const StreamGuard guard(eager);
    optimizer.step();
  });
  eager.synchronize();
  expect_weight(0.9F);
  EXPECT_TRUE(torch::allclose(on_cpu.detach(), torch::full({8}, 0.9F)));
}

TEST_F(OptimizersInCaptures, LeaveOtherCallsOfTheirOperatorsAlone) {
  const auto x = torch::full({8}, 2.0F, device_);
  Tensor y;
  capture(graph_, [&] {
    y = torch::zeros_like(x);
    y.addcmul_(x, x, 0.5).addcdiv_(x, x);
  });
  graph_.replay();
  EXPECT_TRUE(same(y, torch::full({8}, 3.0F)));
}

}  // namespace
}  // namespace reprise::libtorch::test
