// SPDX-License-Identifier: Apache-2.0
#include "libtorch/tensor_device.h"

#include "libtorch/cuda/cuda_tensors.h"
#include "libtorch/host/host_generator.h"
#include "libtorch/host/host_streams.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::libtorch {

Device device_of_tensors(c10::Device device) {
  if (device.is_cuda()) return cuda_device_of(device);
  if (device.is_privateuseone()) return host_device_of(device);
  throw UsageError(
      text::format("expected tensors of a CUDA device or of the host device (reprise::libtorch::host_device()), found "
                   "tensors of {}, which cannot be captured.",
                   device.str()));
}

captures::Found capture_of(c10::Device device) {
  if (!device.is_cuda() && !device.is_privateuseone()) return {};
  return captures::find(current_stream(device_of_tensors(device)));
}

StreamRef stream_ref(const c10::Stream& stream) {
  if (stream.device().is_cuda()) return cuda_stream_of(stream);
  if (stream.device().is_privateuseone()) return host_stream_of(stream);
  throw UsageError(
      text::format("expected a stream of a CUDA device or of the host device, found one of {}, which has none.",
                   stream.device().str()));
}

c10::Stream c10_stream(const StreamRef& stream) {
  return stream.device().type() == DeviceType::host ? host_c10_stream(stream) : cuda_c10_stream(stream);
}

void register_generator_state(CUDAGraph& cuda_graph, const at::Generator& generator) {
  if (generator.defined() && generator.device().is_cuda()) {
    register_cuda_generator(cuda_graph, generator);
  } else if (generator.defined() && generator.device().is_privateuseone()) {
    cuda_graph.register_generator_state(generator.get<HostGenerator>()->generator());
  } else {
    throw UsageError(
        text::format("register_generator_state expected a generator of a CUDA device or of a host device, found {}.",
                     generator.defined() ? "one of " + generator.device().str() : "an undefined one"));
  }
}

}  // namespace reprise::libtorch
