// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend/capture_findings.h"
#include "captures/capture.h"
#include "captures/child_node.h"
#include "memory/lifetime/release_queue.h"
#include "reprise/capture_report.h"
#include "reprise/error.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

namespace reprise::graphs {

class CaptureListener;
class GraphResources;
class NodeChanges;
struct NodeChange;
struct SetPlace;

/// Failure of the runtime's capture of a graph or of a body.
struct CaptureFailure {
  ErrorCode code = ErrorCode::unknown;  ///< of the call that ends the capture
  std::string_view detail = {};         ///< the runtime's explanation, if it has one
  bool capturing_thread = true;         ///< the thread that ended it had begun it
};

/// A captured graph, before it is visible elsewhere.
struct CapturedGraph {
  GraphHandle template_graph = nullptr;  ///< may be changed, but stays the graph's own
  std::size_t nodes = 0;                 ///< with those of child graphs and bodies
  /// Objects that must live as long as the template, the executables and their running launches. May be destroyed after
  /// the listeners, on any thread that calls this library, during any capture: destructors exchange the capture mode.
  memory::ReleaseQueue::Resources resources = {};
  std::vector<CaptureListener*> of_executables = {};  ///< to be notified of those
  std::vector<CaptureListener*> in_replays = {};      ///< to be called around launches
  /// Something changes parameters of the executable, for which the runtime needs the nodes of the template: it is kept
  /// regardless of GraphOptions::discard_template.
  bool needs_template = false;
  std::vector<std::string> notes = {};                        ///< for the report of the capture, each a sentence
  std::vector<CaptureReport::HostAccess> host_accesses = {};  ///< likewise
  bool may_copy = true;                                       ///< CaptureFindings::may_copy
  /// Values of nodes that were read, for listeners that come after those which change the template; null if at most one
  /// reads them all.
  NodeChanges* known = nullptr;
  /// The frame of the call that ended the capture: what lies below it on the thread's stack is gone.
  const void* end_frame = nullptr;
};

/// An update of a graph's executable to another graph, and what the first graph takes over: CUDAGraph::update().
struct Adoption {
  GraphExecHandle exec = nullptr;                              ///< the updated one
  std::unordered_map<GraphNodeHandle, GraphNodeHandle> nodes;  ///< of the other template: those of the own one
  /// Resources of the other graph, in its order: both graphs hold them.
  memory::ReleaseQueue::Resources resources = {};
  std::vector<NodeChange>* changes = nullptr;  ///< what nodes of the own template get; never null

  /// Replaces a resource that must not be shared by a copy. Nothing if it is none of the resources.
  void replace(const std::shared_ptr<void>& shared, std::shared_ptr<void> copy) {
    for (auto& resource : resources)
      if (resource == shared) resource = std::move(copy);
  }
};

/// One concern that takes part in the captures of one graph besides the stream: the memory pool, random numbers,
/// liveness, annotations and so on. A graph owns its listeners and calls them, in the order of listeners.cpp:
///
///     begin -> started [-> describe [-> describe_failure]] -> ended ->
///         [instantiated | nodes_changed | before_replay -> replayed | replay_failed ...] -> reset
///     begin -> ... a failure, up to the end of CUDAGraph::capture_end -> [abandoned, if begin() had returned] -> reset
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
/// Data that others need during the capture lies in a slot of it. Most captures need little, so most listeners let it
/// be made at first use, and do nothing at the beginning.
///
/// Threads: one call at a time. begin() to ended() come on the thread that captures, the others on any.
/// Capture mode: begin(), started() and ended() run in the mode of the user's thread, so that a listener whose calls
/// are potentially unsafe exchanges the mode itself.
class CaptureListener {
 public:
  virtual ~CaptureListener() = default;

