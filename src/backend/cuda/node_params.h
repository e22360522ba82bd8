// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/driver_api.h"
#include "backend/types.h"

// Conversion of node params between this library and the driver.

namespace reprise::backend::cuda {

/// For the driver's calls that create or change nodes. `context` and `device`: those of copies, sets and allocations.
/// Pointers in `params` are passed on, and must live until the call.
CUgraphNodeParams to_driver(const NodeParams& params, CUcontext context, CUdevice device);

/// Copies results of the node's creation back: an allocation's address, a conditional node's bodies.
void read_outputs(const CUgraphNodeParams& made, NodeParams* params);

/// A copy or a set of several rows counts as one of a single row if the rows follow each other without gaps.
/// `CUDA_ERROR_NOT_SUPPORTED` if they do not, or if an array takes part.
CUresult from_driver(const CUDA_MEMCPY3D& copy, MemcpyNodeParams* params);
CUresult from_driver(const CUDA_MEMSET_NODE_PARAMS& set, MemsetNodeParams* params);

}  // namespace reprise::backend::cuda
