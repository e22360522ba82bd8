// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/cuda/driver_api.h"
#include "backend/types.h"

// Conversion of node params between this library and the driver.

namespace reprise::backend::cuda {

/// For the driver's calls that create or change nodes. `context` and `device`: those of copies, sets and allocations.
/// Pointers in `params` are passed on, and must live until the call.
CUgraphNodeParams to_driver(const NodeParams& params, CUcontext context, CUdevice device);

/// The edge data as the driver takes it; null for none.
const CUgraphEdgeData* to_driver(std::span<const EdgeData> edges) noexcept;

/// Copies results of the node's creation back: an allocation's address, a conditional node's bodies.
void read_outputs(const CUgraphNodeParams& made, NodeParams* params);

/// MemcpyNodeParams, also for several rows that follow each other without gaps; else PitchedCopyNodeParams.
NodeParams from_driver(const CUDA_MEMCPY3D& copy);
/// MemsetNodeParams, likewise; else PitchedSetNodeParams.
NodeParams from_driver(const CUDA_MEMSET_NODE_PARAMS& set);

}  // namespace reprise::backend::cuda
