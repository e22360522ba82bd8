// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>

#include "reprise/libtorch/host_device.h"
#include "support/program.h"

namespace example {

/// The device of tensors for the option --device: what reprise::Device::parse takes; without a value the first CUDA
/// device, or else the simulated host device.
inline torch::Device tensor_device(const std::optional<std::string>& text) {
  const reprise::Device device = text ? parse_device(*text) : reprise::default_device();
  if (device.type() == reprise::DeviceType::host) return reprise::libtorch::host_device(device.index());
  if (static_cast<int>(torch::cuda::device_count()) <= device.index())
    throw InputError(fmt::format("--device: libtorch finds no device {} here", device.str()));
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(device.index())};
}

/// The same device for reprise::DeviceGuard. Captures begin on the current device of the thread; c10::DeviceGuard only
/// chooses among the host devices, and CUDA stays current where there is a GPU.
inline reprise::Device library_device(const torch::Device& device) {
  return reprise::Device::parse(fmt::format("{}:{}", device.is_cuda() ? "cuda" : "host", device.index()));
}

inline void add_device_option(CLI::App& app, std::optional<std::string>& device) {
  app.add_option("--device", device,
                 "Where the tensors lie: host, cuda, cuda:1, ... (default: the first CUDA device, or else the "
                 "simulated host device)")
      ->type_name("DEVICE");
}

}  // namespace example
