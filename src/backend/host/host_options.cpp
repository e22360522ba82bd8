// SPDX-License-Identifier: Apache-2.0

#include <mutex>
#include <optional>

#include "backend/host/host_runtime.h"
#include "backend/host/host_settings.h"
#include "text/format.h"

// The options of the simulated devices: set by program, else read from the environment, once.

namespace reprise {
namespace {

std::mutex options_mutex;
std::optional<HostDeviceOptions> configured;
bool in_use = false;

template <class Number>
void check_range(const char* what, Number value, Number least, Number most) {
  if (value < least || value > most)
    throw UsageError(
        text::format("HostDeviceOptions::{} should be from {} to {}, but it is {}", what, least, most, value));
}

}  // namespace

void backend::host::check_host_device_options(const HostDeviceOptions& options) {
  check_range("devices", options.devices, 1, settings::most_devices);
  check_range("memory_bytes", options.memory_bytes, settings::least_memory, settings::most_memory);
}

void configure_host_devices(const HostDeviceOptions& options) {
  backend::host::check_host_device_options(options);
  const std::lock_guard lock(options_mutex);
  if (in_use)
    throw UsageError(
        "configure_host_devices() was called after a device was used; call it first, for example at the start of "
        "main(), or set REPRISE_HOST_DEVICES, REPRISE_HOST_MEMORY, REPRISE_HOST_PROTECT, "
        "REPRISE_HOST_RACES and REPRISE_HOST_SCHEDULER in the environment");
  configured = options;
}

namespace backend::host {

HostDeviceOptions host_device_options() {
  const std::lock_guard lock(options_mutex);
  HostDeviceOptions options;
  if (configured) {
    options = *configured;
  } else {
    options.devices = settings::devices();
    options.memory_bytes = settings::memory_bytes(options.memory_bytes);
    options.protect = settings::protect();
    options.scheduler_seed = settings::scheduler_seed();
    options.check_races = settings::check_races();
  }
  in_use = true;
  return options;
}

}  // namespace backend::host
}  // namespace reprise
