// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/resources/live_graphs.h"
#include "reprise/graph_memory.h"

namespace reprise {
class CUDAGraph;
}

namespace reprise::graphs {

/// Estimates what the runtime of a device needs for these graphs: GraphMemoryEstimate says how that is measured, by the
/// first call for the device. All 0, with a warning, if it cannot be measured. Thread-safe. The caller must hold no
/// lock.
/// \throws BackendError in a child process of fork().
GraphMemoryEstimate estimate_of(const Device& device, const GraphCounts& counts);

/// Returns the counts of one graph, which are zeros if it is empty. Waits for a call of replay() by another thread.
GraphCounts counts_of(const CUDAGraph& graph);

/// The memory of a pool, and the estimate, of these graphs. As estimate_of().
/// \param pool the id that names none: all private pools of the device.
GraphMemory memory_of(const Device& device, const GraphCounts& counts, MempoolId pool);

}  // namespace reprise::graphs
