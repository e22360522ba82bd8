// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "reprise/detail/export.h"

/// \file
/// Declarations of the memory that a kernel accesses; used in kernel.h.

namespace reprise {

/// Memory that a launch accesses, as declared by a kernel; made with reads() and writes().
struct MemoryAccess {
  const void* address = nullptr;  ///< its start
  std::size_t bytes = 0;          ///< may be 0
  bool writes = false;            ///< written, not only read
  /// Always zero: nodes have this structure among their parameters, whose words are searched for addresses.
  std::array<unsigned char, sizeof(void*) - sizeof(bool)> unused = {};
};
static_assert(sizeof(MemoryAccess) == 2 * sizeof(void*) + sizeof(std::size_t),
              "no padding, which would keep stale bytes");

namespace detail {

[[noreturn]] REPRISE_EXPORT void size_out_of_range(const char* call, const void* address, std::size_t count,
                                                   std::size_t value_bytes);

/// Returns the size of `count` values in bytes.
/// \throws UsageError if that is not a number, or the values would end past the last address.
inline std::size_t checked_bytes(const char* call, const void* address, std::size_t count, std::size_t value_bytes) {
  if (count > (SIZE_MAX - reinterpret_cast<std::uintptr_t>(address)) / value_bytes) [[unlikely]]
    size_out_of_range(call, address, count, value_bytes);
  return count * value_bytes;
}

}  // namespace detail

/// Declares that a launch reads `count` values at `address`.
/// \throws UsageError if the values would end past the last address.
template <class T>
MemoryAccess reads(const T* address, std::size_t count) {
  return {address, detail::checked_bytes("reads", address, count, sizeof(T)), false, {}};
}

/// Declares that a launch writes `count` values at `address`, all or some of them.
/// \throws UsageError if the values would end past the last address.
template <class T>
MemoryAccess writes(T* address, std::size_t count) {
  return {address, detail::checked_bytes("writes", address, count, sizeof(T)), true, {}};
}

}  // namespace reprise
