// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// \file
/// Declarations of the memory that a kernel touches. kernel.h says what they are for.

namespace reprise {

/// Memory that a launch touches, as a kernel declares it; made with reads() and writes().
struct MemoryAccess {
  const void* address = nullptr;  ///< where it begins
  std::size_t bytes = 0;          ///< how much; 0 for nothing
  bool writes = false;            ///< written, not only read
};

/// A launch reads `count` values at `address`.
template <class T>
MemoryAccess reads(const T* address, std::size_t count) {
  return {address, count * sizeof(T), false};
}

/// A launch writes `count` values at `address`, all or some of them.
template <class T>
MemoryAccess writes(T* address, std::size_t count) {
  return {address, count * sizeof(T), true};
}

}  // namespace reprise
