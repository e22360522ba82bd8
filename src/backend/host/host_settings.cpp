// SPDX-License-Identifier: Apache-2.0
#include "backend/host/host_settings.h"

#include <cstdint>
#include <optional>
#include <string_view>

#include "reprise/error.h"
#include "support/environment.h"
#include "text/format.h"

namespace reprise::backend::host::settings {
namespace {

std::size_t environment_number(const char* name, std::size_t otherwise, std::size_t least, std::size_t most) {
  const std::string_view text = support::environment(name);
  if (text.empty()) return otherwise;
  const auto value = support::whole_number(text);
  if (!value || *value < least || *value > most)
    throw UsageError(
        support::unreadable_environment(name, text::format("a whole number from {} to {}", least, most), text));
  return *value;
}

// nullopt for threads.
std::optional<std::uint64_t> scheduler_seed() {
  constexpr const char* name = "REPRISE_HOST_SCHEDULER";
  const std::string_view text = support::environment(name);
  if (text.empty() || text == "threads") return std::nullopt;
  const auto seed = support::whole_number(text);
  if (!seed)
    throw UsageError(support::unreadable_environment(
        name, "`threads`, or a whole number from 0 as the seed of the single-threaded scheduler", text));
  return seed;
}

}  // namespace

HostDeviceOptions options() {
  return {.memory_bytes =
              environment_number("REPRISE_HOST_MEMORY", HostDeviceOptions().memory_bytes, least_memory, most_memory),
          .protect = environment_number("REPRISE_HOST_PROTECT", 0, 0, 1) == 1,
          .check_races = environment_number("REPRISE_HOST_RACES", 0, 0, 1) == 1,
          .scheduler_seed = scheduler_seed()};
}

int devices() {
  return static_cast<int>(environment_number("REPRISE_HOST_DEVICES", 1, 1, most_devices));
}

}  // namespace reprise::backend::host::settings
