// SPDX-License-Identifier: Apache-2.0
#include "reprise/libtorch/grad_scaler.h"

#include "libtorch/optim/scaler_core.h"

namespace reprise::libtorch {

GradScaler::GradScaler(c10::Device device, const GradScalerOptions& options)
    : core_(std::make_shared<detail::ScalerCore>(device, options)) {}

GradScaler::~GradScaler() = default;

at::Tensor GradScaler::scale(const at::Tensor& outputs) {
  return core_->scale(outputs);
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  core_->unscale(optimizer);
}

void GradScaler::step(torch::optim::Optimizer& optimizer) {
  core_->step(optimizer);
}

void GradScaler::update(std::optional<double> new_scale) {
  core_->update(new_scale);
}

double GradScaler::get_scale() const {
  return core_->get_scale();
}

std::int64_t GradScaler::skipped_steps() const {
  return core_->skipped_steps();
}

void GradScaler::save(torch::serialize::OutputArchive& archive) const {
  core_->save(archive);
}

void GradScaler::load(torch::serialize::InputArchive& archive) {
  core_->load(archive);
}

}  // namespace reprise::libtorch
