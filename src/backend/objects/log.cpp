// SPDX-License-Identifier: Apache-2.0
#include "reprise/log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <utility>

#include "support/environment.h"
#include "support/immortal.h"
#include "text/require_named.h"

namespace reprise {
namespace {

// Never destroyed: destructors of static objects may still warn.
struct SinkHolder {
  std::mutex mutex;
  LogSink sink;
};

constexpr LogLevel not_read{-1};
constinit std::atomic<LogLevel> current_level{not_read};

// True if `value` is `name`, which has small letters, in letters of any case.
bool is_named(std::string_view value, std::string_view name) noexcept {
  return std::ranges::equal(value, name, [](char each, char small) {
    return each == small || (each >= 'A' && each <= 'Z' && each - 'A' + 'a' == small);
  });
}

// The level that a value of REPRISE_LOG names; the default for no value, nullopt for any other.
std::optional<LogLevel> log_level_named(std::string_view value) noexcept {
  if (is_named(value, "off")) return LogLevel::off;
  if (is_named(value, "warning") || value.empty()) return LogLevel::warning;
  if (is_named(value, "info")) return LogLevel::info;
  return std::nullopt;
}

// Off the path of those that only compare the level.
[[gnu::noinline]] LogLevel read_level() noexcept {
  constexpr const char* variable = "REPRISE_LOG";
  const std::string_view value = support::environment(variable);
  const std::optional<LogLevel> named = log_level_named(value);
  LogLevel found = not_read;
  if (!current_level.compare_exchange_strong(found, named.value_or(LogLevel::warning))) return found;
  if (!named)
    support::warn_unreadable_environment(variable, "off, warning or info", value, "warnings are logged, as by default");
  return named.value_or(LogLevel::warning);
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  SinkHolder& holder = support::Immortal<SinkHolder>::get();
  const std::lock_guard lock(holder.mutex);
  return std::exchange(holder.sink, std::move(sink));
}

LogLevel log_level() noexcept {
  const LogLevel level = current_level.load(std::memory_order_relaxed);
  return level != not_read ? level : read_level();
}

LogLevel set_log_level(LogLevel level) {
  text::require_named("set_log_level()", level, {LogLevel::off, LogLevel::warning, LogLevel::info},
                      "LogLevel::off, LogLevel::warning or LogLevel::info");
  log_level();  // that of the environment
  return current_level.exchange(level, std::memory_order_relaxed);
}

void log_message(LogLevel level, std::string_view message) noexcept {
  if (level <= LogLevel::off || level > log_level()) return;
  try {
    SinkHolder& holder = support::Immortal<SinkHolder>::get();
    const std::lock_guard lock(holder.mutex);
    if (holder.sink) {
      holder.sink(level, message);
    } else {
      // One call, so that lines of several processes do not mix.
      std::fprintf(stderr, "reprise: %s: %.*s\n", level == LogLevel::warning ? "warning" : "info",
                   static_cast<int>(message.size()), message.data());
    }
  } catch (...) {
    // A sink that throws loses its message.
  }
}

void warn(std::string_view message) noexcept {
  log_message(LogLevel::warning, message);
}

}  // namespace reprise
