// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <torch/library.h>
#include <torch/optim/sgd.h>

#include <cstddef>
#include <optional>

#include "libtorch/optim/method.h"
#include "support/immortal.h"

namespace reprise::libtorch::optim::detail {
namespace {

// On the host device, too, whose fallback calls it when the work runs.
void on_cpu(at::TensorList tensors, at::TensorList others, const at::Tensor& scale) {
  const double number = scale.item<double>();
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].add_(others[i], -number);
}

// A product and sum that are rounded once, as the kernel of at::Tensor::add_ does it. That of addcmul_ would round
// `scale` to a type of 16 bits; the fused step keeps it, and adds in float64 before it rounds.
void on_cuda(at::TensorList tensors, at::TensorList others, const at::Tensor& scale) {
  const c10::ScalarType type = tensors[0].scalar_type();
  if (type != c10::kFloat && type != c10::kDouble) {
    at::_fused_sgd_(tensors, others, {}, /*weight_decay=*/0, /*momentum=*/0, scale.to(c10::kFloat), /*dampening=*/0,
                    /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
    return;
  }
  const at::Tensor factor = scale.to(type).neg();
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].addcmul_(others[i], factor);
}

struct Operators {
  Operators() {
    library.def("subtract_scaled_(Tensor(a!)[] self, Tensor[] other, Tensor scale) -> ()");
    library.impl("subtract_scaled_", c10::DispatchKey::CPU, &on_cpu);
    library.impl("subtract_scaled_", c10::DispatchKey::CUDA, &on_cuda);
  }
  torch::Library library{torch::Library::FRAGMENT, "reprise", std::nullopt, __FILE__, __LINE__};
};

// `each -= scale * other`, where `scale` is a number on the device, rounded as `each.add_(other, -scale)` with a number
// of the host: once, after the sum. All tensors are of one type and device; `scale` is a float64 without dimensions. An
// operator, `reprise::subtract_scaled_`.
void subtract_scaled_(at::TensorList tensors, at::TensorList others, const at::Tensor& scale) {
  static const support::Immortal<Operators> operators;
  static_cast<void>(operators);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise::subtract_scaled_", "")
                             .typed<void(at::TensorList, at::TensorList, const at::Tensor&)>();
  op.call(tensors, others, scale);
}

// The operators of torch::optim::SGD on lists of tensors, in its order, so that everything is rounded as there.
// libtorch's fused step would round the average once instead of twice.
class SgdMethod final : public MethodOf<torch::optim::SGD, torch::optim::SGDOptions> {
 public:
  const char* name() const override { return "reprise::libtorch::optim::SGD"; }
  c10::ScalarType rate_type() const override { return c10::kDouble; }
  Constants constants_of(const Options& options) const override {
    const auto& sgd = of(options);
    return {{{"momentum", sgd.momentum()},
             {"dampening", sgd.dampening()},
             {"weight_decay", sgd.weight_decay()},
             {"nesterov", sgd.nesterov() ? 1.0 : 0.0}}};
  }
  std::span<const StatePart> parts(const Options& options) const override {
    if (of(options).momentum() == 0) return {};
    return std::span(state_parts).subspan(4, of(options).dampening() != 0 ? 2 : 1);
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

  std::unique_ptr<TorchState> to_torch(const ParameterState& own) const override {
    if (!own.momentum_buffer.defined()) return nullptr;
    // Without a step, a buffer there would take away from the first update.
    if (own.is_new.defined() && own.is_new.item<bool>()) return nullptr;
    auto state = std::make_unique<torch::optim::SGDParamState>();
    state->momentum_buffer(own.momentum_buffer);
    return state;
  }
  ParameterState from_torch(const TorchState& state) const override {
    ParameterState own;
    own.momentum_buffer = static_cast<const torch::optim::SGDParamState&>(state).momentum_buffer();
    own.is_new = at::full({}, !own.momentum_buffer.defined(), c10::kBool);
    return own;
  }

 private:
  static void update(const StepOfGroup& group) {
    const auto& sgd = of(group.options);
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
    const double dampening = of(group.options).dampening();
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
