// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "reprise/stream.h"

// What the graphs of conditional nodes may hold.

namespace reprise::graphs {

/// To be called when the capture of a body has ended.
/// \param call the function of the library that captured it.
/// \throws UsageError if the body has nodes that CUDA does not take there, which it would refuse at the instantiation
///         without a reason, or is empty although that is not allowed.
void require_body_nodes(backend::Backend& backend, const char* call, GraphHandle body, bool allow_empty);

/// \throws UsageError if the stream was given work since `node`, the last one of its capture, was added.
void require_nothing_beside(const char* call, const StreamRef& stream, GraphNodeHandle node);

}  // namespace reprise::graphs