  virtual void begin(captures::Capture& /*capture*/) {}    ///< may throw: the capture does not begin
  virtual void started(captures::Capture& /*capture*/) {}  ///< may throw: the capture is abandoned
  /// The body of a conditional node is captured from now on, until one of the next two; between started() and the end
  /// of the capture, on any thread that takes part in it. May throw: the capture fails at its end.
  virtual void body_began(captures::Capture& /*capture*/, const captures::Body& /*body*/) {}
  /// The runtime's capture of the body is about to end. May throw, likewise.
  virtual void body_ends(captures::Capture& /*capture*/, const captures::Body& /*body*/) {}
  /// The body failed, perhaps in one of the two above.
  virtual void body_abandoned(captures::Capture& /*capture*/, const captures::Body& /*body*/) noexcept {}
  /// A report is made, before ended() or abandoned(): adds what this listener knows of the capture. The first listener
  /// names the capture and adds the findings. Not called if there is nothing to report, unless calls are watched.
  virtual void describe(const captures::Capture& /*capture*/, const backend::CaptureFindings& /*findings*/,
                        CaptureReport& /*report*/) {}
  /// The capture failed: adds how to the report, after all have described it.
  virtual void describe_failure(const CaptureFailure& /*failure*/, CaptureReport& /*report*/) {}
  /// May throw: the capture fails.
  virtual void ended(captures::Capture& /*capture*/, CapturedGraph& /*graph*/) {}
  /// The capture failed: release everything acquired for it.
  virtual void abandoned(captures::Capture& /*capture*/) noexcept {}

  /// For those in CapturedGraph::of_executables. An executable was made from the template; it replaces a previous one.
  virtual void instantiated(GraphHandle /*template_graph*/, GraphExecHandle /*exec*/) noexcept {}

  /// Values of nodes were set, in the template and in the executable if there is one; not while a replay is underway.
  /// `set` are the places as far as they are known, also those that had the same value. May throw, with nothing changed
  /// here: the values are put back. `known`: what was read of the nodes, with the new values. Objects to be held go to
  /// `resources`, and those that launches may still use are released by it. Returns true to take part in replays from
  /// now on.
  virtual bool nodes_changed(GraphHandle /*template_graph*/, NodeChanges& /*known*/, GraphResources& /*resources*/,
                             std::span<const SetPlace> /*set*/) {
    return false;
  }
  /// For those in CapturedGraph::in_replays: true if nodes_changed() is to be called for places that are set to the
  /// value that they have. May throw.
  virtual bool wants_same_values() const { return false; }

  /// Number of nodes that this listener has added of its own, besides those of the user's work. Right before ended().
  virtual std::size_t own_nodes() const noexcept { return 0; }

  /// The captured graph becomes a child of another capture's. May throw: the capture fails at its end.
  virtual void added_as_child(const captures::ChildNode& /*child*/) {}

  /// The next three are for those in CapturedGraph::in_replays. Right before each launch, the last listener first, on
  /// the thread of the replay, one replay after the other. May throw: nothing is launched, and those that were called
  /// before get replay_failed().
  virtual void before_replay(const StreamRef& /*stream*/) {}
  /// Called after the launch; the first listener first.
  virtual void replayed(const StreamRef& /*stream*/) noexcept {}
  /// Called when nothing was launched although before_replay() had returned.
  virtual void replay_failed() noexcept {}

  /// The graph is about to do the work of another one, whose listener of this kind is `other`: prepares to take over
  /// what that keeps for its graph. May throw: nothing has changed. The result is called when the executable was
  /// updated, not while a replay of one of the graphs is underway, and must not throw; empty: there is nothing to do.
  virtual std::function<void()> adopt(const CaptureListener& /*other*/, Adoption& /*adoption*/) { return {}; }

  /// Takes over what the user registered with `before`, the listener of this kind of another graph, whose place this
  /// one takes. Called before a capture: a dry run inherits from the user's graph, and that graph from its dry run.
  virtual void inherit(const CaptureListener& /*before*/) {}

  /// Replaces, among the resources of this graph that another one shares, the lists that this graph changes later by
  /// copies.
  virtual void replace_by_copies(memory::ReleaseQueue::Resources& /*shared*/) const {}

  /// Called when the graph is empty again: forget the capture.
  virtual void reset() noexcept {}
};

/// The base of a listener T that looks at another one of its kind: calls the functions below, which are those of
/// CaptureListener, with a T.
template <class T>
class ListenerOf : public CaptureListener {
 public:
  std::function<void()> adopt(const CaptureListener& other, Adoption& adoption) final {
    return adopt_from(dynamic_cast<const T&>(other), adoption);
  }
  void inherit(const CaptureListener& before) final { inherit_from(dynamic_cast<const T&>(before)); }

 protected:
  virtual std::function<void()> adopt_from(const T& /*other*/, Adoption& /*adoption*/) { return {}; }
  virtual void inherit_from(const T& /*before*/) {}
};

}  // namespace reprise::graphs
