// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY 1
#include "text/format.h"

#include <fmt/format.h>

namespace reprise::text {

std::string vformat(fmt::string_view format, fmt::format_args arguments) {
  return fmt::vformat(format, arguments);
}

}  // namespace reprise::text
