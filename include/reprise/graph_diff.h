// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/error.h"
#include "reprise/graph_types.h"

/// \file
/// Differences between two captured graphs, and with them results and errors of CUDAGraph::update() and
/// CUDAGraph::recapture().

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

/// An executable cannot be updated to another graph. Both graphs are as before.
class REPRISE_EXPORT GraphUpdateError : public Error {
 public:
  /// \param what the whole text.
  /// \param result the reason.
  /// \param differences between the two graphs, as diff() lists them.
  GraphUpdateError(const std::string& what, UpdateResult result, std::vector<GraphDifference> differences)
      : Error(what),
        result_(result),
        differences_(std::make_shared<const std::vector<GraphDifference>>(std::move(differences))) {}

  /// The reason; never `success`.
  UpdateResult result() const noexcept { return result_; }
  /// All differences between the graphs, as by diff(). They live as long as this exception or a copy of it.
  const std::vector<GraphDifference>& differences() const noexcept { return *differences_; }

 private:
  UpdateResult result_;
  std::shared_ptr<const std::vector<GraphDifference>> differences_;  // so that copying an exception cannot throw
};

/// Result of CUDAGraph::recapture().
struct Recapture {
  /// True if the executable was updated; false if a new one takes its place.
  bool in_place = false;
  std::string reason = {};  ///< why a new one was needed, as a sentence; empty if `in_place`
  /// Why the executable could not stay: differences between the capture before and this one, as by diff(). Empty if
  /// `in_place`, or if the template of the capture before was discarded.
  std::vector<GraphDifference> differences = {};
  /// The nodes of this capture that replays leave out after an update in place, since GraphNode::set_enabled() disabled
  /// those in their places; enable them to have all of the new capture. A new executable has all nodes enabled, and
  /// `differences` lists which were not.
  std::vector<ComparedNode> disabled = {};
};

}  // namespace reprise
