// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/tensor_listener.h"

#include "libtorch/cuda/cuda_tensors.h"

namespace reprise::libtorch {

void TensorListener::begin(captures::Capture& capture) {
  if (!begins_with_cuda_tensors(capture)) return;
  auto held = std::make_shared<Held>();
  route_.emplace(capture.device(), capture.pool(), capture.stream().native());
  held->pool = route_->pool();
  try {
    workspaces_.emplace(capture, held->pool);
  } catch (...) {
    route_.reset();
    throw;
  }
  held_ = std::move(held);
}

void TensorListener::ended(captures::Capture& /*capture*/, graphs::CapturedGraph& graph) {
  if (held_ == nullptr) return;
  route_.reset();
  held_->workspaces = workspaces_->take();
  workspaces_.reset();
  graph.resources.push_back(std::move(held_));
}

void TensorListener::abandoned(captures::Capture& /*capture*/) noexcept {
  route_.reset();
  workspaces_.reset();
  held_.reset();
}

}  // namespace reprise::libtorch
