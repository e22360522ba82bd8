// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/capture_options.h"
#include "reprise/capture_report.h"
#include "reprise/device.h"
#include "reprise/handles.h"
#include "reprise/hooks.h"
#include "reprise/liveness.h"
#include "reprise/memory.h"
#include "reprise/random.h"
#include "reprise/stream.h"

/// \file
/// CUDAGraph: capture work once, replay it with one launch.

namespace reprise {

namespace graphs {
struct GraphAccess;
}

/// A CUDA graph: PyTorch's `torch.cuda.CUDAGraph`.
///
/// States, and what each call needs:
///
///     empty      -> capturing   capture_begin
///     capturing  -> captured    capture_end with KeepGraph::yes: the template is there, no executable yet
///     capturing  -> ready       capture_end with KeepGraph::no
///     capturing  -> empty       a failure between begin and end, or capture_abandon: everything is given back
///     captured   -> ready       instantiate, upload, replay
///     ready      -> ready       instantiate (KeepGraph::yes only): a new executable of the template, edited or not
///     any        -> empty       reset, and the destructor
///
/// A call in another state throws UsageError, names both states, and changes nothing.
///
/// Threads: an object is used by one thread at a time, except replay(), which several may call; launches of one
/// executable graph run one after another. A capture in mode `global` or `thread_local_` must end on the thread that
/// began it. reset() at the same time as replay() of the same object is an error of the caller's.
///
/// Ownership: the graph holds its pool, and so the memory that was allocated in the capture. It is given back when the
/// template, the executable and all its running launches are gone: reset() and the destructor are allowed while replays
/// run and while anyone captures, and wait for no replay. If one is still running after 50 microseconds, or later work
/// of its stream, what the graph holds is given back by a later call of this library; allocations that find no memory
/// wait for it. With KeepGraph::yes all that others instantiate from the template and launch counts, too. That costs
/// something: the runtime counts the launches, each of which is dearer, and reset() waits up to half a millisecond for
/// it to let go of a graph that was replayed.
///
/// A stream that a graph was replayed on may be destroyed before the graph. A replay costs an event more on a stream of
/// whose end this library does not hear: one that is neither a Stream, nor the legacy default stream, nor of libtorch's
/// pools.
///
/// Movable; a moved-from CUDAGraph may only be assigned to or destroyed.
class CUDAGraph {
 public:
  explicit CUDAGraph(KeepGraph keep_graph = KeepGraph::no);  ///< an empty graph
  ~CUDAGraph();                                              ///< as reset(); abandons a capture that is underway
  CUDAGraph(CUDAGraph&& other) noexcept;                     ///< takes the graph over
  CUDAGraph& operator=(CUDAGraph&& other) noexcept;          ///< as the destructor, then takes the other graph over

  /// Begins to capture the calling thread's current stream.
  /// \throws UsageError if the graph is not empty, the stream is the legacy default stream, is capturing already or is
  ///         not `options.stream`, or another capture is filling the same pool.
  void capture_begin(const GraphOptions& options);
  /// Begins to capture the calling thread's current stream.
  void capture_begin(MempoolId pool = {}, CaptureErrorMode capture_error_mode = CaptureErrorMode::global);

  /// Captures of this graph keep the generator from being set, from their beginning on. Generators take part by
  /// themselves, when something draws from them; this is for programs written for PyTorch's `register_generator_state`.
  /// \throws UsageError unless the graph is empty.
  void register_generator_state(const Generator& generator);

  /// Registers hooks: they are called from now on, in all captures of this object, until they are removed.
  /// Allowed in any state, also within a hook: first called at the next step then.
  /// \returns a name for remove_hooks().
  HookId add_hooks(GraphHooks hooks);

  /// Removes hooks; from within one of them, too. The functions are destroyed before this returns, or after the one
  /// that is running.
  /// \throws UsageError if this graph has no hooks of that name (any more).
  void remove_hooks(HookId id);

