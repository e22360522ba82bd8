// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/capture_report.h"
#include "reprise/hooks.h"
#include "reprise/liveness.h"
#include "reprise/memory.h"
#include "reprise/random.h"
#include "reprise/stream.h"

/// \file
/// CUDAGraph: capture work once, replay it with one launch.

namespace reprise {

struct ReplayTiming;
namespace graphs {
struct GraphAccess;
}

/// How an executable graph is made; CUDA's `cudaGraphInstantiateFlag...`. Can be combined with `|`.
enum class InstantiateFlags : unsigned {
  none = 0,
  auto_free_on_launch = 1,  ///< memory that the graph allocated and did not free is freed before the next launch
  upload = 2,               ///< upload to the device at once, on the stream of the capture
  device_launch = 4,        ///< the graph can be launched from the device
  use_node_priority = 8,    ///< nodes run with the priority of the streams that they were captured on
};
/// Both.
constexpr InstantiateFlags operator|(InstantiateFlags a, InstantiateFlags b) {
  return static_cast<InstantiateFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// What is in both.
constexpr InstantiateFlags operator&(InstantiateFlags a, InstantiateFlags b) {
  return static_cast<InstantiateFlags>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

/// How a capture is made.
struct GraphOptions {
  /// The memory pool for what is allocated in the capture: an id of graph_pool_handle() or of another graph's pool(),
  /// whose pool is then shared. No id: a pool of the graph's own.
  MempoolId pool = {};
  /// The stream to capture on. Not given: capture_begin() takes the current stream; the scope `graph` takes an
  /// internal one, the lowest-numbered of the current device that is not capturing.
  std::optional<StreamRef> stream = {};
  /// What other calls may do meanwhile. `global` as in PyTorch; `thread_local_` where other threads use the device.
  CaptureErrorMode capture_error_mode = CaptureErrorMode::global;
  /// How the executable graph is made.
  InstantiateFlags instantiate_flags = InstantiateFlags::none;
  /// A capture without any work is an error unless this is set: it nearly always means that the work went to another
  /// stream.
  bool allow_empty = false;
  /// How much the capture finds out about the calls that are made meanwhile, for capture_report().
  ReportDetail report = ReportDetail::standard;
  /// Scopes of the class `annotate` name the nodes that are made in them, for CUDAGraph::annotations(), reports, errors
  /// and tools.
  bool enable_annotations = false;
  /// Frees the template's host memory once the graph is instantiated. What needs the template then refuses:
  /// debug_dump(), changing parameters. Not together with KeepGraph::yes.
  bool discard_template = false;
  /// Before each replay: is the memory still there that the graph uses and does not own? If not, DeadInputError. What
  /// is found and what is not: docs/input-liveness.md.
  bool check_input_liveness = false;
  /// Which memory that is; for check_input_liveness and retain_inputs.
  Liveness liveness = Liveness::allocator;
  /// Memory of CachingAllocator that the graph uses lives as long as the graph, instead of being checked: what its
  /// owner frees counts as allocated until the last such graph is gone. Memory of the driver cannot be kept; with
  /// Liveness::all it is checked.
  bool retain_inputs = false;
  /// The body is captured twice, and only what both captures have in the same place counts as an input: words of a
  /// kernel's parameters that nobody wrote, and that look like addresses by chance, differ. The first graph is thrown
  /// away. For check_input_liveness and retain_inputs; capture() alone can do it.
  bool confirm_by_second_capture = false;
};

/// Who instantiates a captured graph, and whether the user can reach its template.
enum class KeepGraph : bool {
  no = false,  ///< capture_end() instantiates; raw_cuda_graph() is refused
  yes = true,  ///< raw_cuda_graph() gives the template; instantiate() or the first replay() instantiates
};

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
  friend class graph;
  friend struct graphs::GraphAccess;
  friend ReplayTiming time_replay(CUDAGraph& graph, const StreamRef& stream);  // timings.h
  friend void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body);
  struct Impl;
  struct Rehearsal;
  std::unique_ptr<Impl> impl_;
};

/// A scope in which the work of the calling thread's current stream is captured: PyTorch's `torch.cuda.graph`.
///
/// On entry, if no capture of this library is underway in the process: waits for the device and gives cached memory
/// back, so that the pool of the graph can grow. (Waiting for the device breaks every capture, so it is left out while
/// there is one. A capture that somebody began with raw driver calls is not known here: end it first.) Then the stream
/// of the options, or an internal one, becomes current and its capture begins.
///
/// Leaving the scope normally ends the capture, and may throw what CUDAGraph::capture_end throws. Leaving it by an
/// exception abandons the capture: the graph is empty, and the exception goes on. Either way the thread's current
/// stream is as before. To be entered and left on one thread.
class graph {
 public:
  /// Begins.
  explicit graph(CUDAGraph& cuda_graph, const GraphOptions& options = {});
  /// Ends, or abandons when an exception is in flight.
  ~graph() noexcept(false);
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  /// Ends the capture before the scope does; the destructor then does nothing.
  void end();

  /// The stream that is captured.
  StreamRef stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Captures what `body` gives to the current stream, and returns when it is captured. An exception of `body` abandons
/// the capture and goes on. `body` runs once; with GraphOptions::confirm_by_second_capture twice.
///
///     CUDAGraph g;
///     capture(g, {}, [&] { launch(LaunchConfig::cover(n), Scale{}, 0.5f, x.data(), n); });
///     g.replay();
void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body);

}  // namespace reprise
