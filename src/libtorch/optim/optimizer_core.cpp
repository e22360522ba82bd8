// SPDX-License-Identifier: Apache-2.0
#include "libtorch/optim/optimizer_core.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "libtorch/optim/captured_steps.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::optim::detail {
namespace {

bool fits(const ParameterState& state, const at::Tensor& parameter) {
  return std::ranges::all_of(state_parts, [&](const StatePart& part) {
    const at::Tensor& each = state.*part.tensor;
    return part.type || !each.defined() ||
           (each.sizes().equals(parameter.sizes()) && each.device() == parameter.device() &&
            each.scalar_type() == parameter.scalar_type() && each.strides().equals(parameter.strides()));
  });
}

bool is_there(const ParameterState& state, const StatePart& part) {
  return (state.*part.tensor).defined();
}

// True for types that libtorch's kernels of steps take.
bool is_trainable(c10::ScalarType type) {
  return type == c10::kFloat || type == c10::kDouble || type == c10::kHalf || type == c10::kBFloat16;
}

// Kernels of steps read gradients in the order in which parameters lie in memory.
at::Tensor laid_out_as(const at::Tensor& gradient, const at::Tensor& parameter) {
  if (gradient.strides().equals(parameter.strides()) && gradient.scalar_type() == parameter.scalar_type())
    return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

// As torch::optim: what has a gradient is trained, also if it does not require one any more.
bool is_trained(const at::Tensor& parameter) {
  return parameter.requires_grad() || parameter.grad().defined();
}

}  // namespace

c10::Device OptimizerCore::device() const {
  for (const Group& group : *groups_)
    if (!group.params().empty()) return group.params().front().device();
  return c10::kCPU;
}

void OptimizerCore::refuse_in_capture(const char* what) const {
  if (capture_of(device()).part == captures::Part::none) return;
  throw UsageError(
      text::format("{}::{} was called in a capture, which can contain its step() only: call it before or after.",
                   method_->name(), what));
}

std::string OptimizerCore::parameter_text(std::size_t group, std::size_t number) const {
  const at::Tensor& parameter = groups_->at(group).params().at(number);
  return text::format("parameter {} of group {} ({} [{}] on {})", number, group, c10::toString(parameter.scalar_type()),
                      text::join(parameter.sizes(), ", "), parameter.device().str());
}

void OptimizerCore::require_trainable(const char* what, std::size_t group, std::size_t number) const {
  const at::Tensor& parameter = groups_->at(group).params().at(number);
  if (parameter.layout() == c10::kStrided && is_trainable(parameter.scalar_type()) &&
      parameter.is_non_overlapping_and_dense() && parameter.device() == device())
    return;
  throw UsageError(text::format(
      "{}::{}: expected dense parameters of a floating-point type of 16 to 64 bits, all of them on one device, "
      "{}; found {}. Make an optimizer for each device.",
      method_->name(), what, device().str(), parameter_text(group, number)));
}

const ParameterState* OptimizerCore::state_of(const at::Tensor& parameter) const {
  const auto found = states_.find(parameter.unsafeGetTensorImpl());
  return found != states_.end() ? &found->second : nullptr;
}

void OptimizerCore::make_state(const char* what, std::size_t group, std::size_t number, bool capturing) {
  const at::Tensor& parameter = groups_->at(group).params().at(number);
  const auto& options = groups_->at(group).options();
  if (const ParameterState* const state = state_of(parameter)) {
    if (!fits(*state, parameter))
      throw UsageError(
          text::format("{}::{}: {} was moved or converted after the optimizer was made, whose state is still what it "
                       "was. Convert a module first, and make the optimizer afterwards.",
                       method_->name(), what, parameter_text(group, number)));
    if (!lacks_state(options, *state)) return;
  } else {
    require_trainable(what, group, number);
  }
  if (capturing)
    throw UsageError(
        text::format("{}::{} was called in a capture, and {} has no state yet: each replay would begin anew. Since the "
                     "last step it was added or unfrozen, or an option needs more state: take a step "
                     "before the capture, for example with GraphOptions::warmup.",
                     method_->name(), what, parameter_text(group, number)));
  own_state(options, parameter);
}

bool OptimizerCore::lacks_state(const Method::Options& options, const ParameterState& state) const {
  return !std::ranges::all_of(method_->parts(options), [&](const StatePart& part) { return is_there(state, part); });
}

// Adds what the options need and the state lacks.
ParameterState& OptimizerCore::own_state(const Method::Options& options, const at::Tensor& parameter) {
  const auto [found, added] = states_.try_emplace(parameter.unsafeGetTensorImpl());
  if (added) parameters_.push_back(parameter);
  ParameterState& own = found->second;
  const bool is_new = std::ranges::none_of(state_parts, [&](const StatePart& part) { return is_there(own, part); });
  for (const StatePart& part : method_->parts(options)) {
    if (is_there(own, part)) continue;
    const double value = is_new ? part.first : part.later;
    own.*part.tensor =
        part.type ? at::full({}, value, parameter.options().dtype(*part.type)) : at::full_like(parameter, value);
  }
  return own;
}

// A kernel would take that of a tensor on another device from the host, once.
bool OptimizerCore::has_rate(std::size_t group) const {
  return group < rates_.size() && (groups_->at(group).params().empty() || rates_[group].value.device() == device());
}

void OptimizerCore::make_rates(const char* what, bool capturing) {
  for (std::size_t i = 0; i < groups_->size(); ++i) {
    if (has_rate(i)) continue;
    if (capturing) refuse_in_capture(what);
    const double rate = groups_->at(i).options().get_lr();
    Rate made{at::full({}, rate, at::TensorOptions(device()).dtype(method_->rate_type())), rate};
    const std::lock_guard lock(mutex_);
    if (i == rates_.size()) rates_.emplace_back();
    rates_[i] = std::move(made);
  }
}

void OptimizerCore::require_distinct(const char* what) const {
  std::unordered_set<const c10::TensorImpl*> known;
  for (std::size_t i = 0; i < groups_->size(); ++i)
    for (std::size_t k = 0; k < groups_->at(i).params().size(); ++k)
      if (!known.insert(groups_->at(i).params()[k].unsafeGetTensorImpl()).second)
        throw UsageError(
            text::format("{}::{}: expected each parameter once; {} is in the list twice, as a parameter is that two "
                         "modules share. One step would update it twice at once: leave out the second one.",
                         method_->name(), what, parameter_text(i, k)));
}

void OptimizerCore::prepare(const char* what) {
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(device());
  const bool capturing = capture_of(device()).part != captures::Part::none;
  require_distinct(what);
  make_rates(what, capturing);
  for (std::size_t i = 0; i < groups_->size(); ++i)
    for (std::size_t k = 0; k < groups_->at(i).params().size(); ++k)
      if (is_trained(groups_->at(i).params()[k])) make_state(what, i, k, capturing);
}

void OptimizerCore::update_rates(const std::optional<StreamRef>& stream) {
  const std::lock_guard lock(mutex_);
  if (groups_ == nullptr) return;
  for (std::size_t i = 0; i < rates_.size() && i < groups_->size(); ++i) {
    const double now = groups_->at(i).options().get_lr();
    if (now == rates_[i].copied) continue;
    std::optional<StreamGuard> guard;
    if (stream) guard.emplace(*stream);
    const at::NoGradGuard no_grad;
    rates_[i].value.fill_(now);
    rates_[i].copied = now;
  }
}

void OptimizerCore::add_to(std::vector<StepOfGroup>& steps, std::size_t group, std::size_t number, bool capturing) {
  const at::Tensor& parameter = groups_->at(group).params().at(number);
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) {
    if (!capturing || !parameter.requires_grad()) return;
    throw UsageError(
        text::format("{}::step was called in a capture, and {} has no gradient: each replay would leave it as it is. "
                     "Call backward() before it, in the capture; if the parameter is not used there, set "
                     "requires_grad_(false), or leave it out of the optimizer.",
                     method_->name(), parameter_text(group, number)));
  }
  if (gradient.layout() != c10::kStrided)
    throw UsageError(text::format("{}::step: expected dense gradients, found a sparse one of {}.", method_->name(),
                                  parameter_text(group, number)));
  const auto same_type = [&](const StepOfGroup& each) {
    return each.parameters.front().scalar_type() == parameter.scalar_type();
  };
  const auto& options = groups_->at(group).options();
  auto found = std::ranges::find_if(
      steps, [&](const StepOfGroup& each) { return &each.options == &options && same_type(each); });
  if (found == steps.end()) {
    steps.push_back({options, rates_.at(group).value, found_inf_});
    found = std::prev(steps.end());
  }
  found->parameters.push_back(parameter);
  found->gradients.push_back(laid_out_as(gradient, parameter));
  found->states.push_back(&states_.at(parameter.unsafeGetTensorImpl()));
}

