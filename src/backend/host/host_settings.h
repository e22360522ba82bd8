// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "reprise/host_device.h"

// The environment variables of host devices, and their bounds. Each call reads the variable anew.

namespace reprise::backend::host::settings {

inline constexpr int most_devices = 16;
inline constexpr std::size_t least_memory = std::size_t{1} << 20;
inline constexpr std::size_t most_memory = std::size_t{1} << 42;

/// Reads all variables but REPRISE_HOST_DEVICES. \throws UsageError if a value cannot be read.
HostDeviceOptions options();
/// REPRISE_HOST_DEVICES; 1 if it is not set. \throws UsageError if it cannot be read.
int devices();

}  // namespace reprise::backend::host::settings
