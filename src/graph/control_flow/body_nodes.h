// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "reprise/stream.h"

// What the graphs of conditional nodes may hold.

namespace reprise::graphs {

/// To be called when the capture of a body has ended.
/// \param call the function of the library that captured it.
/// \param fewest a body with fewer nodes counts as empty.
/// \throws UsageError if the body has nodes that CUDA does not take there, which it would refuse at the instantiation
///         without a reason, or is empty.
void require_body_nodes(backend::Backend& backend, const char* call, GraphHandle body, std::size_t fewest);

/// \throws UsageError if work was submitted to the stream after `node`, with its first node.
void require_nothing_beside(const char* call, const StreamRef& stream, GraphNodeHandle node);

}  // namespace reprise::graphs
