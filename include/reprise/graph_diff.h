// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/export.h"

/// \file
/// Differences between two captured graphs.

namespace reprise {

class CUDAGraph;

/// The kind of a difference between two graphs.
enum class DifferenceKind {
  node_added,    ///< the second graph alone has the node
  node_removed,  ///< the first graph alone has the node
  node_type,     ///< a node is of another type: a copy, and a kernel; if_, and switch_
  function,      ///< a node calls another kernel, or another function of the host
  launch_shape,  ///< a kernel is launched with another grid, block, cluster, or size of shared memory, or cooperatively
  parameter,     ///< an argument of a kernel; source, destination, value or size of a copy or set; what control flow
                 ///< depends on: `condition`, and `max_iterations` of while_
  dependency,    ///< a node has a dependency in one of the graphs alone, or of another kind
  enabled,       ///< a node is disabled in one of the graphs: GraphNode::set_enabled()
};

/// A node of a graph, as differences name it. A value without references to other objects.
struct REPRISE_EXPORT ComparedNode {
  std::size_t index = 0;       ///< GraphNode::index(); of a node in a child graph or body, that of the enclosing node
  std::string number;          ///< the same as text; nodes of a graph in node 3 are "3.0", "3.1", ...
  std::string name;            ///< for example "kernel Scale" or "memcpy"
  Annotation annotation = {};  ///< empty if it has none

  /// Kind, number and annotation: "kernel Scale (node 3) in forward".
  std::string str() const;
};

/// One difference between two graphs. A value without references to other objects.
struct REPRISE_EXPORT GraphDifference {
  DifferenceKind kind = DifferenceKind::parameter;
  std::optional<ComparedNode> first = {};   ///< nullopt for node_added
  std::optional<ComparedNode> second = {};  ///< nullopt for node_removed
  /// The part that differs, in words: "argument 1", "argument 0, offset 16", "grid.x", "source", "dependency"; empty if
  /// the whole node does.
  std::string field = {};
  std::optional<std::size_t> parameter = {};  ///< index of the argument of a kernel; nullopt for other fields
  std::size_t offset = 0;                     ///< in bytes from the start of the argument
  /// The values: in hexadecimal, as an integer and as a floating-point number; addresses with the memory that they lie
  /// in, as far as an allocator knows it. Empty where the whole node differs.
  std::string first_value = {}, second_value = {};
  bool perhaps = false;  ///< true if these may be bytes of an argument that no code wrote

  /// One line: node, field, and both values.
  std::string str() const;
};

/// Compares two captured graphs, node by node. Empty if they do the same work with the same values.
///
/// Nodes are paired in order of creation. Where one graph has nodes that the other one lacks, as many nodes as possible
/// keep their partner of the same type and kernel, and the rest is `node_added` or `node_removed`; as many nodes of
/// other types or kernels in the same place are pairs whose type or function differs. Bodies and child graphs are
/// compared as their nodes.
///
/// Two captures of one body do not differ: an address in memory that a capture allocated is the same as one at the same
/// offset of the allocation with the same number in the other capture. Not compared are what each capture makes for
/// itself: seeds and offsets of random numbers, the data of host functions, events; and the memory of CUDA tensors of
/// libtorch is taken for the same only if both graphs were captured with GraphOptions::check_frozen_values. A node
/// whose parameters the driver does not provide is compared without them, with a warning.
///
/// Values are those of the templates: changed nodes have their changed values. Takes some microseconds per node.
/// \throws UsageError if a graph has no template, the graphs are of different devices, or this is called within a hook
///         of one of them; BackendError if the runtime fails.
REPRISE_EXPORT std::vector<GraphDifference> diff(const CUDAGraph& first, const CUDAGraph& second);

}  // namespace reprise