  /// Keeps an object alive as long as what is being captured or was captured: until template, executables and all
  /// running launches are gone. It is then released by whichever thread calls this library next, maybe while someone
  /// captures; a capture that fails releases it at once.
  /// \throws UsageError if nothing is being captured or was captured, or the pointer is null.
  void retain(std::shared_ptr<void> object);

  /// Ends the capture; instantiates the graph unless it was made with KeepGraph::yes.
  /// \throws UsageError if no capture is underway, the current stream is not the one it began on, or the thread is not
  ///         the one that began it: the capture goes on.
  /// \throws CaptureError if the capture was broken, a forked stream was not joined, or nothing was captured: the graph
  ///         is empty again.
  /// \throws BackendError if the graph cannot be instantiated: the graph is empty again.
  /// \throws UsageError if a second capture (GraphOptions::confirm_by_second_capture) has other nodes than the first:
  ///         the graph is empty again.
  void capture_end();

  /// Ends a capture and drops what was captured; does nothing if none is underway. Allowed on any thread. Never throws.
  void capture_abandon() noexcept;

  /// Makes the executable graph from the template, again if there is one already (after the template was edited).
  /// \throws UsageError unless the graph was made with KeepGraph::yes and holds a template.
  void instantiate();

  /// Moves the executable graph to the device ahead of the first replay (`cudaGraphUpload`).
  void upload(const StreamRef& stream = current_stream());

  /// Launches the graph on the calling thread's current stream of the graph's device. Returns without waiting.
  /// \throws UsageError if nothing is captured, the stream is of another device, or it is capturing.
  /// \throws DeadInputError if memory that the graph uses was freed (GraphOptions::check_input_liveness). What another
  ///         thread frees during the call may or may not be noticed.
  void replay();
  /// Launches the graph on a stream.
  void replay(const StreamRef& stream);

  /// Gives everything back: executable, template, pool. The graph is empty afterwards and can capture again.
  /// \throws UsageError in a capture of this graph: end or abandon it first.
  void reset();

  /// The id of the pool, for sharing it with later captures.
  /// \throws UsageError before a capture.
  MempoolId pool() const;

  /// debug_dump() gets all the details, and the template is kept for it whatever the options say.
  void enable_debug_mode();

  /// Writes the template as Graphviz DOT.
  /// \throws UsageError if there is no template; Error if the file cannot be written.
  void debug_dump(const std::filesystem::path& path) const;

  /// The template, `cudaGraph_t`; it stays the graph's own.
  /// \throws UsageError unless the graph was made with KeepGraph::yes and holds a template.
  GraphHandle raw_cuda_graph() const;

  /// The executable graph, `cudaGraphExec_t`; it stays the graph's own. With KeepGraph::no the graph does not know of
  /// launches that are made with it: they must be over before it is reset or destroyed.
  /// \throws UsageError if the graph is not instantiated.
  GraphExecHandle raw_cuda_graph_exec() const;

  /// What is known of the last capture, if there is something to tell: it failed or was broken, or, with
  /// `GraphOptions::report = ReportDetail::full`, left something out. The same as CaptureError::report(), also when it
  /// was another exception that ended the capture. Kept until the next capture_begin(), reset() or not.
  const std::optional<CaptureReport>& capture_report() const;

  /// How many nodes the template has.
  /// \throws UsageError if there is no template.
  std::size_t node_count() const;

  /// The nodes that were made in a scope of the class `annotate`, in order of creation; none unless
  /// GraphOptions::enable_annotations was set. They are those of the capture: when an executable is made of a template
  /// that was edited, nodes that are gone are left out, and new ones have no annotation. Kept when the template is
  /// discarded.
  /// \throws UsageError if nothing is captured.
  std::vector<AnnotatedNode> annotations() const;
  /// The memory that the captured graph uses and does not own, by address, dead or alive.
  /// \throws UsageError before a capture, or if it was made with neither GraphOptions::check_input_liveness nor
  ///         retain_inputs.
  std::vector<GraphInput> inputs() const;

  /// The device of the capture.
  /// \throws UsageError before a capture.
  Device device() const;

 private:
  friend struct graphs::GraphAccess;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise
