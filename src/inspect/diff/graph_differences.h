// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "inspect/diff/compared_graph.h"
#include "reprise/graph_diff.h"

namespace reprise::inspect {

/// Compares two graphs that have templates, as diff() does. Needs the launch mutexes of both. Nodes that were read
/// before are not read again: the caller forgets them where they may have changed.
std::vector<GraphDifference> graph_differences(graphs::GraphAccess::Impl& first, graphs::GraphAccess::Impl& second);
std::vector<GraphDifference> graph_differences(const ComparedGraph& first, const ComparedGraph& second);

/// The differences, a line each, indented; the first 20 of them.
std::string differences_text(std::span<const GraphDifference> differences);

}  // namespace reprise::inspect