void OptimizerCore::take_step(bool capturing) {
  prepare("step");
  std::vector<StepOfGroup> steps;
  for (std::size_t i = 0; i < groups_->size(); ++i)
    for (std::size_t k = 0; k < groups_->at(i).params().size(); ++k) add_to(steps, i, k, capturing);
  if (!capturing) update_rates();
  for (const StepOfGroup& each : steps) {
    method_->step(each);
    // Kernels that libtorch does not know change values unnoticed by a backward that needs them.
    for (const at::Tensor& parameter : each.parameters)
      if (!parameter.is_inference()) parameter.unsafeGetTensorImpl()->bump_version();
  }
}

void OptimizerCore::step(const std::shared_ptr<OptimizerCore>& core) {
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(core->device());
  const captures::Found found = capture_of(core->device());
  const std::shared_ptr<CapturedSteps> captured =
      found.part == captures::Part::own ? CapturedSteps::of(*found.capture) : nullptr;
  try {
    core->take_step(found.part != captures::Part::none);
  } catch (const UsageError& error) {
    if (captured != nullptr) captured->refuse(error.what());
    throw;
  }
  if (captured != nullptr) captured->add({core, *core->groups_});
}

std::vector<at::Tensor> OptimizerCore::parameters() const {
  std::vector<at::Tensor> all;
  for (const Group& group : *groups_) all.insert(all.end(), group.params().begin(), group.params().end());
  return all;
}

