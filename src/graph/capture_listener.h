// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/capture_findings.h"
#include "captures/capture.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/capture_report.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

namespace reprise::graphs {

class CaptureListener;

/// What was captured, before it is visible elsewhere.
struct CapturedGraph {
  GraphHandle template_graph = nullptr;  ///< may be changed, but stays the graph's own
  /// What must live as long as the template, the executables and their running launches. May be destroyed after the
  /// listeners, on any thread that calls this library, during any capture: destructors exchange the capture mode.
  memory::ReleaseQueue::Resources resources = {};
  std::vector<CaptureListener*> of_executables = {};  ///< to be notified of those
  std::vector<CaptureListener*> in_replays = {};      ///< to be called around launches
  /// Something changes parameters of the executable, for which the runtime needs the nodes of the template: it is kept
  /// regardless of GraphOptions::discard_template.
  bool needs_template = false;
  std::vector<std::string> notes = {};                        ///< for the report of the capture, each a sentence
  std::vector<CaptureReport::HostAccess> host_accesses = {};  ///< likewise
  bool may_copy = true;                                       ///< CaptureFindings::may_copy
  /// The frame of the call that ended the capture: what lies below it on the thread's stack is gone.
  const void* end_frame = nullptr;
};

/// One concern that takes part in the captures of one graph besides the stream: the memory pool, random numbers,
/// liveness, annotations and so on. A graph owns its listeners and calls them, in the order of listeners.h:
///
///     begin -> started [-> describe -> reported] -> ended ->
///         [instantiated | before_replay -> replayed | replay_failed ...] -> reset
///     begin -> ... a failure, up to the end of CUDAGraph::capture_end -> abandoned [-> reset, if it had started]
///
/// A dry run is a first capture of the same body, for options that compare two captures: into a graph of its own, with
/// listeners of its own, which is never replayed.
///
/// begin() comes before the runtime captures, started() right after that began, ended() when the capture has ended and
/// its template is alive and not yet visible elsewhere. When any step of the capture fails, at this listener, at
/// another or between them, and up to the end of CUDAGraph::capture_end, each listener whose begin() had returned gets
/// abandoned(), the last one first; a begin() that throws undoes what it did itself. Afterwards the listener can begin
/// again.
///
/// What others find during the capture lies in a slot of it. Most captures need little, so most listeners let it be
/// made at first use, and do nothing at the beginning.
///
/// Threads: one call at a time. begin() to ended() come on the thread that captures, the others on any.
/// Capture mode: begin(), started() and ended() run in the mode of the user's thread, so that a listener whose calls
/// are potentially unsafe exchanges the mode itself.
class CaptureListener {
 public:
  virtual ~CaptureListener() = default;

  /// Before begin(), if the body was captured once before: that dry run succeeded, and `listener` was the one of this
  /// kind in it. Its graph is destroyed after this.
  virtual void after_dry_run(CaptureListener& /*listener*/) {}

  virtual void begin(captures::Capture& /*capture*/) {}    ///< may throw: the capture does not begin
  virtual void started(captures::Capture& /*capture*/) {}  ///< may throw: the capture is abandoned
  /// A report is made, before ended() or abandoned(): adds what this listener knows of the capture. Not called if there
  /// is nothing to tell, unless calls are watched.
  virtual void describe(const backend::CaptureFindings& /*findings*/, CaptureReport& /*report*/) {}
  /// The report is complete.
  virtual void reported(const CaptureReport& /*report*/) noexcept {}
  /// May throw: the capture fails.
  virtual void ended(captures::Capture& /*capture*/, CapturedGraph& /*graph*/) {}
  /// The capture failed: release everything acquired for it.
  virtual void abandoned(captures::Capture& /*capture*/) noexcept {}

  /// For those in CapturedGraph::of_executables. An executable was made from the template; it replaces a previous one.
  virtual void instantiated(GraphHandle /*template_graph*/, GraphExecHandle /*exec*/) noexcept {}

  /// The next three are for those in CapturedGraph::in_replays. Right before each launch, the last listener first, on
  /// the thread of the replay, one replay after the other. May throw: nothing is launched, and those that were called
  /// before get replay_failed().
  virtual void before_replay(const StreamRef& /*stream*/) {}
  /// It was launched; the first listener first.
  virtual void replayed(const StreamRef& /*stream*/) noexcept {}
  /// It was not, although before_replay() had returned.
  virtual void replay_failed() noexcept {}

  /// The graph is empty again: forget the capture.
  virtual void reset() noexcept {}
};

}  // namespace reprise::graphs
