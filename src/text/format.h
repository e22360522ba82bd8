// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

/// \file
/// Text formatting by fmt, whose implementation is compiled once, in format.cpp: header-only, it takes seconds in every
/// file. Include this instead of fmt's headers.

namespace reprise::text {

/// Formats type-erased arguments.
std::string vformat(fmt::string_view format, fmt::format_args arguments);

/// fmt::format(): the format string is checked at compile time.
template <class... Arguments>
std::string format(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if constexpr (requires { format.get(); })  // from fmt 10 on; the conversion is deprecated since 12.2
    return text::vformat(format.get(), fmt::make_format_args(arguments...));
  else
    return text::vformat(format, fmt::make_format_args(arguments...));
}

/// The elements of a range, each formatted with "{}", with `separator` between them.
template <class Range>
std::string join(const Range& range, std::string_view separator) {
  std::string joined;
  bool first = true;
  for (const auto& element : range) {
    if (!first) joined += separator;
    first = false;
    joined += text::format("{}", element);
  }
  return joined;
}

}  // namespace reprise::text
