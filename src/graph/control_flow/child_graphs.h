// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "captures/registry.h"
#include "graph/cuda_graph_impl.h"

namespace reprise::graphs {

/// Adds a copy of `child`, whose launch mutex the caller holds, to the capture that the stream takes part in, and makes
/// the stream depend on it. `found`: what the stream takes part in, a capture of this library.
/// \throws UsageError if CUDA does not take the graph as a child; BackendError if the runtime fails.
void add_child(GraphAccess::Impl& child, const char* call, const StreamRef& stream, const captures::Found& found);

}  // namespace reprise::graphs
