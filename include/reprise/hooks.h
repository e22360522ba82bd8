// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "reprise/handles.h"
#include "reprise/stream.h"

/// \file
/// Hooks: what a program does at the steps of a graph's life.

namespace reprise {

/// Functions that are called at the steps of a CUDAGraph's life; each may be empty. CUDAGraph::add_hooks() registers
/// them.
///
/// *Order.* All hooks of a step run, in the order in which they were registered; one that throws does not stop the
/// others. Then the first exception goes to the caller of the step; the others become warnings.
///
/// *Threads.* On the thread that makes the step. While a hook runs, other threads' replays of the same graph wait.
///
/// *What a hook may do with its graph:* ask, add_hooks(), remove_hooks() (itself, too) and retain(). What would change
/// the graph or launch it throws UsageError; destroying it ends the process. docs/hooks.md says what waits for what.
struct GraphHooks {
  /// The capture is over; the template is alive, may be read and changed, and is unknown to anyone else. An exception
  /// fails the capture: everything is given back.
  std::function<void(GraphHandle template_graph)> captured = {};
  /// There is a new executable: after CUDAGraph::capture_end() or CUDAGraph::instantiate(), or within the first
  /// replay() or upload(). An exception leaves it there, and fails the call: the capture, or the replay.
  std::function<void(GraphExecHandle exec)> instantiated = {};
  /// Right before a replay on a stream. An exception refuses the replay: nothing is launched.
  std::function<void(const StreamRef& stream)> before_replay = {};
  /// Right after the launch of a replay, which nobody has waited for. An exception comes out of replay(); the launch
  /// stays.
  std::function<void(const StreamRef& stream)> after_replay = {};
  /// What was captured is gone: by reset(), by the destructor, or because the capture failed after `captured` had been
  /// called. A replay may still be running: what it needs belongs into CUDAGraph::retain(). An exception becomes a
  /// warning.
  std::function<void()> reset = {};
};

/// Names registered hooks; unique in the process.
enum class HookId : std::uint64_t {};

}  // namespace reprise
