// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// CUDA's opaque handles, declared forward, so that no header of CUDA is needed to use this library.
///
/// The driver's and the runtime's handles are the same pointers (`CUstream` is `cudaStream_t`), and every backend uses
/// them: on the host device they point to the simulator's own objects. A handle of one backend means nothing to
/// another.

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUfunc_st;
struct CUuserObject_st;

namespace reprise {

/// `cudaStream_t`. A null handle is the legacy default stream of the device in use.
using StreamHandle = CUstream_st*;
/// `cudaEvent_t`.
using EventHandle = CUevent_st*;
/// `cudaGraph_t`, a template graph.
using GraphHandle = CUgraph_st*;
/// `cudaGraphExec_t`, an executable graph.
using GraphExecHandle = CUgraphExec_st*;
/// `cudaGraphNode_t`, a node of a template graph.
using GraphNodeHandle = CUgraphNode_st*;
/// `cudaFunction_t`, a kernel that is loaded on a device.
using FunctionHandle = CUfunc_st*;
/// `cudaUserObject_t`.
using UserObjectHandle = CUuserObject_st*;

}  // namespace reprise
