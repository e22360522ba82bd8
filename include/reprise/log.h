// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "reprise/detail/export.h"

/// \file
/// The warnings of the library: errors met in destructors, which cannot throw, and probable mistakes.

namespace reprise {

/// Receives the warnings. Called from any thread, never concurrently; it must not call this library.
using LogSink = std::function<void(std::string_view message)>;

/// Replaces the sink and returns the one before it. An empty function restores the default, which writes a line to
/// standard error: `reprise: warning: MESSAGE`. Thread-safe.
REPRISE_EXPORT LogSink set_log_sink(LogSink sink);

/// Sends a warning to the sink. Never throws. Thread-safe.
REPRISE_EXPORT void warn(std::string_view message) noexcept;

}  // namespace reprise
