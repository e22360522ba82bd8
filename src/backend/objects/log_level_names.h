// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "reprise/log.h"

/// \file
/// The values of REPRISE_LOG.

namespace reprise::backend {

/// The values, in words.
inline constexpr std::string_view log_level_names = "off, warning or info";

/// The level that a value names, in small or capital letters; the default for no value, nullopt for any other.
std::optional<LogLevel> log_level_named(std::string_view value) noexcept;

}  // namespace reprise::backend
