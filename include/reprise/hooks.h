// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "reprise/detail/export.h"
#include "reprise/error.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

/// \file
/// Hooks: callbacks at the steps of a graph's life.

namespace reprise {

class CUDAGraph;

/// Callbacks at the steps of a CUDAGraph's life; each may be empty. Registered by CUDAGraph::add_hooks().
///
/// *Order.* All hooks of a step run, in the order of their registration, also after one has thrown. Then the step
/// throws the first exception; the others become warnings.
///
/// *Threads.* Called on the thread of the step. While a hook runs, other threads' replays of the same graph wait.
///
/// *A hook may* query its graph, and call add_hooks(), remove_hooks() (for itself, too), retain() and release(). Calls
/// that would change or launch the graph throw UsageError. A graph that is destroyed or assigned to lives until the
/// call that runs the hook returns, which throws UsageError. docs/hooks.md says what waits for what.
struct GraphHooks {
  /// The capture has ended: the graph answers queries as a captured one. The template may be read and changed, and is
  /// not yet visible elsewhere. An exception fails the capture, which releases everything.
  std::function<void(GraphHandle template_graph)> captured = {};
  /// An executable was created: after CUDAGraph::capture_end() or CUDAGraph::instantiate(), or within the first
  /// replay() or upload(). An exception keeps it, and fails the call: the capture, or the replay.
  std::function<void(GraphExecHandle exec)> instantiated = {};
  /// Right before a replay on a stream. An exception refuses the replay: nothing is launched.
  std::function<void(const StreamRef& stream)> before_replay = {};
  /// Once for each replay in which `before_replay` of the same hooks returned, or is empty; not for hooks that were
  /// added since, or removed. After the launch, which may still be running, `result` is success, and replay() throws
  /// the exception of this hook; the launch is not undone. After a replay that failed or was refused, also by another
  /// hook, it is the code of the BackendError, `out_of_memory` for an OutOfMemoryError, `unknown` for any other
  /// exception; replay() throws that one, and the exception of this hook becomes a warning.
  std::function<void(const StreamRef& stream, ErrorCode result)> after_replay = {};
  /// The captured graph was released: by reset(), by the destructor, or because the capture failed after `captured` had
  /// been called. A replay may still be running: pass objects that it needs to CUDAGraph::retain(). An exception
  /// becomes a warning.
  std::function<void()> reset = {};
};

/// Identifies registered hooks; unique in the process.
enum class HookId : std::uint64_t {};

/// Callbacks at the same steps of every graph of the process, for profilers, loggers and tests; each may be empty, and
/// does what the one of GraphHooks does. Registered by add_global_hooks().
///
/// *The graph* is the one whose step it is, for queries: CUDAGraph::id() distinguishes graphs, also after moves, and
/// name() has the user's name for it. In `reset` it is empty already, and has no name.
///
/// *Order.* Before a replay they are called ahead of the graph's own hooks, at all other steps after them: they see
/// what those did to the template, and enclose what those do in a replay.
///
/// *Threads.* Called on the thread of the step, for different graphs at the same time. A graph that is replayed in such
/// a hook has its own hooks called, these among them.
struct GlobalGraphHooks {
  std::function<void(const CUDAGraph& graph, GraphHandle template_graph)> captured = {};
  std::function<void(const CUDAGraph& graph, GraphExecHandle exec)> instantiated = {};
  std::function<void(const CUDAGraph& graph, const StreamRef& stream)> before_replay = {};
  std::function<void(const CUDAGraph& graph, const StreamRef& stream, ErrorCode result)> after_replay = {};
  std::function<void(const CUDAGraph& graph)> reset = {};
};

/// Registers hooks for all graphs, those that exist and later ones, until they are removed; within a hook, from the
/// next step on. While none are registered for replays, a replay pays one relaxed load. Thread-safe. \returns an id for
/// remove_global_hooks().
REPRISE_EXPORT HookId add_global_hooks(GlobalGraphHooks hooks);

/// Removes hooks for all graphs. Waits until none of them is running on another thread, and destroys the functions
/// before it returns; within a hook of any graph it does not wait, and they are destroyed when the replays and other
/// steps underway are over. Thread-safe; do not hold a lock that one of the hooks takes.
/// \throws UsageError if no hooks with this id are registered.
REPRISE_EXPORT void remove_global_hooks(HookId id);

}  // namespace reprise
