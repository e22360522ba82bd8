// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "backend/host/host_settings.h"
#include "backend/objects/device_name.h"
#include "backend/objects/log_level_names.h"
#include "inspect/report/explain.h"
#include "reprise/error.h"
#include "support/environment.h"
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

std::string effect_of_driver_version(const CudaInstallation& cuda) {
  if (cuda.unavailable.find("REPRISE_DRIVER_VERSION") == std::string::npos)
    return "a newer driver is treated like one of this version of CUDA";
  return "GPUs are not used: " + cuda.unavailable;
}

// The effect of variables that programs ignore, with a warning, if their value has no meaning.
std::string ignored(const char* name, std::string_view expected, std::string_view found) {
  return support::unreadable_environment(name, expected, found) + ": programs warn, and go by the default";
}

std::string effect_of_log(std::string_view value) {
  const std::optional<LogLevel> level = backend::log_level_named(value);
  if (!level) return ignored("REPRISE_LOG", backend::log_level_names, value);
  if (*level == LogLevel::off) return "programs log nothing, not even warnings";
  return *level == LogLevel::info ? "programs log the steps of graphs, and warnings"
                                  : "programs log warnings, as by default";
}

std::string effect_of_explain(std::string_view value) {
  if (value == "0") return "captures are not reported, as by default";
  if (value != "1" && value != "stderr" && value.find('/') == std::string_view::npos)
    return support::unreadable_environment("REPRISE_EXPLAIN", inspect::explain_outputs, value) +
           ": programs warn, and report on standard error";
  return text::format("captures that fail, or lack work, are reported on {}",
                      value == "1" ? std::string_view("stderr") : value);
}

// The effect of a variable that is 0 or 1. `what` follows "programs" or "programs do not".
std::string effect_of_flag(const char* name, std::string_view value, const char* what) {
  if (value != "0" && value != "1") return ignored(name, "0 or 1", value);
  return text::format("programs {}{}", value == "1" ? "" : "do not ", what);
}

using Effect = std::string (*)(std::string_view value, const CudaInstallation& cuda);
using Cuda = const CudaInstallation&;

struct Variable {
  std::string_view name;
  Effect effect;
};

// All variables of its own that the library reads.
constexpr Variable variables[] = {
    {"REPRISE_DEVICE", effect_of_device},
    {"REPRISE_DRIVER_VERSION", [](std::string_view, Cuda cuda) { return effect_of_driver_version(cuda); }},
    {"REPRISE_EXPLAIN", [](std::string_view value, Cuda) { return effect_of_explain(value); }},
    {"REPRISE_EXPLAIN_ALL",
     [](std::string_view value, Cuda) {
       return effect_of_flag("REPRISE_EXPLAIN_ALL", value, "report captures that are good as well");
     }},
    {"REPRISE_EXPLAIN_JOURNAL",
     [](std::string_view, Cuda) { return std::string("programs write the summary of `reprise explain` there"); }},
    {"REPRISE_EXPLAIN_JSON",
     [](std::string_view value, Cuda) {
       return effect_of_flag("REPRISE_EXPLAIN_JSON", value, "report captures as JSON");
     }},
    {"REPRISE_HOST_DEVICES",
     [](std::string_view, Cuda) {
       return text::format("the number of host devices is {}", host::settings::devices());
     }},
    {"REPRISE_HOST_MEMORY",
     [](std::string_view, Cuda) {
       return text::format("each host device has {} bytes of memory", host::settings::memory_bytes(0));
     }},
    {"REPRISE_HOST_PROTECT",
     [](std::string_view, Cuda) {
       return text::format("memory of host devices is {}protected from the host",
                           host::settings::protect() ? "" : "not ");
     }},
    {"REPRISE_HOST_RACES",
     [](std::string_view, Cuda) {
       return text::format("host devices {}look for races", host::settings::check_races() ? "" : "do not ");
     }},
    {"REPRISE_HOST_SCHEDULER", [](std::string_view, Cuda) { return effect_of_scheduler(); }},
    {"REPRISE_LOG", [](std::string_view value, Cuda) { return effect_of_log(value); }},
    {"REPRISE_MEMORY_STACKS",
     [](std::string_view value, Cuda) {
       return effect_of_flag("REPRISE_MEMORY_STACKS", value, "record the stacks of allocations and frees");
     }},
};

// The number of letters to insert, remove or replace.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({diagonal + 1, row[j] + 1, replaced});
    }
  }
  return row.back();
}

std::string effect_of_unknown(std::string_view name) {
  constexpr std::size_t most = 3;
  const auto to_name = [name](const Variable& each) { return distance(name, each.name); };
  const Variable& nearest = *std::ranges::min_element(variables, {}, to_name);
  if (to_name(nearest) <= most)
    return text::format("unknown: programs do not read it, probably a typing error of {}", nearest.name);
  return "unknown: programs do not read it, a typing error unless scripts or CMake of reprise do";
}

std::string effect_of(std::string_view name, std::string_view value, const CudaInstallation& cuda) {
  const Variable* const known = std::ranges::find(variables, name, &Variable::name);
  return known != std::end(variables) ? known->effect(value, cuda) : effect_of_unknown(name);
}

}  // namespace

std::vector<Setting> find_settings(const CudaInstallation& cuda) {
  std::vector<Setting> settings;
  for (const char* const* each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const std::size_t end = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, end);
    if (!name.starts_with("REPRISE_")) continue;
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
