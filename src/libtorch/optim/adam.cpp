// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "libtorch/optim/method.h"

namespace reprise::libtorch::optim::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors of_states(const StepOfGroup& group, at::Tensor ParameterState::*member) {
  Tensors all;
  for (const ParameterState* const state : group.states) all.push_back(state->*member);
  return all;
}

/// Adam or AdamW of torch::optim.
template <class Optimizer, class OptimizerOptions, class State>
class AdamMethod final : public MethodOf<Optimizer, OptimizerOptions> {
  using Base = MethodOf<Optimizer, OptimizerOptions>;
  using Base::of;
  using typename Base::Options;

 public:
  static constexpr bool decays_apart = std::is_same_v<Optimizer, torch::optim::AdamW>;

  const char* name() const override {
    return decays_apart ? "reprise::libtorch::optim::AdamW" : "reprise::libtorch::optim::Adam";
  }
  c10::ScalarType rate_type() const override { return c10::kFloat; }
  Constants constants_of(const Options& options) const override {
    const auto& adam = of(options);
    const auto [first, second] = adam.betas();
    return {{{"betas (the first)", first},
             {"betas (the second)", second},
             {"eps", adam.eps()},
             {"weight_decay", adam.weight_decay()},
             {"amsgrad", adam.amsgrad() ? 1.0 : 0.0}}};
  }
  std::span<const StatePart> parts(const Options& options) const override {
    return std::span(state_parts).first(of(options).amsgrad() ? 4 : 3);
  }

  // As Python's fused step with `capturable`.
  void step(const StepOfGroup& group) const override {
    const auto& adam = of(group.options);
    const Tensors steps = of_states(group, &ParameterState::step);
    const Tensors maxima = adam.amsgrad() ? of_states(group, &ParameterState::max_exp_avg_sq) : Tensors{};
    const auto [first, second] = adam.betas();
    std::optional<at::Tensor> found_inf;
    if (group.found_inf.defined()) found_inf = group.found_inf;
    at::_foreach_add_(steps, 1);
    const auto fused = [&, first = first, second = second](const auto& operation) {
      operation(group.parameters, group.gradients, of_states(group, &ParameterState::exp_avg),
                of_states(group, &ParameterState::exp_avg_sq), maxima, steps, group.rate, first, second,
                adam.weight_decay(), adam.eps(), adam.amsgrad(), /*maximize=*/false, /*grad_scale=*/std::nullopt,
                found_inf);
    };
    if constexpr (decays_apart)
      fused([](const auto&... arguments) { at::_fused_adamw_(arguments...); });
    else
      fused([](const auto&... arguments) { at::_fused_adam_(arguments...); });
    if (found_inf) at::_foreach_add_(steps, *found_inf, -1);  // a step that was skipped does not count
  }

  std::unique_ptr<Method::TorchState> to_torch(const ParameterState& own) const override {
    const auto count = own.step.defined() ? own.step.to(c10::kLong).template item<std::int64_t>() : 0;
    if (count == 0) return nullptr;
    auto state = std::make_unique<State>();
    state->step(count);
    state->exp_avg(own.exp_avg);
    state->exp_avg_sq(own.exp_avg_sq);
    if (own.max_exp_avg_sq.defined()) state->max_exp_avg_sq(own.max_exp_avg_sq);
    return state;
  }
  ParameterState from_torch(const Method::TorchState& state) const override {
    const auto& theirs = static_cast<const State&>(state);
    ParameterState own;
    own.step = at::full({}, static_cast<double>(theirs.step()), c10::kFloat);
    own.exp_avg = theirs.exp_avg();
    own.exp_avg_sq = theirs.exp_avg_sq();
    own.max_exp_avg_sq = theirs.max_exp_avg_sq();
    return own;
  }
};

}  // namespace

std::unique_ptr<const Method> adam_method() {
  using namespace torch::optim;
  return std::make_unique<AdamMethod<Adam, AdamOptions, AdamParamState>>();
}

std::unique_ptr<const Method> adamw_method() {
  using namespace torch::optim;
  return std::make_unique<AdamMethod<AdamW, AdamWOptions, AdamWParamState>>();
}

}  // namespace reprise::libtorch::optim::detail
