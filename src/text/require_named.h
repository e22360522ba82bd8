// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "reprise/error.h"
#include "text/format.h"

namespace reprise::text {

/// For a value of an enum that a user passed.
/// \param what the parameter or option, for example "GraphOptions::report".
/// \param expected the names of the values, for example "ReportDetail::standard or ReportDetail::full".
/// \throws UsageError if `value` is none of `named`.
template <class Enum>
void require_named(const char* what, Enum value, std::initializer_list<Enum> named, const char* expected) {
  if (std::find(named.begin(), named.end(), value) != named.end()) [[likely]]
    return;
  throw UsageError(text::format("{} expected {}; found the number {}, which has no name; pass one of these", what,
                                expected, static_cast<std::underlying_type_t<Enum>>(value)));
}

}  // namespace reprise::text
