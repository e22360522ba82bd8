// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace reprise::differential {

/// Which of its variants a program is in: each has the same operations on the same streams. A captured graph is changed
/// from one to another between replays.
struct Version {
  bool nodes = false;       ///< kernels whose value varies by their node have the other value
  bool parameters = false;  ///< likewise, those whose value is a parameter
  bool resting = false;     ///< operations that may rest do not run; numbers that they would draw are left out
  bool exchanged = false;   ///< two buffers have changed places

  friend bool operator==(const Version&, const Version&) = default;
};

/// The other value of a kernel.
inline std::uint32_t changed(std::uint32_t value) {
  return value * 3 + 0x51ED270BU;
}

}  // namespace reprise::differential
