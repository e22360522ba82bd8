// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "graph/cuda_graph_impl.h"
#include "graph/nodes/inner_nodes.h"

namespace reprise::graphs {

/// The one node of the template with a name, as CUDAGraph::node() documents it. Needs the launch mutex.
/// \param call named in errors.
/// \throws UsageError if no node, or more than one, has the name: lists them. BackendError if the runtime fails.
NumberedNode node_with_name(GraphAccess::Impl& impl, const char* call, std::string_view name);

}  // namespace reprise::graphs
