// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/grad_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "libtorch/optim/captured_steps.h"
#include "libtorch/optim/scaler_core.h"
#include "libtorch/tensor_device.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace detail {
namespace {

bool is_scale(double value) {
  return std::isfinite(value) && value > 0;
}

void check(bool right, const char* option, const char* expected, double found) {
  if (!right) throw UsageError(text::format("GradScalerOptions::{}: expected {}, found {}.", option, expected, found));
}

const GradScalerOptions& checked(const GradScalerOptions& options) {
  check(is_scale(options.init_scale), "init_scale", "a finite number above 0", options.init_scale);
  check(std::isfinite(options.growth_factor) && options.growth_factor > 1, "growth_factor", "a finite number above 1",
        options.growth_factor);
  check(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor", "a number between 0 and 1",
        options.backoff_factor);
  check(options.growth_interval > 0, "growth_interval", "1 or more", options.growth_interval);
  return options;
}

}  // namespace

ScalerCore::ScalerCore(c10::Device of, const GradScalerOptions& wanted) : device(of), options(checked(wanted)) {
  refuse_in_capture("constructor");
  const c10::InferenceMode no_inference(false);
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(device);
  const auto on_device = at::TensorOptions(device);
  scale = at::full({}, options.init_scale, on_device.dtype(c10::kFloat));
  device = scale.device();  // with the index of the current device, if it had none
  growth_tracker = at::zeros({}, on_device.dtype(c10::kInt));
  skipped = at::zeros({}, on_device.dtype(c10::kLong));
}

void ScalerCore::refuse_in_capture(const char* what) const {
  if (capture_of(device).part == captures::Part::none) return;
  throw UsageError(
      text::format("GradScaler::{} was called in a capture, which can contain scale(), unscale_(), step() and update() "
                   "only: call it before, or after a replay.",
                   what));
}

// Each call that may be captured begins with it: the graph keeps the memory, and what other captures have left half
// done is forgotten. Returns the id of the capture; 0: none.
std::uint64_t ScalerCore::enter() {
  const captures::Found found = capture_of(device);
  const std::uint64_t capture = found.id();
  if (found.part == captures::Part::own) optim::detail::CapturedSteps::of(*found.capture)->keep(shared_from_this());
  std::erase_if(rounds, [&](const Round& each) {
    return each.optimizer.expired() || (each.capture != 0 && capture != 0 && each.capture != capture);
  });
  return capture;
}

ScalerCore::Round* ScalerCore::round_of(const std::shared_ptr<OptimizerCore>& optimizer, std::uint64_t capture) {
  const auto found = std::ranges::find_if(
      rounds, [&](const Round& each) { return each.capture == capture && each.optimizer.lock() == optimizer; });
  return found != rounds.end() ? &*found : nullptr;
}

std::vector<at::Tensor> ScalerCore::gradients_of(const OptimizerCore& optimizer, const char* what) const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : optimizer.parameters()) {
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    const c10::ScalarType type = gradient.scalar_type();
    if (gradient.layout() != c10::kStrided || gradient.device() != scale.device() ||
        (type != c10::kFloat && type != c10::kDouble))
      throw UsageError(text::format(
          "GradScaler::{}: expected dense gradients of type float32 or float64 on {}, found one {} [{}] on "
          "{}{}. Keep parameters in float32, and let autocast convert what operators take.",
          what, scale.device().str(), c10::toString(type), text::join(gradient.sizes(), ", "), gradient.device().str(),
          gradient.layout() == c10::kStrided ? "" : ", which is sparse"));
    gradients.push_back(gradient);
  }
  return gradients;
}

void ScalerCore::add_round(const std::shared_ptr<OptimizerCore>& optimizer, std::uint64_t capture, const char* what) {
  std::map<c10::ScalarType, std::vector<at::Tensor>> by_type;
  for (at::Tensor& each : gradients_of(*optimizer, what)) by_type[each.scalar_type()].push_back(std::move(each));
  if (by_type.empty())
    throw UsageError(
        text::format("GradScaler::{}: expected gradients, and no parameter of {} has any. Call scale(loss).backward() "
                     "before it, and zero_grad() after the step.",
                     what, optimizer->method().name()));
  // The reciprocal is rounded once, as in PyTorch.
  const at::Tensor inverse = scale.to(c10::kDouble).reciprocal().to(c10::kFloat);
  at::Tensor found_inf = at::zeros({}, scale.options());
  for (const auto& [type, gradients] : by_type)
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
  rounds.push_back({optimizer, capture, std::move(found_inf)});
}

}  // namespace detail

using detail::is_scale;
using detail::ScalerCore;

GradScaler::GradScaler(c10::Device device, const GradScalerOptions& options)
    : core_(std::make_shared<ScalerCore>(device, options)) {}

