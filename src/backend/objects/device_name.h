// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

#include "reprise/device.h"

namespace reprise::backend {

/// The name of a device, as Device::parse() and `REPRISE_DEVICE` have it.
struct DeviceName {
  std::string_view text;
  DeviceType type = DeviceType::host;
  std::size_t index = 0;
};

/// \throws UsageError if `text` is not of the form of such a name.
DeviceName parse_device_name(std::string_view text);

/// \param count of the CUDA devices of the machine.
/// \param unavailable why there are none, without a full stop.
/// \throws UsageError if there is no device of that name.
void expect_cuda_device(const DeviceName& name, std::size_t count, std::string_view unavailable);
/// The same of host devices.
void expect_host_device(const DeviceName& name, std::size_t count);

}  // namespace reprise::backend
