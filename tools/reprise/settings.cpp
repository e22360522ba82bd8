// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "backend/host/failure_text.h"
#include "backend/host/host_settings.h"
#include "backend/objects/device_name.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::tools {
namespace {

namespace host = backend::host;

std::string effect_of_device(std::string_view value, const CudaInstallation& cuda) {
  const backend::DeviceName name = backend::parse_device_name(value);
  const bool is_cuda = name.type == DeviceType::cuda;
  if (is_cuda)
    backend::expect_cuda_device(name, cuda.devices.size(), cuda.unavailable);
  else
    backend::expect_host_device(name, static_cast<std::size_t>(host::settings::devices()));
  return text::format("programs use {}:{}, unless they name another one", is_cuda ? "cuda" : "host", name.index);
}

std::string effect_of_scheduler() {
  const auto seed = host::settings::scheduler_seed();
  if (!seed) return "work of host devices runs on threads, as by default";
  return text::format("host devices run one operation at a time, in the order of seed {}", *seed);
}

std::string effect_of_failures() {
  const std::size_t count = host::failures_from_environment().size();
  return text::format("{} call{} of host devices fail{}", count, count == 1 ? "" : "s", count == 1 ? "s" : "");
}

std::string effect_of(std::string_view name, std::string_view value, const CudaInstallation& cuda) {
  if (name == "REPRISE_DEVICE") return effect_of_device(value, cuda);
  if (name == "REPRISE_HOST_DEVICES")
    return text::format("the number of host devices is {}", host::settings::devices());
  if (name == "REPRISE_HOST_MEMORY")
    return text::format("each host device has {} bytes of memory", host::settings::memory_bytes(0));
  if (name == "REPRISE_HOST_PROTECT")
    return text::format("memory of host devices is {}protected from the host", host::settings::protect() ? "" : "not ");
  if (name == "REPRISE_HOST_RACES")
    return text::format("host devices {}look for races", host::settings::check_races() ? "" : "do not ");
  if (name == "REPRISE_HOST_SCHEDULER") return effect_of_scheduler();
  if (name == "REPRISE_HOST_FAIL") return effect_of_failures();
  return "unknown: there is no variable of this name";
}

}  // namespace

std::vector<Setting> find_settings(const CudaInstallation& cuda) {
  std::vector<Setting> settings;
  for (const char* const* each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::size_t end = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, end);
    if (name != "REPRISE_DEVICE" && !name.starts_with("REPRISE_HOST_")) continue;
    Setting setting{std::string(name), std::string(text.substr(std::min(end + 1, text.size()))), {}, {}};
    if (setting.value.empty()) continue;  // as if it were not set
    try {
      setting.effect = effect_of(name, setting.value, cuda);
    } catch (const UsageError& error) {
      setting.error = error.what();
    }
    settings.push_back(std::move(setting));
  }
  std::ranges::sort(settings, {}, &Setting::name);
  return settings;
}

}  // namespace reprise::tools