std::vector<at::Tensor> OptimizerCore::state() const {
  std::vector<at::Tensor> all;
  for (const Rate& each : rates_) all.push_back(each.value);
  for (const auto& [parameter, state] : states_)
    for (const StatePart& part : state_parts)
      if (is_there(state, part)) all.push_back(state.*part.tensor);
  return all;
}

std::unique_ptr<torch::optim::Optimizer> OptimizerCore::twin(const torch::optim::OptimizerOptions& defaults) const {
  auto made = method_->twin(*groups_, defaults);
  for (const at::Tensor& parameter : parameters())
    if (const ParameterState* const own = state_of(parameter))
      if (auto theirs = method_->to_torch(*own)) made->state()[parameter.unsafeGetTensorImpl()] = std::move(theirs);
  return made;
}

void OptimizerCore::load_from(torch::optim::Optimizer& twin) {
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const auto loaded_state = [&](const at::Tensor& parameter) {
    const auto found = twin.state().find(parameter.unsafeGetTensorImpl());
    return found != twin.state().end() ? method_->from_torch(*found->second) : ParameterState();
  };
  for (std::size_t i = 0; i < groups_->size(); ++i)
    for (std::size_t k = 0; k < groups_->at(i).params().size(); ++k) {
      const at::Tensor& parameter = groups_->at(i).params()[k];
      const ParameterState loaded = loaded_state(parameter);
      for (const StatePart& part : state_parts)
        if (const at::Tensor& each = loaded.*part.tensor;
            !part.type && each.defined() && !each.sizes().equals(parameter.sizes()))
          throw UsageError(text::format("{}::load: the archive has a state of the size [{}] for {}.", method_->name(),
                                        text::join(each.sizes(), ", "), parameter_text(i, k)));
    }
  for (std::size_t i = 0; i < groups_->size(); ++i) {
    method_->assign(twin.param_groups().at(i).options(), groups_->at(i).options());
    for (const at::Tensor& parameter : groups_->at(i).params()) {
      const ParameterState loaded = loaded_state(parameter);
      const ParameterState& own = own_state(groups_->at(i).options(), parameter);
      for (const StatePart& part : state_parts) {
        if (!is_there(own, part)) continue;
        (own.*part.tensor).fill_(part.first);
        if (is_there(loaded, part)) (own.*part.tensor).copy_(loaded.*part.tensor);
      }
    }
  }
  forget_rates();
}

}  // namespace reprise::libtorch::optim::detail
