// SPDX-License-Identifier: Apache-2.0
#include "libtorch/cuda/cuda_tensors.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include <string>

#include "backend/backend.h"
#include "reprise/error.h"

namespace reprise::libtorch {

void let_cuda_tensors_take_part() {
  if (backend::cuda_backends().empty() || c10::cuda::device_count() == 0) return;
  let_cuda_generators_take_part();
}

Device cuda_device_of(c10::Device device) {
  const auto& all = backend::cuda_backends();
  if (all.empty())
    throw UsageError(fmt::format("expected a CUDA device, found none: {}.", backend::cuda_unavailable_reason()));
  const int index = device.index() < 0 ? c10::cuda::current_device() : device.index();
  if (index >= static_cast<int>(all.size()))
    throw UsageError(fmt::format("expected a CUDA device below {}, found {}.", all.size(), index));
  return Device(*all[static_cast<std::size_t>(index)]);
}

StreamRef cuda_stream_of(const c10::Stream& stream) {
  return StreamRef(cuda_device_of(stream.device()), c10::cuda::CUDAStream(stream).stream());
}

c10::Stream cuda_c10_stream(const StreamRef& stream) {
  const auto index = static_cast<c10::DeviceIndex>(stream.device().index());
  if (stream.is_default()) return c10::cuda::getDefaultCUDAStream(index);
  return c10::cuda::getStreamFromExternal(stream.native(), index);
}

}  // namespace reprise::libtorch
