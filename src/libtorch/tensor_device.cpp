// SPDX-License-Identifier: Apache-2.0
#include "libtorch/tensor_device.h"

#include <fmt/format.h>

#include "libtorch/host_streams.h"
#include "reprise/error.h"

namespace reprise::libtorch {

Device device_of_tensors(c10::Device device) {
  if (device.is_privateuseone()) return host_device_of(device);
  throw UsageError(
      fmt::format("expected tensors of the host device (reprise::libtorch::host_device()), found tensors of "
                  "{}, which cannot be captured yet.",
                  device.str()));
}

c10::Stream stream_for_tensors(const StreamRef& stream, c10::Device device) {
  static_cast<void>(device_of_tensors(device));  // the host device
  return c10_stream(stream);
}

}  // namespace reprise::libtorch
