// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "backend/types.h"
#include "reprise/annotations.h"

namespace reprise::inspect {

/// Notes about the scopes of a capture: enough to assign, when it is over, each node to its scope.
struct AnnotationLog {
  static constexpr std::size_t no_thread = std::numeric_limits<std::size_t>::max();

  /// A thread entered or left a scope, or the capture ended.
  struct Boundary {
    std::size_t thread;                  ///< its index; the constant above at the end of the capture
    std::size_t nodes;                   ///< number of nodes at that time
    std::size_t in_force;                ///< the thread's annotation from here on: index of `annotations`; 0 for none
    std::vector<GraphNodeHandle> tails;  ///< what the next nodes of the thread's streams depend on
  };

  /// \param around that of nodes outside of all scopes.
  explicit AnnotationLog(const Annotation& around = {}) : annotations{around}, numbers{{around, 0}} {}

  /// The place of an annotation in `annotations`, which gets it if it lacks it.
  std::size_t number_of(const Annotation& annotation) {
    if (const auto known = numbers.find(annotation); known != numbers.end()) return known->second;
    annotations.push_back(annotation);
    return numbers.emplace(annotation, annotations.size() - 1).first->second;
  }

  std::vector<Annotation> annotations;  ///< each once; the first one is that around all scopes
  std::map<Annotation, std::size_t> numbers;
  std::vector<GraphNodeHandle> nodes;   ///< in the order in which they were found
  std::vector<GraphNodeHandle> listed;  ///< all of them at the end, as the runtime lists them
  std::vector<Boundary> boundaries;
};

/// True if several threads entered scopes, so that assign_annotations() needs the edges of the graph.
bool needs_edges(const AnnotationLog& log);

/// The annotation of each node of the log, as its place in `annotations`.
///
/// A node that was made while one thread was in scopes is of that thread. While several were, a thread gets the nodes
/// that lie between what its streams depended on at two boundaries of its own; of two threads, the one with fewer nodes
/// before its boundary. Remaining nodes belong to the thread whose boundary came next. Linear in nodes and edges for
/// each boundary.
std::vector<std::size_t> assign_annotations(const AnnotationLog& log, std::span<const backend::Edge> edges);

}  // namespace reprise::inspect
