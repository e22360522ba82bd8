// SPDX-License-Identifier: Apache-2.0
#include "inspect/compare/finite_check.h"

#include <algorithm>
#include <cstring>

#include "text/format.h"

namespace reprise::inspect {

FiniteCheck::Format FiniteCheck::of(FloatFormat format) noexcept {
  switch (format) {
    case FloatFormat::float16:
      return {2, 0x7C00, 0x03FF};
    case FloatFormat::bfloat16:
      return {2, 0x7F80, 0x007F};
    case FloatFormat::float32:
      return {4, 0x7F800000, 0x007FFFFF};
    case FloatFormat::float64:
      return {8, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF};
    case FloatFormat::none:
      break;
  }
  return {0, 0, 0};
}

FiniteCheck::FiniteCheck(FloatFormat format) : format_(of(format)) {}

template <class Visit>
void FiniteCheck::for_each(std::uintptr_t address, std::span<const std::byte> bytes, const Visit& visit) const {
  const std::size_t skipped = (bytes_ - address % bytes_) % bytes_;
  for (std::size_t at = skipped; at + bytes_ <= bytes.size(); at += bytes_) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, bytes_);
    if ((bits & format_.exponent) == format_.exponent && visit(address + at, bits)) return;
  }
}

void FiniteCheck::note(std::uintptr_t address, std::span<const std::byte> bytes) {
  for_each(address, bytes, [&](std::uintptr_t at, std::uint64_t) {
    if (!before_.empty() && before_.back().end() == at)
      before_.back().bytes += bytes_;
    else
      before_.push_back({at, bytes_});
    return false;
  });
}

bool FiniteCheck::was_there(std::uintptr_t address) const {
  const auto after = std::ranges::upper_bound(before_, address, {}, &MemoryRange::begin);
  return after != before_.begin() && address < std::prev(after)->end();
}

std::optional<FiniteCheck::Found> FiniteCheck::find(std::uintptr_t address, std::span<const std::byte> bytes,
                                                    bool written) const {
  std::optional<Found> found;
  for_each(address, bytes, [&](std::uintptr_t at, std::uint64_t bits) {
    if (!written && was_there(at)) return false;
    found = {at, text::format("{:#x} ({})", bits, (bits & format_.fraction) == 0 ? "infinity" : "NaN")};
    return true;
  });
  return found;
}

}  // namespace reprise::inspect
