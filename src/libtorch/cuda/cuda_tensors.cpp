// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_tensors.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAFunctions.h>

#include "backend/backend.h"
#include "backend/check.h"
#include "libtorch/cuda/cuda_blocks.h"
#include "libtorch/cuda/cuda_listeners.h"
#include "libtorch/cuda/versions/version.h"
#include "memory/watches/allocation_stacks.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

void initialise() {
  const backend::RelaxedCaptureMode relaxed(*backend::cuda_backends().front());  // other threads may be capturing
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
}

}  // namespace

bool begins_with_cuda_tensors(const captures::Capture& capture) {
  if (capture.device().type() != DeviceType::cuda || !has_cuda_tensors()) return false;
  [[maybe_unused]] static const bool done = [] {
    initialise();
    if (memory::allocation_stacks_are_recorded()) CudaBlocks::get();  // by the environment
    return true;
  }();
  return true;
}

void keep_cuda_stacks() {
  if (!has_cuda_tensors()) return;
  initialise();
  CudaBlocks::get();
}

std::optional<MempoolId> new_cuda_pool_id(bool by_user) {
  const auto [first, second] = version::new_pool_id(by_user);
  return MempoolId{first, second};
}

std::unique_ptr<graphs::FrameworkListeners> make_cuda_listeners() {
  return std::make_unique<CudaListeners>();
}

Device cuda_device_of(c10::Device device) {
  const auto& all = backend::cuda_backends();
  if (all.empty())
    throw UsageError(text::format("expected a CUDA device, found none: {}.", backend::cuda_unavailable_reason()));
  has_cuda_tensors();  // from the first use of a device on, both libraries share its memory
  const int index = device.index() < 0 ? c10::cuda::current_device() : device.index();
  if (index >= static_cast<int>(all.size()))
    throw UsageError(text::format("expected a CUDA device below {}, found {}.", all.size(), index));
  return Device(*all[static_cast<std::size_t>(index)]);
}

}  // namespace reprise::libtorch
