// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reprise/annotations.h"
#include "reprise/capture_options.h"
#include "reprise/capture_report.h"
#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/graph_memory.h"
#include "reprise/handles.h"
#include "reprise/hooks.h"
#include "reprise/liveness.h"
#include "reprise/memory.h"
#include "reprise/nodes.h"
#include "reprise/parameter.h"
#include "reprise/random.h"
#include "reprise/stream.h"

/// \file
/// CUDAGraph: capture work once, replay it with one launch.

namespace reprise {

class CaptureBody;
struct Recapture;

namespace graphs {
struct GraphAccess;
}

/// A CUDA graph: PyTorch's `torch.cuda.CUDAGraph`.
///
/// States, and what each call needs:
///
///     empty      -> capturing   capture_begin
///     capturing  -> captured    capture_end with KeepGraph::yes: a template, no executable yet
///     capturing  -> ready       capture_end with KeepGraph::no
///     capturing  -> empty       a failure between begin and end, or capture_abandon: all resources are released
///     captured   -> ready       instantiate, upload, replay
///     ready      -> ready       instantiate (KeepGraph::yes only): a new executable of the (edited) template
///     captured, ready -> same   update, recapture: the work of another capture
///     any        -> empty       reset, and the destructor
///
/// A call in another state throws UsageError, names both states, and changes nothing.
///
/// Threads: one thread at a time may use an object, except for replay(), set() and changes of nodes, which are
/// thread-safe, and calls that say so; launches of one executable graph run one after another. A capture in mode
/// `global` or `thread` must end on the thread that began it. Calling reset() concurrently with replay() of the same
/// object is undefined.
///
/// Ownership: the graph owns its pool, and so the memory that was allocated in the capture. The pool is released when
/// the template, the executable and all its running launches are gone: reset() and the destructor are allowed while
/// replays run and during any capture, and wait for no replay. If a replay, or later work on its stream, is still
/// running 50 us after reset(), the release is deferred to a later call of reprise; allocations that find no memory
/// wait for it. With KeepGraph::yes, executables instantiated from the template by other code, and their launches,
/// count too. This has a cost: the runtime counts the launches, each of which takes longer, and reset() waits until the
/// runtime has released the graph: up to half a millisecond if it was replayed, uploaded or its handles were returned;
/// otherwise up to 5 s, which in practice is less than 200 us.
///
/// A stream that a graph was replayed on may be destroyed before the graph. Replaying on a foreign stream (not a
/// Stream, the legacy default stream or a libtorch pool stream) records one extra event.
///
/// Movable; a moved-from CUDAGraph may only be assigned to or destroyed.
class REPRISE_EXPORT CUDAGraph {
 public:
  explicit CUDAGraph(KeepGraph keep_graph = KeepGraph::no);
  ~CUDAGraph();  ///< as reset(); abandons a capture that is underway
  CUDAGraph(CUDAGraph&& other) noexcept;
  CUDAGraph& operator=(CUDAGraph&& other) noexcept;  ///< as the destructor, then takes over the other graph

  /// Begins to capture the calling thread's current stream.
  /// \throws UsageError if the graph is not empty, the stream is the legacy default stream, is capturing already or is
  ///         not `options.stream`, or another capture is filling the same pool.
  void capture_begin(const GraphOptions& options);
  /// As above, with these two options.
  void capture_begin(MempoolId pool = {}, CaptureMode capture_error_mode = CaptureMode::global);

  /// Refuses changes of the generator's seed and offset during captures of this graph, from their beginning on.
  /// Generators join a capture at their first draw without this call; it is for code written for PyTorch's
  /// `register_generator_state`.
  /// \throws UsageError unless the graph is empty.
  void register_generator_state(const Generator& generator);

  /// Registers hooks for all captures of this object, until they are removed. Allowed in any state; within a hook, the
  /// new ones are first called at the next step.
  /// \returns an id for remove_hooks().
  HookId add_hooks(GraphHooks hooks);

  /// Removes hooks; also allowed within one of them. The functions are destroyed before this returns; a running one,
  /// after it has returned.
  /// \throws UsageError if no hooks with this id are registered.
  void remove_hooks(HookId id);

  /// Keeps an object alive as long as the capture or its graph: until template, executables and all running launches
  /// are gone. It is then released by the next call of this library, on any thread, possibly during a capture; a
  /// capture that fails releases it at once.
  /// \throws UsageError if nothing is being captured or was captured, or the pointer is null.
  void retain(std::shared_ptr<void> object);

