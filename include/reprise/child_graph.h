// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reprise/detail/export.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

/// \file
/// Graphs within graphs: a captured graph as one node of another one.

namespace reprise {

/// Adds a captured graph to the capture that the stream takes part in, as one node that runs a copy of it
/// (`cudaGraphAddChildGraphNode`): after prior work on the stream and before later work.
/// CUDAGraph::replay() on such a stream does the same.
///
/// *A copy.* The values of the nodes are those of this call; later changes of `child` do not reach the parent. Copies
/// of one graph use the same memory: within a capture, the library orders them one after another, on whatever streams
/// they are. Replays of parent and child on several streams are not ordered.
///
/// *Memory.* The parent shares all that the child holds (memory pool, workspaces, generators, what
/// CUDAGraph::retain() was given): child and parent may be reset or destroyed in either order, also while replays run.
///
/// *Random numbers.* A replay of the parent draws for each copy, as eager calls in this order would: the same child
/// twice draws different numbers. Replays of the child itself continue where the generator is.
///
/// Hooks of the child and the liveness check of its replays are not part of the copy;
/// GraphOptions::check_input_liveness of the parent finds the inputs of its children, too.
///
/// \throws UsageError if `child` holds no template (GraphOptions::discard_template) or belongs to a graphed callable;
///         for nodes that CUDA does not take in a child: conditional nodes, allocations and frees in the order of a
///         stream; for a disabled node; if the stream takes part in no capture of this library, or is of another
///         device; within a hook of `child`. The capture continues without the node. BackendError if the runtime fails:
///         a capture that continues nevertheless may fail at its end, because no node can be removed from it.
REPRISE_EXPORT void add_child(const CUDAGraph& child, const StreamRef& stream);
/// As above, on the calling thread's current stream of the child's device.
REPRISE_EXPORT void add_child(const CUDAGraph& child);

}  // namespace reprise
