// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/optim.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <torch/serialize/archive.h>

#include <typeinfo>
#include <utility>

#include "libtorch/optim/optimizer_core.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch::optim {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

// Options that torch::optim refuses are refused by it.
std::unique_ptr<torch::optim::OptimizerOptions> checked(std::unique_ptr<torch::optim::OptimizerOptions> options,
                                                        const detail::Method& method) {
  static_cast<void>(method.twin({}, *options));
  return options;
}

}  // namespace

std::shared_ptr<detail::OptimizerCore> detail::core_of(const torch::optim::Optimizer& optimizer, const char* what) {
  if (const auto* const own = dynamic_cast<const CapturableOptimizer*>(&optimizer)) return own->core_;
  throw UsageError(
      text::format("{}: expected an optimizer with its state on the device, found {} with its state on the host. Use "
                   "SGD, Adam or AdamW of reprise::libtorch::optim, with the same options.",
                   what, c10::demangle(typeid(optimizer).name())));
}

CapturableOptimizer::CapturableOptimizer(const Groups& groups, std::unique_ptr<torch::optim::OptimizerOptions> defaults,
                                         std::unique_ptr<const detail::Method> method)
    : Optimizer(groups, checked(std::move(defaults), *method)),
      core_(std::make_shared<detail::OptimizerCore>(std::move(method), param_groups_)) {
  core_->refuse_in_capture("constructor");
  core_->prepare("constructor");
}

CapturableOptimizer::~CapturableOptimizer() {
  core_->close();
}

at::Tensor CapturableOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  detail::OptimizerCore::step(core_);
  return loss;
}

at::Tensor CapturableOptimizer::learning_rate(std::size_t group) {
  if (group >= param_groups_.size())
    throw UsageError(text::format("{}::learning_rate: expected a group below {}, found {}.", core_->method().name(),
                                  param_groups_.size(), group));
  core_->prepare("learning_rate");
  return core_->rate(group);
}

void CapturableOptimizer::set_learning_rate(double rate) {
  for (auto& group : param_groups_) group.options().set_lr(rate);
  core_->forget_rates();
}

void CapturableOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  core_->refuse_in_capture("add_param_group");
  Optimizer::add_param_group(group);
  try {
    core_->prepare("add_param_group");
  } catch (...) {
    param_groups_.pop_back();
    throw;
  }
}

void CapturableOptimizer::save(torch::serialize::OutputArchive& archive) const {
  core_->refuse_in_capture("save");
  const at::NoGradGuard no_grad;
  core_->twin(*defaults_)->save(archive);
}

void CapturableOptimizer::load(torch::serialize::InputArchive& archive) {
  core_->refuse_in_capture("load");
  const auto twin = core_->method().twin(param_groups_, *defaults_);
  twin->load(archive);
  core_->load_from(*twin);
}

SGD::SGD(const Groups& groups, SGDOptions defaults)
    : CapturableOptimizer(groups, std::make_unique<SGDOptions>(std::move(defaults)), detail::sgd_method()) {}
SGD::SGD(std::vector<at::Tensor> parameters, SGDOptions defaults)
    : SGD({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

Adam::Adam(const Groups& groups, AdamOptions defaults)
    : CapturableOptimizer(groups, std::make_unique<AdamOptions>(std::move(defaults)), detail::adam_method()) {}
Adam::Adam(std::vector<at::Tensor> parameters, AdamOptions defaults)
    : Adam({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

AdamW::AdamW(const Groups& groups, AdamWOptions defaults)
    : CapturableOptimizer(groups, std::make_unique<AdamWOptions>(std::move(defaults)), detail::adamw_method()) {}
AdamW::AdamW(std::vector<at::Tensor> parameters, AdamWOptions defaults)
    : AdamW({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

}  // namespace reprise::libtorch::optim