  /// Ends what retain() began for an object, one of several times: it is released by this call, or by a later one of
  /// this library once the replays that were launched until now, and later work on the stream of the last one, are
  /// over. The graph must not use it any more. With KeepGraph::yes, launches by other code must have completed. Also
  /// allowed within a hook. \returns false if no such object is retained.
  bool release(const std::shared_ptr<void>& object);

  /// Ends the capture; instantiates the graph unless it was made with KeepGraph::yes.
  /// \throws UsageError if no capture is underway, the current stream is not the one it began on, or the thread is not
  ///         the one that began it: the capture continues.
  /// \throws CaptureError if the capture was broken or a forked stream was not joined, EmptyCaptureError if nothing was
  ///         captured: the graph is empty again.
  /// \throws BackendError if the graph cannot be instantiated: the graph is empty again.
  /// \throws UsageError if a second capture (GraphOptions::check_frozen_values) has other nodes than the first, or a
  /// copy uses local variables that are gone (InputOptions::allow_stack): the graph is
  ///         empty again.
  /// \throws FrozenValuesError if values differ between both (GraphOptions::check_frozen_values): likewise.
  void capture_end();

  /// Ends a capture and discards its nodes; no-op if none is underway. Allowed on any thread. Never throws.
  void capture_abandon() noexcept;

  /// Makes the executable graph from the template, again if there is one already (after the template was edited).
  /// \throws UsageError unless the graph was made with KeepGraph::yes and holds a template.
  void instantiate();

  /// Moves the executable graph to the device ahead of the first replay (`cudaGraphUpload`).
  void upload(const StreamRef& stream = current_stream());

  /// Launches the graph on the calling thread's current stream of the graph's device. Returns without waiting. If that
  /// stream takes part in a capture of this library, the graph becomes a child of it, see add_child().
  /// \throws UsageError if nothing is captured, or the stream is of another device; what add_child() throws. On a
  ///         stream that takes part in a capture of other code the launch breaks that capture: BackendError with 900,
  ///         or UsageError if a capture of this library is underway, too.
  /// \throws DeadInputError if memory that the graph uses was freed (GraphOptions::check_input_liveness). What another
  ///         thread frees during the call may or may not be noticed.
  void replay();
  /// Launches the graph on `stream`.
  void replay(const StreamRef& stream);

  /// Waits until the work of the calling thread's current stream of the graph's device has completed, its last replay
  /// there included, but no longer than `timeout`. The communicators whose collectives the graph holds (DataParallel of
  /// the component libtorch) are aborted after that: the replay ends, what it computed is undefined, and graphs that
  /// hold one of them refuse to be replayed.
  /// All work of the stream counts, also what was submitted after the replay: call it before that.
  /// \param timeout 0: only queries, and aborts nothing.
  /// \throws TimeoutError with the device, the ranks of the communicators, the name of the graph and last_mark().
  /// \throws UsageError if nothing is captured, the stream is of another device or is being captured, the timeout is
  ///         negative, or within a hook of the graph; BackendError if the device has failed.
  void synchronize(std::chrono::nanoseconds timeout);
  /// Waits for the work of `stream`.
  void synchronize(const StreamRef& stream, std::chrono::nanoseconds timeout);

  /// The scope that the last replay has left, the last one in the order of the capture, with what it inherits from
  /// those around it; nullopt if it has left none, or there was no replay. Does not wait: a replay that is running
  /// goes on, one that was launched and has not begun shows what the replay before it left. After recapture() or
  /// update() replays of what was captured before count no more: nullopt until one of the new work has left a scope.
  /// May be called on any thread. In a graph that runs on several streams the others may not have come as far.
  /// \throws UsageError if nothing is captured, or it was without GraphOptions::progress_marks.
  std::optional<Annotation> last_mark() const;

  /// Updates the executable to the work of another graph of the same shape (`cudaGraphExecUpdate`), which costs less
  /// than a new executable where few nodes differ: the same nodes in the same order, with the same dependencies;
  /// parameters, launch shapes and kernels may be others. Later replays do what those of `other` do; launches that are
  /// underway do not. Raw handles and nodes of this graph stay valid, and have the values of the nodes of `other`.
  ///
  /// This graph then shares all that `other` holds: its pool, random numbers, workspaces and retained objects, also
  /// after the end of `other`, and the template that the values came from; inputs(), annotations(), parameters and
  /// capture_report() are those of `other`. What this graph held itself is released when its launches until now are
  /// over. Two graphs that share a pool must not run at once. Name, hooks, options, disabled nodes and attributes of
  /// kernels other than cluster and `cooperative` stay those of this graph. A graph without an executable takes over
  /// the values as well. Replays by other threads wait.
  /// \throws GraphUpdateError if CUDA cannot do that: names the first node that does not fit, and all differences. Both
  ///         graphs are as before, then and after any other exception.
  /// \throws UsageError if one of the graphs has no template, both are the same, are of different devices or belong
  ///         to a graphed callable, or within a hook of one of them; BackendError if the runtime fails.
  void update(const CUDAGraph& other);

