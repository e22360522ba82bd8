// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "graph/cuda_graph_impl.h"
#include "graph/nodes/inner_nodes.h"

namespace reprise::graphs {

/// True if `wanted` is the name of the kernel with this symbol: the symbol, or its form in C++, with or without the
/// namespaces, the template arguments and the parameters.
bool is_name_of_kernel(std::string_view wanted, const char* symbol);

/// The one node of the template with a name, as CUDAGraph::node() documents it. Needs the launch mutex.
/// \param call named in errors.
/// \throws UsageError if no node, or more than one, has the name: lists them. BackendError if the runtime fails.
NumberedNode node_with_name(GraphAccess::Impl& impl, const char* call, std::string_view name);

}  // namespace reprise::graphs
