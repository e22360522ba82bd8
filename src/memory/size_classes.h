// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

// How big the pieces are that the allocator asks the driver for, and how it cuts them. The numbers are documented at
// CachingAllocator.

namespace reprise::memory {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

inline constexpr std::size_t granularity = 512;          ///< every block is a multiple of this, and aligned to it
inline constexpr std::size_t small_limit = 1 * mib;      ///< largest rounded size of a small block
inline constexpr std::size_t small_segment = 2 * mib;    ///< what small blocks are cut from
inline constexpr std::size_t medium_limit = 10 * mib;    ///< from here on a request gets a segment of its own
inline constexpr std::size_t medium_segment = 20 * mib;  ///< what large blocks below that are cut from
inline constexpr std::size_t large_rounding = 2 * mib;   ///< a segment of one's own is a multiple of this
inline constexpr std::size_t large_remainder = 1 * mib;  ///< a large block is split when more than this is left over

/// A request for memory, in the units of the allocator.
struct Request {
  std::size_t bytes = 0;          ///< of the block: rounded up
  std::size_t segment_bytes = 0;  ///< of the segment to ask the driver for when no cached block fits
  bool small = false;             ///< from which of a pool's two sets of blocks
};

/// The next multiple of `unit`, a power of two; the last one there is when the sum would overflow. No device has that
/// much memory, so the driver refuses it like any other request that is too large.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  const std::size_t largest = std::numeric_limits<std::size_t>::max() / unit * unit;
  return bytes > largest ? largest : (bytes + unit - 1) / unit * unit;
}

/// What a request for `bytes`, not zero, amounts to.
constexpr Request make_request(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, granularity);
  if (rounded <= small_limit) return {rounded, small_segment, true};
  if (rounded < medium_limit) return {rounded, medium_segment, false};
  return {rounded, round_up(rounded, large_rounding), false};
}

/// Is a rest of this size cut off, to be given out on its own?
constexpr bool worth_splitting(std::size_t remainder, bool small) {
  return small ? remainder >= granularity : remainder > large_remainder;
}

}  // namespace reprise::memory