  /// Captures again, and updates the executable in place if possible; otherwise a new one takes its place. Nothing of
  /// the graph changes before the capture has succeeded: if `body` throws or the capture fails, the graph is as before,
  /// and can be replayed. Within `body` this graph is the one that is being captured: views of nodes are still those of
  /// the capture before, and the new one replaces what `body` changes by them.
  ///
  /// The options are those of the last capture, without `stream`, `warmup` and `check_frozen_values`: the capture is on
  /// an internal stream. Hooks stay; `captured` is called with the new template, `instantiated` if there is a new
  /// executable. After an update in place nodes and raw handles of this graph stay valid; otherwise they do not.
  ///
  /// Must not run concurrently with replay() of this graph.
  /// \returns which of the two was done; for a new executable also why, and what differs from the capture before.
  /// \throws UsageError before a capture, if the graph belongs to a graphed callable, or within a hook of it; what
  ///         capture() throws.
  Recapture recapture(CaptureBody body);
  /// As above, on `stream`, of the device of the graph.
  Recapture recapture(const StreamRef& stream, CaptureBody body);
  /// As above, with these options. Options that change the executable itself (`instantiate_flags`, `keep_graph`) need a
  /// new one. \throws UsageError if GraphOptions::hooks are set: those of the graph stay.
  Recapture recapture(const GraphOptions& options, CaptureBody body);

  /// Releases executable, template and pool. The graph is empty afterwards and can capture again.
  /// \throws UsageError in a capture of this graph: end or abandon it first.
  void reset();

  /// The number of this graph in the process, from 1; no other graph had it. It moves along with the graph.
  std::uint64_t id() const;

  /// GraphOptions::name of the capture, or of what was captured; empty if there is none.
  std::string name() const;

  /// The id of the pool, for sharing it with later captures.
  /// \throws UsageError before a capture.
  MempoolId pool() const;

  /// The memory that this graph takes now: its pool, and an estimate of its template and its executable. May be called
  /// while other threads replay.
  /// \throws UsageError before a capture.
  GraphMemory memory() const;

  /// Makes debug_dump() write all details, and keeps the template for it regardless of GraphOptions::discard_template.
  void enable_debug_mode();

  /// Writes the template as Graphviz DOT.
  /// \throws UsageError if there is no template; Error if the file cannot be written.
  void debug_dump(const std::filesystem::path& path) const;

  /// The template, `cudaGraph_t`, still owned by this object.
  /// \throws UsageError unless the graph was made with KeepGraph::yes and holds a template.
  GraphHandle raw_cuda_graph() const;

  /// The executable graph, `cudaGraphExec_t`, still owned by this object. With KeepGraph::no, launches made with this
  /// handle are not tracked: they must have completed before the graph is reset or destroyed.
  /// \throws UsageError if the graph is not instantiated.
  GraphExecHandle raw_cuda_graph_exec() const;

  /// The report of the last capture if it failed or was broken; if inputs may be missing among inputs(); or, with
  /// `GraphOptions::report = ReportDetail::full`, if it left something out, or if replays use pageable memory of the
  /// host (CaptureReport::host_accesses); else nullopt. The same as CaptureError::report(), also when another exception
  /// ended the capture. Kept until the next capture_begin(), also through reset().
  const std::optional<CaptureReport>& capture_report() const;

  /// The number of nodes of the template.
  /// \throws UsageError if there is no template.
  std::size_t node_count() const;

  /// The nodes of the template, in order of creation, as views; GraphNode::inner() returns those of child graphs and
  /// bodies. Also with KeepGraph::no, and within hooks of the graph.
  /// \throws UsageError if there is no template.
  std::vector<GraphNode> nodes() const;

  /// The one node with this name: the key `name` of its annotation, or the name of its kernel, as errors have it
  /// ("ns::f<3>"), with or without namespaces, template arguments and parameters ("f", "ns::f<3>(int)"), or its symbol.
  /// Nodes of child graphs and bodies count, unless they lie in a node that has the name. A number as error texts have
  /// it, "3" or "1.0.2", finds a node, too, unless another one has that name.
  /// \throws UsageError if there is no template; if no node, or more than one, has the name: lists them.
  GraphNode node(std::string_view name) const;

