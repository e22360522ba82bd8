// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <torch/optim/sgd.h>

#include <cstddef>

#include "libtorch/optim/method.h"
#include "libtorch/optim/subtract_scaled.h"

namespace reprise::libtorch::optim::detail {
namespace {

const torch::optim::SGDOptions& sgd_options(const Method::Options& options) {
  return static_cast<const torch::optim::SGDOptions&>(options);
}

// The operators of torch::optim::SGD on lists of tensors, in its order, so that everything is rounded as there.
// libtorch's fused step would round the average once instead of twice.
class SgdMethod final : public Method {
 public:
  const char* name() const override { return "reprise::libtorch::optim::SGD"; }
  c10::ScalarType rate_type() const override { return c10::kDouble; }
  const std::array<const char*, 5>& constant_names() const override {
    static constexpr std::array<const char*, 5> names = {"momentum", "dampening", "weight_decay", "nesterov", nullptr};
    return names;
  }
  Constants constants_of(const Options& options) const override {
    const auto& sgd = sgd_options(options);
    return {sgd.momentum(), sgd.dampening(), sgd.weight_decay(), sgd.nesterov() ? 1.0 : 0.0, 0};
  }

  bool lacks_state(const Options& options, const ParameterState& state) const override {
    const auto& sgd = sgd_options(options);
    return sgd.momentum() != 0 &&
           (!state.momentum_buffer.defined() || (sgd.dampening() != 0 && !state.is_new.defined()));
  }
  void add_state(const Options& options, const at::Tensor& parameter, ParameterState& state) const override {
    const auto& sgd = sgd_options(options);
    const bool begins = !state.momentum_buffer.defined();
    if (begins) state.momentum_buffer = at::full_like(parameter, -0.0);
    if (sgd.dampening() != 0 && !state.is_new.defined())
      state.is_new = at::full({}, begins, parameter.options().dtype(c10::kBool));
  }
  void clear(ParameterState& state) const override {
    if (state.momentum_buffer.defined()) state.momentum_buffer.fill_(-0.0);
    if (state.is_new.defined()) state.is_new.fill_(true);
  }

  // Restores what a skipped step changed: products and sums with zeros would not leave values as they are, next to
  // gradients that are infinite.
  void step(const StepOfGroup& group) const override {
    if (!group.found_inf.defined()) return update(group);
    std::vector<at::Tensor> changed, before;
    for (const at::Tensor& each : group.parameters) changed.push_back(each.detach());
    for (const ParameterState* const state : group.states)
      for (const at::Tensor* const each : {&state->momentum_buffer, &state->is_new})
        if (each->defined()) changed.push_back(*each);
    for (const at::Tensor& each : changed) before.push_back(each.clone());
    update(group);
    const at::Tensor skipped = group.found_inf.gt(0);
    for (std::size_t i = 0; i < changed.size(); ++i) at::where_out(changed[i], skipped, before[i], changed[i]);
  }

  std::unique_ptr<torch::optim::Optimizer> twin(const Groups& groups, const Options& defaults) const override {
    return std::make_unique<torch::optim::SGD>(groups, sgd_options(defaults));
  }
  void copy_states(const StateOf& state_of, torch::optim::Optimizer& twin) const override {
    for (const auto& group : twin.param_groups())
      for (const at::Tensor& parameter : group.params()) {
        const ParameterState* const own = state_of(parameter);
        if (own == nullptr || !own->momentum_buffer.defined()) continue;
        // Without a step, a buffer there would take away from the first update.
        if (own->is_new.defined() && own->is_new.item<bool>()) continue;
        auto state = std::make_unique<torch::optim::SGDParamState>();
        state->momentum_buffer(own->momentum_buffer);
        twin.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
      }
  }
  ParameterState state_in(torch::optim::Optimizer& twin, const at::Tensor& parameter) const override {
    const auto found = twin.state().find(parameter.unsafeGetTensorImpl());
    if (found == twin.state().end()) return {};
    ParameterState state;
    state.momentum_buffer = static_cast<torch::optim::SGDParamState&>(*found->second).momentum_buffer();
    state.is_new = at::full({}, !state.momentum_buffer.defined(), c10::kBool);
    return state;
  }
  void assign(const Options& from, Options& to) const override {
    static_cast<torch::optim::SGDOptions&>(to) = sgd_options(from);
  }

 private:
  static void update(const StepOfGroup& group) {
    const auto& sgd = sgd_options(group.options);
    std::vector<at::Tensor> updates = group.gradients;
    if (sgd.weight_decay() != 0) updates = at::_foreach_add(updates, group.parameters, sgd.weight_decay());
    if (sgd.momentum() != 0) {
      std::vector<at::Tensor> buffers;
      for (const ParameterState* const state : group.states) buffers.push_back(state->momentum_buffer);
      at::_foreach_mul_(buffers, sgd.momentum());
      add_updates(group, buffers, updates);
      updates = sgd.nesterov() ? at::_foreach_add(updates, buffers, sgd.momentum()) : buffers;
    }
    subtract_scaled_(group.parameters, updates, group.rate);
  }

  // The first update is not dampened, also if a replay takes that step.
  static void add_updates(const StepOfGroup& group, const std::vector<at::Tensor>& buffers,
                          const std::vector<at::Tensor>& updates) {
    const double dampening = sgd_options(group.options).dampening();
    if (dampening == 0) return at::_foreach_add_(buffers, updates, 1);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const at::Tensor& is_new = group.states[i]->is_new;
      at::Tensor scale = at::full({}, dampening - 1, is_new.options().dtype(c10::kDouble));
      subtract_scaled_(buffers[i], updates[i], scale.masked_fill_(is_new, -1));
      is_new.fill_(false);
    }
  }
};

}  // namespace

std::unique_ptr<const Method> sgd_method() {
  return std::make_unique<SgdMethod>();
}

}  // namespace reprise::libtorch::optim::detail