at::Tensor GradScaler::scale(const at::Tensor& outputs) {
  if (!core_->options.enabled) return outputs;
  if (!outputs.defined() || outputs.device() != core_->device)
    throw UsageError(text::format("GradScaler::scale: expected a loss on {}, found {}.", core_->scale.device().str(),
                                  outputs.defined() ? "one on " + outputs.device().str() : "an undefined tensor"));
  core_->enter();
  return outputs * core_->scale;
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  const auto optimizer_core = optim::detail::core_of(optimizer, "GradScaler::unscale_");
  if (!core_->options.enabled) return;
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(core_->device);
  const std::uint64_t capture = core_->enter();
  if (const ScalerCore::Round* const round = core_->round_of(optimizer_core, capture))
    throw UsageError(text::format(
        "GradScaler::unscale_: {} already for {} since the last update(). The order is scale(), unscale_(), "
        "step(), update(), each once.",
        round->stepped ? "step() was called" : "unscale_() was called", optimizer_core->method().name()));
  core_->add_round(optimizer_core, capture, "unscale_");
}

void GradScaler::step(torch::optim::Optimizer& optimizer) {
  const auto optimizer_core = optim::detail::core_of(optimizer, "GradScaler::step");
  if (!core_->options.enabled) {
    optimizer.step();
    return;
  }
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(core_->device);
  const std::uint64_t capture = core_->enter();
  ScalerCore::Round* round = core_->round_of(optimizer_core, capture);
  if (round != nullptr && round->stepped)
    throw UsageError(text::format(
        "GradScaler::step: step() was called already for {} since the last update(). The order is scale(), "
        "unscale_(), step(), update(), each once.",
        optimizer_core->method().name()));
  if (round == nullptr) {
    core_->add_round(optimizer_core, capture, "step");
    round = &core_->rounds.back();
  }
  optimizer_core->skip_if(round->found_inf);
  const auto no_longer = c10::make_scope_exit([&] { optimizer_core->skip_if({}); });
  optimizer.step();
  round->stepped = true;
  core_->skipped.add_(round->found_inf.gt(0));
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!core_->options.enabled) return;
  if (new_scale && !is_scale(*new_scale))
    throw UsageError(text::format("GradScaler::update: expected a finite scale above 0, found {}.", *new_scale));
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(core_->device);
  const std::uint64_t capture = core_->enter();
  at::Tensor found_inf;
  for (const ScalerCore::Round& each : core_->rounds)
    if (each.capture == capture) found_inf = found_inf.defined() ? found_inf + each.found_inf : each.found_inf;
  if (!found_inf.defined() && !new_scale)
    throw UsageError(
        "GradScaler::update: neither step() nor unscale_() was called since the last update(). Call it once after the "
        "steps of all optimizers.");
  if (new_scale)
    core_->scale.fill_(*new_scale);
  else
    at::_amp_update_scale_(core_->scale, core_->growth_tracker, found_inf, core_->options.growth_factor,
                           core_->options.backoff_factor, core_->options.growth_interval);
  std::erase_if(core_->rounds, [&](const ScalerCore::Round& each) { return each.capture == capture; });
}

double GradScaler::get_scale() const {
  if (!core_->options.enabled) return 1;
  core_->refuse_in_capture("get_scale");
  const double scale = core_->scale.item<double>();
  if (!is_scale(scale))
    throw Error(text::format(
        "GradScaler::get_scale: expected a finite scale above 0, found {}: all steps are skipped. Gradients "
        "that overflow in each step have brought it there, or work on the device has written to it. Find "
        "what overflows, and set another scale with update(new_scale).",
        scale));
  return scale;
}

std::int64_t GradScaler::skipped_steps() const {
  core_->refuse_in_capture("skipped_steps");
  return core_->skipped.item<std::int64_t>();
}

void GradScaler::save(torch::serialize::OutputArchive& archive) const {
  core_->refuse_in_capture("save");
  archive.write("scale", c10::IValue(core_->scale.item<double>()));
  archive.write("growth_factor", c10::IValue(core_->options.growth_factor));
  archive.write("backoff_factor", c10::IValue(core_->options.backoff_factor));
  archive.write("growth_interval", c10::IValue(std::int64_t{core_->options.growth_interval}));
  archive.write("_growth_tracker", c10::IValue(core_->growth_tracker.item<std::int64_t>()));
  archive.write("skipped_steps", c10::IValue(core_->skipped.item<std::int64_t>()));
}

void GradScaler::load(torch::serialize::InputArchive& archive) {
  core_->refuse_in_capture("load");
  const auto read = [&](const char* key) {
    c10::IValue value;
    archive.read(key, value);
    return value;
  };
  const double scale = read("scale").toDouble();
  const std::int64_t growth = read("_growth_tracker").toInt(), skipped = read("skipped_steps").toInt();
  const auto require = [](const char* name, double found, double own) {
    if (found == own) return;
    throw UsageError(text::format(
        "GradScaler::load: the archive has {} = {}, and this scaler {}, which captured graphs cannot change. Make a "
        "scaler with the options of the archive.",
        name, found, own));
  };
  require("growth_factor", read("growth_factor").toDouble(), core_->options.growth_factor);
  require("backoff_factor", read("backoff_factor").toDouble(), core_->options.backoff_factor);
  require("growth_interval", static_cast<double>(read("growth_interval").toInt()), core_->options.growth_interval);
  const at::NoGradGuard no_grad;
  core_->scale.fill_(scale);
  core_->growth_tracker.fill_(growth);
  core_->skipped.fill_(skipped);
  std::erase_if(core_->rounds, [](const ScalerCore::Round& each) { return each.capture == 0; });
}

}  // namespace reprise::libtorch
