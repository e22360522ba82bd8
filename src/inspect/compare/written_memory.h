// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "inspect/diff/compared_graph.h"

namespace reprise::inspect {

/// Memory, by its first byte.
struct MemoryRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::uintptr_t end() const noexcept { return begin + bytes; }
  friend bool operator==(const MemoryRange&, const MemoryRange&) = default;
};

/// Overlapping ranges as one; sorted, without empty ones. Adjacent ones may be different allocations of the driver,
/// which no copy may span.
std::vector<MemoryRange> merged(std::vector<MemoryRange> ranges);

/// Effects of a node, as far as they matter for executing it alone.
struct NodeWork {
  bool known = false;   ///< `writes` is all that the node writes
  bool runs = true;     ///< false: executing it does nothing, or must not be done
  bool copies = false;  ///< `writes` may be pageable memory of the host
  std::vector<MemoryRange> writes = {};
  std::optional<backend::ConditionalHandle> sets = {};  ///< the condition that the kernel sets, if it does
  std::uintptr_t random_words = 0;  ///< of a head node, which sets seed and offset of the replay; 0: it is none
};

/// Reads the nodes of a graph; the result has one for each of NodeValues::nodes. A node in the body of a conditional
/// node adds to the work of that one, and does not run by itself; neither do the kernels that set its condition before.
/// \throws BackendError if the runtime fails.
std::vector<NodeWork> read_work(const ComparedGraph& graph);

/// The node of the outermost graph, or of a child graph, whose body each node lies in, by index; none for all others.
inline constexpr std::size_t in_no_body = static_cast<std::size_t>(-1);
std::vector<std::size_t> conditional_around(const std::vector<ScannedNode>& nodes);

}  // namespace reprise::inspect
