// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/driver_api.h"
#include "backend/types.h"

// What a node does, in this library's words and in the driver's.

namespace reprise::backend::cuda {

/// For the driver's calls that make or change nodes. `context` and `device` are where copies, sets and allocations
/// run. Pointers in `params` are passed on, and must live until the call is made.
CUgraphNodeParams to_driver(const NodeParams& params, CUcontext context, CUdevice device);

/// Writes what the driver found out while it made the node: an allocation's address, a conditional node's bodies.
void read_outputs(const CUgraphNodeParams& made, NodeParams* params);

/// A copy or a set of several rows counts as one of a single row if the rows follow each other without gaps.
/// `CUDA_ERROR_NOT_SUPPORTED` if they do not, or if an array takes part.
CUresult from_driver(const CUDA_MEMCPY3D& copy, MemcpyNodeParams* params);
CUresult from_driver(const CUDA_MEMSET_NODE_PARAMS& set, MemsetNodeParams* params);

}  // namespace reprise::backend::cuda
