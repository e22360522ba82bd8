// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string>

#include "reprise/host_device.h"

namespace reprise::test {

/// Sets the environment variables of the host devices of this process, which are read at the first use of a device.
inline void set_host_environment(const HostDeviceOptions& options, int devices = 1) {
  setenv("REPRISE_HOST_DEVICES", std::to_string(devices).c_str(), 1);
  setenv("REPRISE_HOST_MEMORY", std::to_string(options.memory_bytes).c_str(), 1);
  setenv("REPRISE_HOST_PROTECT", options.protect ? "1" : "0", 1);
  setenv("REPRISE_HOST_RACES", options.check_races ? "1" : "0", 1);
  setenv("REPRISE_HOST_SCHEDULER", options.scheduler_seed ? std::to_string(*options.scheduler_seed).c_str() : "threads",
         1);
}

}  // namespace reprise::test
