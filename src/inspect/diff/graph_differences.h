// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/cuda_graph_impl.h"
#include "inspect/diff/compared_graph.h"
#include "reprise/detail/export.h"
#include "reprise/graph_diff.h"

namespace reprise::inspect {

/// Compares two graphs that have templates, as diff() does. Needs the launch mutexes of both. Nodes that were read
/// before are not read again: the caller forgets them where they may have changed.
std::vector<GraphDifference> graph_differences(graphs::GraphAccess::Impl& first, graphs::GraphAccess::Impl& second);
REPRISE_EXPORT_INTERNAL std::vector<GraphDifference> graph_differences(const ComparedGraph& first,
                                                                       const ComparedGraph& second);

/// As diff(), but for words that are addresses in both graphs, or may be: for graphs that were captured with memory of
/// their own, of which no allocator knows what it corresponds to.
std::vector<GraphDifference> differences_but_for_addresses(const CUDAGraph& first, const CUDAGraph& second);

/// The disabled nodes of a graph, as those in their places in another one of the same shape are described.
std::vector<ComparedNode> disabled_nodes(graphs::GraphAccess::Impl& graph, graphs::GraphAccess::Impl& other);

/// Addresses outside of the nodes, as of results: of one graph, and of another one at the same place.
struct AddressPair {
  const void* first = nullptr;
  const void* second = nullptr;
};

/// True for each pair whose addresses are the same, or lie in allocations of the captures that correspond to each
/// other, as diff() compares addresses in nodes.
std::vector<bool> corresponding(const CUDAGraph& first, const CUDAGraph& second, std::span<const AddressPair> pairs);

/// The differences, a line each, indented; the first 20 of them.
REPRISE_EXPORT_INTERNAL std::string differences_text(std::span<const GraphDifference> differences);

}  // namespace reprise::inspect
