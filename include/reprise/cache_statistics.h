// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/detail/export.h"

/// \file
/// Statistics of a GraphCache.

namespace reprise {

/// Number of times that something was done, and the time that the host spent on it.
struct CacheCount {
  std::uint64_t number = 0;
  std::chrono::nanoseconds time{0};
};

/// Why a call of a GraphCache ran eagerly.
enum class EagerCause {
  counted,    ///< the key was not called often enough
  failed,     ///< its capture failed, now or before, or check_every found a difference before
  too_large,  ///< its entry alone has more than GraphCacheOptions::max_bytes
  thrashing,  ///< it would release an entry that is used more often
  unordered,  ///< it cannot be ordered behind the last replay, whose stream is being captured
};
/// The number of causes.
inline constexpr std::size_t eager_causes = 5;

/// Why a key was captured that is not the first one of its cache.
enum class RecaptureCause {
  new_key,         ///< the key had no graph before, or that is not remembered any more
  evicted_number,  ///< its graph was released because of `max_entries`
  evicted_bytes,   ///< because of `max_bytes`, or because a capture had no memory
  forgotten,       ///< by GraphCache::forget() or GraphCache::clear()
};

/// Captures of one cause that differ from a graph before in one place.
struct RecaptureReason {
  RecaptureCause cause = RecaptureCause::new_key;
  /// Difference from the captured key that is most like this one: name or number of a field of the key. Empty for the
  /// same key.
  std::string field = {};
  std::uint64_t number = 0;  ///< of captures
};

/// Counts of a GraphCache since it was made, and its present contents. A value.
struct REPRISE_EXPORT GraphCacheStatistics {
  std::uint64_t hits = 0;                           ///< replays of a key that was captured before
  CacheCount captures = {};                         ///< with their first replays
  CacheCount failed_captures = {};                  ///< or whose graph was too large; without the eager runs after them
  CacheCount checks = {};                           ///< captures of check_every
  CacheCount evictions = {};                        ///< by a bound, or for lack of device memory
  CacheCount eager = {};                            ///< eager runs, with the bodies
  std::uint64_t eager_by_cause[eager_causes] = {};  ///< by EagerCause

  std::size_t entries = 0;        ///< graphs now
  std::size_t keys = 0;           ///< keys without a graph that are remembered now
  std::uint64_t pool_bytes = 0;   ///< device memory of the pool that all graphs share
  std::uint64_t entry_bytes = 0;  ///< of copied inputs and of results
  std::uint64_t max_bytes = 0;    ///< the bound of both together

  std::vector<RecaptureReason> recaptures = {};  ///< the most frequent first

  /// As a table: several lines, each ended by a newline.
  std::string str() const;
};

}  // namespace reprise
