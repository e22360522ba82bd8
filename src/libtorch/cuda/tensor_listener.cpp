// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/tensor_listener.h"

#include "libtorch/cuda/cuda_tensors.h"

namespace reprise::libtorch {

void TensorListener::begin(const graphs::CaptureContext& context) {
  if (!begins_with_cuda_tensors(context)) return;
  auto held = std::make_shared<Held>();
  route_.emplace(context.device, context.pool, context.stream.native());
  held->pool = route_->pool();
  try {
    workspaces_.emplace(*held->pool, context.stream.native());
  } catch (...) {
    route_.reset();
    throw;
  }
  held_ = std::move(held);
}

void TensorListener::ended(const graphs::CaptureContext& /*context*/, GraphHandle /*template_graph*/) {
  if (held_ == nullptr) return;
  route_.reset();
  held_->workspaces = workspaces_->take();
  workspaces_.reset();
}

void TensorListener::abandoned() noexcept {
  route_.reset();
  workspaces_.reset();
  held_.reset();
}

}  // namespace reprise::libtorch
