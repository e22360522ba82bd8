// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "reprise/graph.h"
#include "reprise/handles.h"

namespace reprise {

/// CUDAGraph::replay(), after `change` has told the executable new parameters of its nodes: both under the flag that
/// makes launches one after the other, so that no other thread's replay sees half of a change. What it throws goes on,
/// and nothing is launched.
///
/// The caller tracks the state of the executable: the graph is made with KeepGraph::no, so that there is no second
/// executable without the changes.
void replay_changed(CUDAGraph& graph, const StreamRef& stream, const std::function<void(GraphExecHandle)>& change);

}  // namespace reprise