  /// A parameter for the uses of an address: kernel arguments, also within structs, where they are aligned to 8 bytes,
  /// and destinations and sources of copies and sets; in child graphs and bodies of control flow, too. In a capture of
  /// this graph they are looked for at its end, and passing the parameter to launch() marks an argument as well; later
  /// they are looked for at once. Nodes whose parameters the driver does not describe are left out: inputs() lists
  /// those. May be called on any thread, several at once, also while others replay or capture into this graph: one call
  /// waits for the other.
  /// \param address only where it is used itself, not what lies behind it.
  /// \throws UsageError unless this graph is capturing, or has a template; for a null pointer; if nothing that was
  ///         captured uses the address, or a kernel of this library does, such as a batch of copies. In a capture, its
  ///         end throws these.
  template <class T>
  Parameter<T*> parameter(T* address) {
    const Parameter<T*> made(address);
    add_address(made.key(), address, 0);
    return made;
  }
  /// As above, for the addresses of `count` values from `address` on: uses of the n-th value become uses of the n-th
  /// one from the address that is set. One object for a buffer whose parts are used.
  template <class T>
  Parameter<T*> parameter(T* address, std::size_t count) {
    const Parameter<T*> made(address);
    add_address(made.key(), address, detail::checked_bytes("CUDAGraph::parameter", address, count, sizeof(T)));
    return made;
  }

  /// Sets a parameter for later replays, in the executable and the template, which instantiate() keeps; a replay that
  /// was launched has the value before. A value that does not change costs no call of the driver; with KeepGraph::yes
  /// the nodes are read, which other code may have changed. Thread-safe like replay(). Liveness of inputs(), and
  /// retained memory, follow; where these are looked for, all nodes are read again.
  /// \throws UsageError for a parameter that this graph does not have: it is not used, or belongs to another graph or
  ///         to one that was reset since; for an address that a copy or set that uses it cannot have
  ///         (GraphNode::set_params()); within a hook of the graph. BackendError if the runtime fails. All values
  ///         are as before then.
  template <class T>
  void set(const Parameter<T>& parameter, const std::type_identity_t<T>& value) {
    const ParameterValue one(parameter, value);
    set(std::span<const ParameterValue>(&one, 1));
  }
  /// Sets several parameters at once: later replays have all values, or none if this throws. Of several values for one
  /// use, those of two parameters of the same address for example, the last one counts.
  void set(std::span<const ParameterValue> values);
  /// As above: `graph.set({{factor, 0.25f}, {source, x.data()}})`.
  void set(std::initializer_list<ParameterValue> values) { set(std::span(values.begin(), values.size())); }

  /// The value that replays use; where other code edited the template, the one that they use after instantiate().
  /// \throws UsageError as set(), but for values; within the hook `captured`, before which no parameter is known.
  template <class T>
  T get(const Parameter<T>& parameter) const {
    static_assert(std::is_default_constructible_v<T>, "the value is read as bytes");
    T value{};
    get_value(&parameter.initial(), &value, sizeof(T));
    return value;
  }

  /// The nodes created in scopes of the class `annotate`, in order of creation, each followed by those of its child
  /// graph or bodies; none unless GraphOptions::enable_annotations was set. Nodes of a child have the annotations of
  /// the capture of the child, too. They are those of the capture: after an edit of the template, the next
  /// instantiation drops removed nodes, and new ones have no annotation. Kept when the template is discarded.
  ///
  /// The ids for profilers are those of the present executable, and need the template. They come from the driver (CUDA
  /// 13.1), or from CUPTI if that is loaded in the process; each call queries them.
  /// \throws UsageError if nothing is captured.
  std::vector<AnnotatedNode> annotations() const;

  /// The memory that the captured graph uses and does not own, sorted by address, including freed memory; then the
  /// nodes whose parameters are not known, see GraphInput::not_checked.
  /// \throws UsageError before a capture, or if it was made with neither GraphOptions::check_input_liveness nor
  ///         InputOptions::retain.
  std::vector<GraphInput> inputs() const;

  /// The device of the capture.
  /// \throws UsageError before a capture.
  Device device() const;

 private:
  friend struct graphs::GraphAccess;
  void add_address(std::shared_ptr<const void> key, const void* address, std::size_t bytes);
  void get_value(const void* key, void* value, std::size_t bytes) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Releases what graphs that were reset or destroyed held, if their last launch has completed: memory of their pools
/// and retained objects. Each capture, reset and allocation without memory does the same. Does not wait; does nothing
/// that breaks a capture. Thread-safe.
REPRISE_EXPORT void release_finished_graphs() noexcept;

}  // namespace reprise
