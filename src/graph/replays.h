// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "memory/lifetime/last_launch.h"
#include "reprise/detail/export.h"
#include "reprise/graph.h"
#include "reprise/handles.h"

namespace reprise::graphs {

/// Replays a graph as the next launch of `last`. One thread at a time.
/// \return null, or what was thrown after the graph was launched, as by a hook: the launch is not undone, and is the
/// last one of `last`. \throws what CUDAGraph::replay() throws if the graph was not launched; nothing has changed then.
std::exception_ptr replay_in_order(memory::LastLaunch& last, CUDAGraph& graph, const StreamRef& stream);

/// Replays after `change` has updated parameters of nodes in the executable, both under the launch mutex: no other
/// replay sees half of a change.
/// \return null, or what was thrown after the launch, as by a hook: the launch is not undone. \throws what `change` and
/// CUDAGraph::replay() throw if the graph was not launched.
///
/// The caller tracks the state of the executable: the graph is made with KeepGraph::no, so that there is no second
/// executable without the changes.
[[nodiscard]] REPRISE_EXPORT_INTERNAL std::exception_ptr replay_changed(
    CUDAGraph& graph, const StreamRef& stream, const std::function<void(GraphExecHandle)>& change);

/// Reserves a graph for such an owner until the graph is destroyed: replay() and reset() throw UsageError from now on,
/// and name the owner.
REPRISE_EXPORT_INTERNAL void reserve(CUDAGraph& graph, std::string owner);

}  // namespace reprise::graphs
