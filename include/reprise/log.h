// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "reprise/detail/export.h"

/// \file
/// The log: the warnings of the library and, on request, the steps of its graphs.

namespace reprise {

/// The importance of a message, and how much is logged: messages of a level, and of those before it.
enum class LogLevel {
  off,      ///< nothing; no level of a message
  warning,  ///< errors met in destructors, which cannot throw, and probable mistakes; the default
  /// Warnings, and the steps of each graph, a line each: when a capture ends (with its nodes and the bytes of its
  /// pool), fails or is abandoned; instantiations and updates. Nothing of replays.
  info,
};

/// Receives the messages of the log. Called from any thread, never concurrently; it must not call this library.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

/// Replaces the sink and returns the one before it. An empty function restores the default, which writes a line to
/// standard error: `reprise: warning: MESSAGE`, `reprise: info: MESSAGE`. Thread-safe.
REPRISE_EXPORT LogSink set_log_sink(LogSink sink);

/// The level up to which messages are logged: that of set_log_level(), else that of the environment variable
/// `REPRISE_LOG` (`off`, `warning` or `info`, in small or capital letters) when this is first needed, else
/// LogLevel::warning. Thread-safe.
REPRISE_EXPORT LogLevel log_level() noexcept;

/// Sets the level, and returns the one before. Thread-safe.
/// \throws UsageError for a value without a name.
REPRISE_EXPORT LogLevel set_log_level(LogLevel level);

/// Sends a message to the sink, if messages of its level are logged. Never throws. Thread-safe.
REPRISE_EXPORT void log_message(LogLevel level, std::string_view message) noexcept;

/// Sends a message of LogLevel::warning. Never throws. Thread-safe.
REPRISE_EXPORT void warn(std::string_view message) noexcept;

}  // namespace reprise
