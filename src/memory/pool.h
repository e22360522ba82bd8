// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "captures/capture.h"
#include "memory/block.h"

namespace reprise::memory {

/// A pool of blocks: the default one, or the private one of captures. Guarded by the allocator's mutex.
struct Pool {
  MempoolId id = {};                     ///< the default value for the default pool
  std::vector<std::string> graphs = {};  ///< names of those that hold a private pool: open_pool() less close_pool()
  unsigned requests = 0;                 ///< calls of the driver for this pool that are underway, without the mutex
  const captures::Capture* filled_by = nullptr;  ///< the capture that allocates from it now
  std::uint64_t last_filling = 0;                ///< begin_filling() of that capture, or of the last one
  std::vector<std::uint64_t> fillings = {};      ///< of captures whose graphs hold the pool
  bool launched = false;                         ///< host device: a graph with the pool was replayed
  FreeSet small_blocks;                          ///< cached blocks cut from small segments
  FreeSet large_blocks;                          ///< cached blocks cut from all others
  PoolStatistics statistics = {};

  bool is_private() const noexcept { return static_cast<bool>(id); }
  FreeSet& blocks(bool small) noexcept { return small ? small_blocks : large_blocks; }
  /// True if its wholly free segments may be released to the driver.
  bool may_release() const noexcept { return !is_private() || (graphs.empty() && filled_by == nullptr); }
  /// The last capture whose graph holds the pool, 0 for none: no graph uses segments that were added later.
  std::uint64_t newest_filling() const noexcept { return fillings.empty() ? 0 : *std::ranges::max_element(fillings); }
  /// True if nothing keeps the pool itself.
  bool is_over() const noexcept { return may_release() && is_private() && requests == 0 && statistics.segments == 0; }
};

/// Private pools by id. Pools do not move.
using PoolMap = std::map<MempoolId, Pool>;

inline void count_reserved(PoolStatistics& statistics, std::size_t bytes) noexcept {
  statistics.reserved_bytes += bytes;
  statistics.segments += 1;
  statistics.peak_reserved_bytes = std::max(statistics.peak_reserved_bytes, statistics.reserved_bytes);
}
inline void count_released(PoolStatistics& statistics, std::size_t bytes) noexcept {
  statistics.reserved_bytes -= bytes;
  statistics.segments -= 1;
}
inline void count_allocated(PoolStatistics& statistics, std::size_t bytes) noexcept {
  statistics.allocated_bytes += bytes;
  statistics.allocations += 1;
  statistics.peak_allocated_bytes = std::max(statistics.peak_allocated_bytes, statistics.allocated_bytes);
}
inline void count_freed(PoolStatistics& statistics, std::size_t bytes) noexcept {
  statistics.allocated_bytes -= bytes;
  statistics.allocations -= 1;
}
inline void restart_peaks(PoolStatistics& statistics) noexcept {
  statistics.peak_reserved_bytes = statistics.reserved_bytes;
  statistics.peak_allocated_bytes = statistics.allocated_bytes;
}

}  // namespace reprise::memory
