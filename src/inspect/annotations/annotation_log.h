// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "backend/types.h"
#include "reprise/annotations.h"

namespace reprise::inspect {

/// What was noted of the scopes of a capture: enough to tell, when it is over, which node belongs to which.
struct AnnotationLog {
  static constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

  /// A thread entered or left a scope, or the capture ended.
  struct Boundary {
    std::size_t thread;    ///< which one; `nobody` at the end of the capture
    std::size_t nodes;     ///< how many there were
    std::size_t in_force;  ///< what the thread says from now on: of `annotations`; 0 for nothing
    std::vector<GraphNodeHandle>
        tails;  ///< what the next nodes of the thread's streams, or of the capture's, depend on
  };

  std::vector<Annotation> annotations = {Annotation{}};  ///< each once; the first one is empty
  std::vector<std::size_t> outermost = {};               ///< of `annotations`: those of scopes in no other, in order
  std::vector<GraphNodeHandle> nodes = {};               ///< in the order in which they were found
  std::vector<GraphNodeHandle> listed = {};              ///< all of them at the end, as the runtime lists them
  std::vector<Boundary> boundaries = {};
};

/// Were nodes made while several threads were in scopes, so that edges() matter?
bool needs_edges(const AnnotationLog& log);

/// The annotation of each node of the log, as its place in `annotations`.
///
/// A node that was made while one thread was in scopes is of that thread. While several were, a thread gets the nodes
/// that lie between what its streams depended on at two boundaries of its own: for sure where they come after the first
/// ones, unless somebody else did for sure, if they merely lead to the second ones. Of two threads that are as sure
/// that with fewer nodes gets it. What nobody gets so is of the thread whose boundary came next. Linear in nodes and
/// edges for each thread.
std::vector<std::size_t> assign_annotations(const AnnotationLog& log, std::span<const backend::Edge> edges);

}  // namespace reprise::inspect
