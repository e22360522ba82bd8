// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/environment.h"

namespace reprise::test {

/// Returns the number in an environment variable of the tests; `otherwise` if it is empty or not set.
/// \throws std::invalid_argument if it is no whole number from `least` to `most`
inline std::uint64_t environment_number(const char* name, std::uint64_t otherwise, std::uint64_t least = 0,
                                        std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const std::string_view text = support::environment(name);
  if (text.empty()) return otherwise;
  const auto number = support::whole_number(text);
  if (!number || *number < least || *number > most)
    throw std::invalid_argument("the environment variable " + std::string(name) + " should be a whole number from " +
                                std::to_string(least) + " to " + std::to_string(most) + ", but it is \"" +
                                std::string(text) + "\"");
  return *number;
}

}  // namespace reprise::test
