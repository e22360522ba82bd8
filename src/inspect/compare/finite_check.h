// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/compare/written_memory.h"
#include "reprise/compare.h"

namespace reprise::inspect {

/// Looks for values that are no number or infinite. Memory that had some at the beginning is left out where it is not
/// known whether a node wrote it.
class FiniteCheck {
 public:
  struct Found {
    std::uintptr_t address = 0;
    std::string value;
  };

  explicit FiniteCheck(FloatFormat format);
  bool is_on() const noexcept { return bytes_ != 0; }

  /// Notes what is in memory at the beginning. Calls come by ascending address.
  void note(std::uintptr_t address, std::span<const std::byte> bytes);
  /// The first value that is not finite. \param written true if a node wrote all of the memory just now.
  std::optional<Found> find(std::uintptr_t address, std::span<const std::byte> bytes, bool written) const;

 private:
  struct Format {
    std::size_t bytes;
    std::uint64_t exponent;  // its bits; all are set in values that are not finite
    std::uint64_t fraction;  // its bits; none is set in infinity
  };
  static Format of(FloatFormat format) noexcept;
  // Calls `visit` with the address and the bits of each value that is not finite, until that returns true.
  template <class Visit>
  void for_each(std::uintptr_t address, std::span<const std::byte> bytes, const Visit& visit) const;
  bool was_there(std::uintptr_t address) const;

  const Format format_;
  const std::size_t bytes_ = format_.bytes;
  std::vector<MemoryRange> before_;  // sorted
};

}  // namespace reprise::inspect
