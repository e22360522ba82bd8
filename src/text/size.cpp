// SPDX-License-Identifier: Apache-2.0
#include "text/size.h"

#include "text/format.h"

namespace reprise::text {

std::string size_text(std::uint64_t bytes) {
  constexpr double kib = 1024, mib = 1024 * kib, gib = 1024 * mib;
  const auto value = static_cast<double>(bytes);
  if (value < kib) return text::format("{} bytes", bytes);
  if (value < mib) return text::format("{:.1f} KiB", value / kib);
  if (value < gib) return text::format("{:.1f} MiB", value / mib);
  return text::format("{:.2f} GiB", value / gib);
}

}  // namespace reprise::text
