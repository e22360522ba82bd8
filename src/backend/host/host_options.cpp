// SPDX-License-Identifier: Apache-2.0

#include <mutex>
#include <optional>
#include <string_view>

#include "backend/host/host_runtime.h"
#include "support/environment.h"
#include "text/format.h"

// The options of the simulated devices: set by program, else read from the environment, once.

namespace reprise {
namespace {

constexpr int most_devices = 16;
constexpr std::size_t least_memory = std::size_t{1} << 20;
constexpr std::size_t most_memory = std::size_t{1} << 42;

std::mutex options_mutex;
std::optional<HostDeviceOptions> configured;
bool in_use = false;

std::size_t environment_number(const char* name, std::size_t otherwise, std::size_t least, std::size_t most) {
  const std::string_view text = support::environment(name);
  if (text.empty()) return otherwise;
  const auto value = support::whole_number(text);
  if (!value || *value < least || *value > most)
    throw UsageError(
        support::unreadable_environment(name, text::format("a whole number from {} to {}", least, most), text));
  return *value;
}

std::optional<std::uint64_t> environment_seed() {
  constexpr const char* name = "REPRISE_HOST_SCHEDULER";
  const std::string_view text = support::environment(name);
  if (text.empty() || text == "threads") return std::nullopt;
  const auto seed = support::whole_number(text);
  if (!seed)
    throw UsageError(support::unreadable_environment(
        name, "`threads`, or a whole number from 0 as the seed of the single-threaded scheduler", text));
  return seed;
}

template <class Number>
void check_range(const char* what, Number value, Number least, Number most) {
  if (value < least || value > most)
    throw UsageError(
        text::format("HostDeviceOptions::{} should be from {} to {}, but it is {}", what, least, most, value));
}

}  // namespace

void backend::host::check_host_device_options(const HostDeviceOptions& options) {
  check_range("devices", options.devices, 1, most_devices);
  check_range("memory_bytes", options.memory_bytes, least_memory, most_memory);
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
    options.devices = static_cast<int>(environment_number("REPRISE_HOST_DEVICES", 1, 1, most_devices));
    options.memory_bytes = environment_number("REPRISE_HOST_MEMORY", options.memory_bytes, least_memory, most_memory);
    options.protect = environment_number("REPRISE_HOST_PROTECT", 0, 0, 1) == 1;
    options.scheduler_seed = environment_seed();
    options.check_races = environment_number("REPRISE_HOST_RACES", 0, 0, 1) == 1;
  }
  in_use = true;
  return options;
}

}  // namespace backend::host
}  // namespace reprise
