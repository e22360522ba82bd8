// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_tensors.h"

#include <ATen/Context.h>
#include <ATen/cuda/MemPool.h>
#include <c10/cuda/CUDAFunctions.h>

#include <memory>

#include "backend/backend.h"
#include "graph/listeners.h"
#include "libtorch/cuda/cuda_inputs.h"
#include "libtorch/cuda/cuda_streams.h"
#include "libtorch/cuda/shared_memory.h"
#include "libtorch/cuda/tensor_listener.h"
#include "memory/pool_ids.h"
#include "reprise/error.h"
#include "reprise/libtorch/graph.h"
#include "text/format.h"

namespace reprise::libtorch {
namespace {

MempoolId id_of_libtorch(bool by_user) {
  const auto [first, second] = at::cuda::MemPool::graph_pool_handle(by_user);
  return {first, second};
}

// From the start of the program: ids of both libraries that were given out before would be the same. It is a counter of
// libtorch's, and asks nothing of CUDA.
[[maybe_unused]] const memory::PoolIdSource ids_before = memory::use_pool_ids_of(&id_of_libtorch);

}  // namespace

void let_cuda_tensors_take_part() {
  if (backend::cuda_backends().empty() || c10::cuda::device_count() == 0) return;
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // its allocator
  let_cuda_generators_take_part();  // before memory is routed: what it allocates is no graph's
  share_memory_with_libtorch();
  graphs::add_listener_factory(
      []() -> std::unique_ptr<graphs::CaptureListener> { return std::make_unique<TensorListener>(); });
  backend::follow(&current_of_libtorch());
  let_cuda_inputs_take_part();
}

Device cuda_device_of(c10::Device device) {
  const auto& all = backend::cuda_backends();
  if (all.empty())
    throw UsageError(text::format("expected a CUDA device, found none: {}.", backend::cuda_unavailable_reason()));
  take_part_in_captures();
  const int index = device.index() < 0 ? c10::cuda::current_device() : device.index();
  if (index >= static_cast<int>(all.size()))
    throw UsageError(text::format("expected a CUDA device below {}, found {}.", all.size(), index));
  return Device(*all[static_cast<std::size_t>(index)]);
}

}  // namespace reprise::libtorch
