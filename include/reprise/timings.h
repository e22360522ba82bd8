// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/detail/export.h"
#include "reprise/graph.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

/// \file
/// Timings: the time of each node of a graph in a replay.

namespace reprise {

namespace inspect {
class TimedReplay;
}

/// The time of one node in a replay, in microseconds of the device's clock.
struct NodeTiming {
  /// The node of the template, or of a child graph or body in it. Null if unknown: the node was removed from the
  /// template after the executable was made. On a CUDA device also if it lies in a child graph or body, and nodes of
  /// the template were removed, or a conditional node that other code added comes first in the order of the numbers.
  GraphNodeHandle node = nullptr;
  /// The node's place among all nodes of the template, in order of creation; of a node in a child graph or body, that
  /// of the enclosing node; nullopt if unknown.
  std::optional<std::size_t> index = {};
  std::string number = {};  ///< GraphNode::number(): "3"; in the child graph of node 3 "3.0", ...; empty if unknown
  /// A kernel's name, without its parameters; for any other work CUDA's word for its node, for example `memcpy`.
  std::string name = {};
  Annotation annotation = {};  ///< of the scopes in which the node was captured; may be empty
  double start_us = 0;         ///< from the start of the first node; of a node in a loop, of its first run
  double duration_us = 0;      ///< from its start to its end; of a node in a loop, the sum over its runs
  std::size_t runs = 1;        ///< how often it ran in the replay: more than once only in a loop
  double span_us = 0;          ///< from the start of its first run to the end of its last one
};

/// The time of the nodes with one annotation in a replay, in microseconds.
struct AnnotationTiming {
  Annotation annotation = {};  ///< as a whole: nodes of an inner scope do not count for the outer one
  std::size_t nodes = 0;       ///< number of nodes with it
  double start_us = 0;         ///< first start of them, from the start of the first node of all
  double span_us = 0;          ///< from there to their last end
  double duration_us = 0;      ///< the sum of their durations; more than the span when they overlap
};

/// The times of a replay. A value, except for the handles of the template's nodes.
struct REPRISE_EXPORT ReplayTiming {
  std::vector<NodeTiming> nodes = {};              ///< in order of their start
  double total_us = 0;                             ///< from the first start to the last end
  std::vector<AnnotationTiming> annotations = {};  ///< in order of their first start
  std::vector<std::string> notes = {};             ///< what is missing in the list and why, each a sentence

  /// The times as tables: several lines, each ended by a newline.
  std::string str() const;
};

/// Times the next replay of a graph, however it is launched: by CUDAGraph::replay(), or by a call of the graphed
/// callable that it belongs to.
///
///     ReplayTimer timer(callable.forward_graph());
///     callable(x);
///     std::puts(timer.take().str().c_str());
///
/// A replay that fails is not counted. A second replay before take() waits until the timed one has completed. What is
/// timed on which device: see time_replay(). A replay that cannot be timed throws Error and launches nothing. The timed
/// replay records one event more.
///
/// Threads: construction, take() and destruction as CUDAGraph::replay().
class REPRISE_EXPORT ReplayTimer {
 public:
  /// \param graph one timer at a time. If it is reset or destroyed first, take() is refused.
  /// \throws UsageError if nothing is captured, the template was discarded, another ReplayTimer of the graph lives, or
  ///         in a hook of the same graph.
  explicit ReplayTimer(CUDAGraph& graph);
  /// Waits for the timed replay, if there was one and take() was not called. Its stream may have ended, or take part in
  /// a capture.
  ~ReplayTimer();
  ReplayTimer(const ReplayTimer&) = delete;
  ReplayTimer& operator=(const ReplayTimer&) = delete;

  /// Waits for the end of the timed replay, whose stream may have ended, and returns the time of each node. Once.
  /// \throws UsageError if there was no replay, the graph was reset or destroyed, the times were taken already, or a
  ///         capture of this library is underway, which the wait might break.
  /// \throws BackendError if the wait fails, or if no event could be recorded behind the launch.
  ReplayTiming take();

 private:
  std::unique_ptr<inspect::TimedReplay> timed_;  // null once taken
};

/// Replays the graph once on the stream, waits for its end, and returns the time of each node.
///
/// The timed replay is an ordinary one: it draws random numbers and writes its results. Other replays of the graph wait
/// until it has completed. Replay once before to exclude the cost of the first launch.
///
/// On a CUDA device the times come from CUPTI, which is opened at run time: those of kernels, copies and sets, in the
/// GPU's clock. Nodes of other kinds are counted in the notes. On the host device all nodes have times, which say
/// nothing about a GPU.
///
/// Threads: as CUDAGraph::replay(). No cost for other replays when not in use.
/// \throws UsageError if nothing is captured, the template was discarded, the stream is of another device or capturing,
///         or any capture of this library is underway, which the wait might break; in a hook of the same graph; if a
///         ReplayTimer of the graph lives; and for a graph of a graphed callable, which ReplayTimer times. Nothing was
///         launched.
/// \throws Error if nodes cannot be timed: CUPTI is missing, or in use by another tool. Nothing was launched.
/// \throws BackendError if the launch or the wait fails.
REPRISE_EXPORT ReplayTiming time_replay(CUDAGraph& graph, const StreamRef& stream = current_stream());

}  // namespace reprise
