// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "reprise/handles.h"
#include "reprise/stream.h"

/// \file
/// Hooks: callbacks at the steps of a graph's life.

namespace reprise {

/// Callbacks at the steps of a CUDAGraph's life; each may be empty. Registered by CUDAGraph::add_hooks().
///
/// *Order.* All hooks of a step run, in the order of their registration, also after one has thrown. Then the step
/// throws the first exception; the others become warnings.
///
/// *Threads.* Called on the thread of the step. While a hook runs, other threads' replays of the same graph wait.
///
/// *A hook may* query its graph, and call add_hooks(), remove_hooks() (for itself, too) and retain(). Calls that would
/// change or launch the graph throw UsageError; destroying it ends the process. docs/hooks.md says what waits for what.
struct GraphHooks {
  /// The capture has ended; the template may be read and changed, and is not yet visible elsewhere. An exception fails
  /// the capture, which releases everything.
  std::function<void(GraphHandle template_graph)> captured = {};
  /// An executable was created: after CUDAGraph::capture_end() or CUDAGraph::instantiate(), or within the first
  /// replay() or upload(). An exception keeps it, and fails the call: the capture, or the replay.
  std::function<void(GraphExecHandle exec)> instantiated = {};
  /// Right before a replay on a stream. An exception refuses the replay: nothing is launched.
  std::function<void(const StreamRef& stream)> before_replay = {};
  /// Right after the launch of a replay, which may still be running. replay() throws the exception of this hook; the
  /// launch is not undone.
  std::function<void(const StreamRef& stream)> after_replay = {};
  /// The captured graph was released: by reset(), by the destructor, or because the capture failed after `captured` had
  /// been called. A replay may still be running: pass objects that it needs to CUDAGraph::retain(). An exception
  /// becomes a warning.
  std::function<void()> reset = {};
};

/// Identifies registered hooks; unique in the process.
enum class HookId : std::uint64_t {};

}  // namespace reprise
