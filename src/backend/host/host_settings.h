// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "reprise/host_device.h"

// The environment variables of host devices, and their bounds. Each call reads the variable anew.

namespace reprise::backend::host::settings {

inline constexpr int most_devices = 16;
inline constexpr std::size_t least_memory = std::size_t{1} << 20;
inline constexpr std::size_t most_memory = std::size_t{1} << 42;

/// All of them but REPRISE_HOST_DEVICES. \throws UsageError, as those below, if a value cannot be read.
HostDeviceOptions options();
/// REPRISE_HOST_DEVICES; 1 if it is not set.
int devices();
/// REPRISE_HOST_MEMORY, in bytes; `otherwise` if it is not set.
std::size_t memory_bytes(std::size_t otherwise);
/// REPRISE_HOST_PROTECT.
bool protect();
/// REPRISE_HOST_RACES.
bool check_races();
/// REPRISE_HOST_SCHEDULER; nullopt for threads.
std::optional<std::uint64_t> scheduler_seed();

}  // namespace reprise::backend::host::settings
