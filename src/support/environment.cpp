// SPDX-License-Identifier: Apache-2.0
#include "support/environment.h"

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

#include "reprise/error.h"
#include "support/immortal.h"
#include "text/format.h"

namespace reprise::support {
namespace {

struct Warned {
  std::mutex mutex;
  std::set<std::string> names;
};

bool is_first_warning(const char* name) {
  static Immortal<Warned> warned;
  const std::lock_guard lock(warned->mutex);
  return warned->names.insert(name).second;
}

std::string_view or_empty(const char* value) noexcept {
  return value != nullptr ? value : "";
}

}  // namespace

std::string_view environment(const char* name) noexcept {
  return or_empty(std::getenv(name));
}

std::string_view trusted_environment(const char* name) noexcept {
  return or_empty(::secure_getenv(name));
}

std::optional<std::uint64_t> whole_number(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

std::string unreadable_environment(const char* name, std::string_view expected, std::string_view found) {
  return text::format("the environment variable {} should be {}, but it is \"{}\"", name, expected, found);
}

void warn_unreadable_environment(const char* name, std::string_view expected, std::string_view found,
                                 std::string_view consequence) noexcept try {
  if (is_first_warning(name)) warn(text::format("{}: {}", unreadable_environment(name, expected, found), consequence));
} catch (...) {
  warn("There was no memory for a warning about an environment variable.");
}

bool environment_flag(const char* name) noexcept {
  const std::string_view value = environment(name);
  if (value == "1") return true;
  if (!value.empty() && value != "0") warn_unreadable_environment(name, "0 or 1", value, "it counts as 0");
  return false;
}

}  // namespace reprise::support
