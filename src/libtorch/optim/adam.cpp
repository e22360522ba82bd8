// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
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
class AdamMethod final : public Method {
 public:
  static constexpr bool decays_apart = std::is_same_v<Optimizer, torch::optim::AdamW>;

  const char* name() const override {
    return decays_apart ? "reprise::libtorch::optim::AdamW" : "reprise::libtorch::optim::Adam";
  }
  c10::ScalarType rate_type() const override { return c10::kFloat; }
  const std::array<const char*, 5>& constant_names() const override {
    static constexpr std::array<const char*, 5> names = {"betas (the first)", "betas (the second)", "eps",
                                                         "weight_decay", "amsgrad"};
    return names;
  }
  Constants constants_of(const Options& options) const override {
    const auto& adam = of(options);
    const auto [first, second] = adam.betas();
    return {first, second, adam.eps(), adam.weight_decay(), adam.amsgrad() ? 1.0 : 0.0};
  }

  bool lacks_state(const Options& options, const ParameterState& state) const override {
    return !state.step.defined() || (of(options).amsgrad() && !state.max_exp_avg_sq.defined());
  }
  void add_state(const Options& options, const at::Tensor& parameter, ParameterState& state) const override {
    if (!state.step.defined()) {
      state.exp_avg = at::zeros_like(parameter);
      state.exp_avg_sq = at::zeros_like(parameter);
      state.step = at::zeros({}, parameter.options().dtype(c10::kFloat));
    }
    if (of(options).amsgrad() && !state.max_exp_avg_sq.defined()) state.max_exp_avg_sq = at::zeros_like(parameter);
  }
  void clear(ParameterState& state) const override {
    for (at::Tensor* const each : {&state.step, &state.exp_avg, &state.exp_avg_sq, &state.max_exp_avg_sq})
      if (each->defined()) each->zero_();
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

  std::unique_ptr<torch::optim::Optimizer> twin(const Groups& groups, const Options& defaults) const override {
    return std::make_unique<Optimizer>(groups, of(defaults));
  }
  void copy_states(const StateOf& state_of, torch::optim::Optimizer& twin) const override {
    std::vector<std::pair<at::Tensor, const ParameterState*>> own;
    Tensors steps;
    for (const auto& group : twin.param_groups())
      for (const at::Tensor& parameter : group.params())
        if (const ParameterState* const state = state_of(parameter); state != nullptr && state->step.defined()) {
          own.emplace_back(parameter, state);
          steps.push_back(state->step);
        }
    if (own.empty()) return;
    const at::Tensor counts = at::stack(steps).to(c10::kCPU, c10::kLong);  // one wait for all
    for (std::size_t i = 0; i < own.size(); ++i) {
      const auto& [parameter, values] = own[i];
      const auto count = counts.const_data_ptr<std::int64_t>()[i];
      if (count == 0) continue;
      auto state = std::make_unique<State>();
      state->step(count);
      state->exp_avg(values->exp_avg);
      state->exp_avg_sq(values->exp_avg_sq);
      if (values->max_exp_avg_sq.defined()) state->max_exp_avg_sq(values->max_exp_avg_sq);
      twin.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  }
  ParameterState state_in(torch::optim::Optimizer& twin, const at::Tensor& parameter) const override {
    const auto found = twin.state().find(parameter.unsafeGetTensorImpl());
    if (found == twin.state().end()) return {};
    const auto& theirs = static_cast<const State&>(*found->second);
    ParameterState state;
    state.step = at::full({}, static_cast<double>(theirs.step()), c10::kFloat);
    state.exp_avg = theirs.exp_avg();
    state.exp_avg_sq = theirs.exp_avg_sq();
    state.max_exp_avg_sq = theirs.max_exp_avg_sq();
    return state;
  }
  void assign(const Options& from, Options& to) const override { static_cast<OptimizerOptions&>(to) = of(from); }

 private:
  static const OptimizerOptions& of(const Options& options) { return static_cast<const OptimizerOptions&>(options); }
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
