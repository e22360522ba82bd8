// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/graph.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

/// \file
/// Timings: what each node of a graph takes in a replay.

namespace reprise {

/// What one node took in a replay. Times are microseconds of the device's clock.
struct NodeTiming {
  /// The node of the template graph. Null if it cannot be told: the node was removed from the template after the
  /// executable was made, or, on a CUDA device, it lies in a child graph or was made after one.
  GraphNodeHandle node = nullptr;
  /// The node's place among all nodes of the template, in order of creation; none if it cannot be told.
  std::optional<std::size_t> index = {};
  /// A kernel's name, without its parameters; for any other work CUDA's word for its node, for example `memcpy`.
  std::string name = {};
  Annotation annotation = {};  ///< what the scopes said in which the node was captured; may be empty
  double start_us = 0;         ///< from the start of the first node
  double duration_us = 0;      ///< from its start to its end
};

/// What the nodes with one annotation took in a replay. Times are microseconds.
struct AnnotationTiming {
  Annotation annotation = {};  ///< as a whole: nodes of an inner scope do not count for the outer one
  std::size_t nodes = 0;       ///< how many nodes of the list have it
  double start_us = 0;         ///< of the one that starts first, from the start of the first node of all
  double span_us = 0;          ///< from there to the end of the one that ends last
  double duration_us = 0;      ///< the sum of theirs; more than the span when they overlap
};

/// What a replay took. A value: it refers to nothing but the nodes of the template, by their handles.
struct ReplayTiming {
  std::vector<NodeTiming> nodes = {};              ///< in order of their start
  double total_us = 0;                             ///< from the first start to the last end
  std::vector<AnnotationTiming> annotations = {};  ///< in order of their first start
  std::vector<std::string> notes = {};             ///< what is missing in the list and why, each a sentence

  /// All of it as tables, several lines, with a line end after the last.
  std::string str() const;
};

/// Replays the graph once on the stream, waits for the end, and returns what each node took.
///
/// It is a replay as any other: it draws random numbers and writes its results. Other replays of the graph wait until
/// it is done. Replay once before, if what the first launch costs is not to be in it.
///
/// On a CUDA device the times come from CUPTI, which is opened at run time: those of kernels, copies and sets, in the
/// GPU's clock. Nodes of other kinds are counted in the notes. On the host device all nodes have times, which say
/// nothing about a GPU.
///
/// Threads: as CUDAGraph::replay(). It costs a replay nothing when it is not in use.
/// \throws UsageError if nothing is captured, the template was discarded, the stream is of another device or capturing,
///         or any capture of this library is underway, which the wait might break; and in a hook of the same graph.
///         Nothing was launched.
/// \throws Error if nodes cannot be timed: CUPTI is not there, or another tool uses it. Nothing was launched.
/// \throws BackendError if the launch or the wait fails.
ReplayTiming time_replay(CUDAGraph& graph, const StreamRef& stream = current_stream());

}  // namespace reprise
