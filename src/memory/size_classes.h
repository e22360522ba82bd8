// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

// The sizes of segments, and how they are split into blocks. Documented at CachingAllocator.

namespace reprise::memory {

inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;

inline constexpr std::size_t granularity = 512;          ///< size and alignment of every block are multiples of this
inline constexpr std::size_t small_limit = 1 * mib;      ///< largest rounded size of a small block
inline constexpr std::size_t small_segment = 2 * mib;    ///< small blocks are cut from these
inline constexpr std::size_t medium_limit = 10 * mib;    ///< from this size on, a request gets its own segment
inline constexpr std::size_t medium_segment = 20 * mib;  ///< smaller large blocks are cut from these
inline constexpr std::size_t large_rounding = 2 * mib;   ///< such a segment is a multiple of this
inline constexpr std::size_t large_remainder = 1 * mib;  ///< a large block is split when more than this remains

/// A request, rounded to the units of the allocator.
struct Request {
  std::size_t bytes = 0;          ///< of the block, rounded up
  std::size_t segment_bytes = 0;  ///< of a new segment, if no cached block fits
  bool small = false;             ///< which of a pool's two sets of blocks
  std::size_t requested = 0;      ///< before it was rounded
};

/// The next multiple of `unit`, a power of two; the largest multiple when the sum would overflow: no device has that
/// much memory, so the driver refuses it like any other request that is too large.
constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  const std::size_t largest = std::numeric_limits<std::size_t>::max() / unit * unit;
  return bytes > largest ? largest : (bytes + unit - 1) / unit * unit;
}

/// The rounded request for `bytes`, which is not 0.
constexpr Request make_request(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, granularity);
  if (rounded <= small_limit) return {rounded, small_segment, true, bytes};
  if (rounded < medium_limit) return {rounded, medium_segment, false, bytes};
  return {rounded, round_up(rounded, large_rounding), false, bytes};
}

/// True if a remainder of this size becomes a block of its own.
constexpr bool worth_splitting(std::size_t remainder, bool small) {
  return small ? remainder >= granularity : remainder > large_remainder;
}

}  // namespace reprise::memory
