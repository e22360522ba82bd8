// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::differential {

/// Which of its variants a program is in: each has the same operations on the same streams. A captured graph is changed
/// from one to another between replays.
struct Version {
  bool nodes = false;       ///< kernels whose value varies by their node have the other value
  bool parameters = false;  ///< likewise, those whose value is a parameter
  bool resting = false;     ///< operations that may rest do not run; numbers that they would draw are left out
  bool exchanged = false;   ///< two buffers have changed places
  bool replaced = false;    ///< other operations run in the place of those that have one

  friend bool operator==(const Version&, const Version&) = default;
};

/// The generators of each device that programs draw from.
inline constexpr std::size_t generators_of_device = 2;
/// How often random numbers are drawn from each of them.
using Draws = std::array<unsigned, generators_of_device>;

/// The other value of a kernel.
inline std::uint32_t changed(std::uint32_t value) {
  return value * 3 + 0x51ED270BU;
}

}  // namespace reprise::differential
