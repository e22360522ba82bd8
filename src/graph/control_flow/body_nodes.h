// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "backend/monitor.h"
#include "reprise/stream.h"

// What the graphs of conditional nodes may hold.

namespace reprise::graphs {

/// To be called when the capture of a body has ended.
/// \param call the function of the library that captured it.
/// \param fewest a body with fewer nodes counts as empty.
/// \throws UsageError if the body has nodes that CUDA does not take there, which it would refuse at the instantiation
///         without a reason, or is empty.
void require_body_nodes(backend::Backend& backend, const char* call, GraphHandle body, std::size_t fewest);

/// \param watch of the work submitted to the stream after `node`.
/// \throws UsageError if there was any: with the node, and the call if that was seen.
void require_nothing_beside(const char* call, const StreamRef& stream, GraphNodeHandle node,
                            const backend::WorkWatch& watch);

}  // namespace reprise::graphs
