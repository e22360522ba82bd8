// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "reprise/capture.h"
#include "reprise/capture_options.h"
#include "reprise/capture_report.h"
#include "reprise/detail/export.h"
#include "reprise/eager_function.h"
#include "reprise/graph.h"
#include "reprise/stream.h"

/// \file
/// Captures with eager parts: pieces of a program that cannot be captured run between captured ones, in each replay.

namespace reprise {

/// A captured piece of a program with eager parts: graphs, its *segments*, and functions that run between them.
///
///     BreakableGraph step = breakable([&] {
///       forward(tokens, logits);                                  // segment 1
///       Buffer<int> next = eager([&] { return sample(logits); });  // on the host, in each replay
///       append(next, tokens);                                     // segment 2
///     });
///     step.replay();
///
/// States:
///
///     empty     -> capturing   breakable()
///     capturing -> ready       the body has returned, and everything has run once
///     capturing -> empty       an exception of the body, of an eager part or of a capture
///     ready     -> empty       reset(), and the destructor
///
/// *Memory.* All segments share one pool. They are captured and replayed in one order, so that a later segment may
/// reuse what an earlier one freed; memory that is used on both sides of an eager part must be freed after it, as in
/// an eager run. What the body allocates and hands out is valid as with capture().
///
/// *Threads.* One thread at a time may use an object, except for replay(), which is thread-safe: one call waits for the
/// other. Eager parts run on the thread that replays. Replays on different streams run one after another on the device.
///
/// The destructor waits for nothing: replays may run. Movable; a moved-from object may only be assigned to or
/// destroyed.
class REPRISE_EXPORT BreakableGraph {
 public:
  BreakableGraph();
  ~BreakableGraph();
  BreakableGraph(BreakableGraph&& other) noexcept;
  BreakableGraph& operator=(BreakableGraph&& other) noexcept;  ///< as the destructor, then takes over the other one

  /// Replays the segments and runs the eager parts, in order, on the calling thread's current stream of the graph's
  /// device. It is the current stream of the eager parts. Returns when the last segment is launched, without waiting.
  ///
  /// An exception, of an eager part too, ends the replay where it is, as it ends an eager run: what was launched before
  /// takes effect, the rest does not. The graph stays usable; the next replay begins at the beginning.
  /// \throws UsageError if nothing is captured; if the stream takes part in a capture, or is of another device; within
  ///         an eager part of the same graph; if an eager part returns other shapes than in the capture. What an eager
  ///         part throws, and what CUDAGraph::replay throws.
  void replay();
  /// As above, on `stream`.
  void replay(const StreamRef& stream);

  /// Releases all segments and functions; empty afterwards.
  /// \throws UsageError in its capture, and within an eager part of it.
  void reset();

  /// Number of segments, with those that have no nodes: one more than there are eager parts.
  /// \throws UsageError if nothing is captured; so do the following ones.
  std::size_t segment_count() const;
  /// A segment, for its nodes, annotations, inputs and pictures; valid until the graph is empty.
  /// \throws UsageError if there are not so many; numbers count from 0.
  const CUDAGraph& segment(std::size_t number) const;
  MempoolId pool() const;  ///< that all segments share
  Device device() const;   ///< of the capture

  /// GraphOptions::name of the capture; empty before one.
  std::string name() const;
  /// The report of the last capture, as CUDAGraph::capture_report(): that of the segment that failed, or what all
  /// segments left out, together.
  const std::optional<CaptureReport>& capture_report() const;

  /// For internal use.
  struct Impl;

 private:
  friend void breakable(BreakableGraph& graph, const GraphOptions& options, CaptureBody body);

