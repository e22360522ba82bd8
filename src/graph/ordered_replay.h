// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "memory/lifetime/last_launch.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

namespace reprise::graphs {

/// Replays a graph as the next launch of `last`. One thread at a time.
/// \return null, or what was thrown after the graph was launched, as by a hook: the launch is not undone, and is the
/// last one of `last`. \throws what CUDAGraph::replay() throws if the graph was not launched; nothing has changed then.
std::exception_ptr replay_in_order(memory::LastLaunch& last, CUDAGraph& graph, const StreamRef& stream);

}  // namespace reprise::graphs
