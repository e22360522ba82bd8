// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// \file
/// Counts of graphs with eager parts.

namespace reprise {

/// Counts of a BreakableGraph.
struct BreakableStatistics {
  std::size_t segments = 0;      ///< captured pieces that have nodes
  std::size_t eager_parts = 0;   ///< functions that run between them
  std::size_t nodes = 0;         ///< of all segments
  std::size_t result_bytes = 0;  ///< of the static memory to which results of eager parts are copied
  std::uint64_t replays = 0;     ///< that ran to their end; without the run of the capture
};

}  // namespace reprise