  std::shared_ptr<Impl> impl_;
};

/// Captures a body with eager parts, which runs once, and takes effect once, as an eager run does: each call of eager()
/// in it ends a segment, which is instantiated and replayed at once, then runs its function, then begins the next
/// segment; the last segment is replayed when the body has returned.
///
/// The segments run on GraphOptions::stream, if it is set, else on the current stream, where later replays go, too.
/// The body runs with the stream of the capture as its current one, eager parts with the stream that the segments run
/// on: functions that need it take it as their parameter.
///
/// Host code of the body outside of eager parts runs once, at capture: a branch there is frozen. Random numbers,
/// checks of inputs (before each segment), annotations and reports work as if there were one capture; a scope of
/// annotate that is open at a boundary goes on behind it. Streams that were forked off must be joined at a boundary.
///
/// Options are those of each segment; the name gets the number of the segment. `hooks` are called for each of them.
/// \throws UsageError if the graph is not empty, `body` is empty, the stream takes part in a capture, or an option
///         needs a body that runs more than once (`check_frozen_values`). What capture() and the body throw:
///         the graph is empty then, and what has run has taken effect.
REPRISE_EXPORT void breakable(BreakableGraph& graph, const GraphOptions& options, CaptureBody body);
/// As above, and returns the graph.
REPRISE_EXPORT BreakableGraph breakable(const GraphOptions& options, CaptureBody body);
/// As above, with the default options.
REPRISE_EXPORT BreakableGraph breakable(CaptureBody body);

/// An eager part of the body of breakable(), or of a GraphCache: `function` runs now, on real values, and in each
/// replay at this place. Outside of captures it is simply called.
///
/// `function` takes nothing, or the stream on which replays run, as a StreamRef or `cudaStream_t`. It may do all that
/// is forbidden in a capture: wait, read values, allocate, call libraries, decide. It is kept by value as long as the
/// graph, and must not refer to local variables of the body, which are gone in replays: pass `[=]`, or capture what
/// outlives the graph. Addresses of the body's stack in the object itself are found, and refused, unless
/// `InputOptions::allow_stack` is set; those behind other pointers are not.
///
/// The function returns nothing, a Buffer (of one value for a scalar), or a `std::vector`, `std::array`, `std::tuple`
/// or `std::pair` of buffers. In a capture that is copied to static memory of the pool, in each replay anew, and must
/// have the same sizes; the result of eager() is that memory, for the segments behind it. Memory that the function
/// fills itself, such as that of tensors, must be there before the capture.
/// \param function to run; movable.
/// \returns what the function returns, or the memory to which it is copied.
/// \throws UsageError if the current stream takes part in a capture that is not of breakable() or a GraphCache, as in
///         bodies of control flow, or on another stream than the one of the capture; if the function is empty, or holds
///         addresses that are gone in replays; CaptureError if the segment cannot end, as with forks that are not
///         joined. What the function throws. After an exception in a capture nothing more is captured, and breakable()
///         throws it, too.
template <class F>
[[nodiscard]] auto eager(F&& function) requires(!std::is_void_v<eager_detail::ReturnedBy<std::decay_t<F>>>) {
  using Kept = eager_detail::FunctionOf<std::decay_t<F>>;
  if (eager_detail::is_empty(function)) eager_detail::refuse_empty_function();
  if (!eager_detail::is_breakable()) return eager_detail::call(function, current_stream());
  auto made = std::make_unique<Kept>(std::forward<F>(function));
  Kept& kept = *made;
  eager_detail::run_part(std::move(made));
  try {
    return kept.make_fixed(current_stream());
  } catch (...) {
    eager_detail::fail_part();
    throw;
  }
}
/// As above, for a function that returns nothing.
template <class F>
void eager(F&& function) requires(std::is_void_v<eager_detail::ReturnedBy<std::decay_t<F>>>) {
  if (eager_detail::is_empty(function)) eager_detail::refuse_empty_function();
  if (eager_detail::is_breakable())
    eager_detail::run_part(std::make_unique<eager_detail::FunctionOf<std::decay_t<F>>>(std::forward<F>(function)));
  else
    eager_detail::call(function, current_stream());
}

}  // namespace reprise
