// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

/// \file
/// Declarations of the memory that a kernel accesses; used in kernel.h.

namespace reprise {

/// Memory that a launch accesses, as declared by a kernel; made with reads() and writes().
struct MemoryAccess {
  const void* address = nullptr;  ///< its start
  std::size_t bytes = 0;          ///< may be 0
  bool writes = false;            ///< written, not only read
  /// Zero: nodes carry such values as parameters, whose words are searched for addresses.
  std::array<unsigned char, sizeof(void*) - sizeof(bool)> unused = {};
};
static_assert(sizeof(MemoryAccess) == 2 * sizeof(void*) + sizeof(std::size_t),
              "no padding, which would keep stale bytes");

/// Declares that a launch reads `count` values at `address`.
template <class T>
MemoryAccess reads(const T* address, std::size_t count) {
  return {address, count * sizeof(T), false, {}};
}

/// Declares that a launch writes `count` values at `address`, all or some of them.
template <class T>
MemoryAccess writes(T* address, std::size_t count) {
  return {address, count * sizeof(T), true, {}};
}

}  // namespace reprise
