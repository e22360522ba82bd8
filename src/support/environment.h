// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/detail/export.h"

// Environment variables: the one place that reads and parses them. A value that cannot be read is an error or a
// warning with the variable, the value and what is expected; never silence.

namespace reprise::support {

/// The value of a variable; empty if it is not set.
REPRISE_EXPORT_INTERNAL std::string_view environment(const char* name) noexcept;

/// The same for variables that name code or files. Empty, too, in a process with more rights than its user has
/// (`secure_getenv`): the user could have it load or overwrite what is not the user's.
std::string_view trusted_environment(const char* name) noexcept;

/// The number that `text` is, in decimal digits alone; nullopt if it is none.
REPRISE_EXPORT_INTERNAL std::optional<std::uint64_t> whole_number(std::string_view text) noexcept;

/// The text for a value that cannot be read: "the environment variable NAME should be EXPECTED, but it is "FOUND"".
std::string unreadable_environment(const char* name, std::string_view expected, std::string_view found);

/// Sends that text and the consequence as a warning, once for each variable of the process.
void warn_unreadable_environment(const char* name, std::string_view expected, std::string_view found,
                                 std::string_view consequence) noexcept;

/// True for 1; false for 0, if the variable is not set, and, with a warning, for any other value.
bool environment_flag(const char* name) noexcept;

}  // namespace reprise::support
