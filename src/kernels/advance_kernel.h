// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reprise/device_code.h"

// The kernels at the root of a graph that draws random numbers: they set seed and offset of the replay.

namespace reprise::random {

/// Device words of one graph and one generator. The kernels of the graph read the first two.
struct GraphRngState {
  std::uint64_t seed;
  std::uint64_t offset;
  std::uint64_t epoch;  ///< of the parameters loaded last
  std::uint64_t next;   ///< the offset of the next replay
};

/// The parameters of the head node. A new epoch makes it load seed and offset; with the same epoch it continues where
/// the last replay ended, so that another replay needs no update of the executable.
struct Advance {
  std::uint64_t seed;
  std::uint64_t offset;
  std::uint64_t epoch;      ///< unique in the process: uninitialised words never match it
  std::uint64_t increment;  ///< numbers drawn by the whole graph
};

inline namespace REPRISE_KERNEL_ABI {

REPRISE_KERNEL inline void advance(GraphRngState* words, const Advance& by) {
  const bool load = words->epoch != by.epoch;
  words->epoch = by.epoch;
  words->seed = by.seed;
  words->offset = load ? by.offset : words->next;
  words->next = words->offset + by.increment;
}

/// At the root of a child graph, or of a body that is repeated, instead: it draws the parent's numbers from `drawn` on.
/// Does not change the values with which replays of the graph itself continue.
/// \param iteration of the body, from 0; null for a child graph.
/// \param each numbers drawn by one iteration.
REPRISE_KERNEL inline void derive(GraphRngState* words, const GraphRngState* parent, std::uint64_t drawn,
                                  const std::uint32_t* iteration, std::uint64_t each) {
  words->seed = parent->seed;
  words->offset = parent->offset + drawn + (iteration != nullptr ? *iteration * each : 0);
}

}  // namespace REPRISE_KERNEL_ABI
}  // namespace reprise::random
