// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/check.h"
#include "graph/capture/active_capture.h"
#include "graph/graph_state.h"
#include "graph/hooks.h"
#include "graph/launch_mutex.h"
#include "graph/listeners/listeners.h"
#include "graph/nodes/node_changes.h"
#include "graph/parameters/parameters.h"
#include "graph/resources/graph_counts.h"
#include "graph/resources/graph_resources.h"
#include "reprise/graph.h"

namespace reprise::graphs {
/// A template that outlives its graph, if another graph took over its values: user objects that other code gave to it,
/// such as a library for what its kernels use, cannot be listed, and live as long as the template.
class SharedTemplate {
 public:
  SharedTemplate(const Device& device, GraphHandle graph) : device_(device), graph_(graph) {}
  ~SharedTemplate() {
    const backend::RelaxedCaptureMode relaxed(device_.backend());
    backend::WarnOnError(device_.backend()).graph_destroy(graph_);
  }
  SharedTemplate(const SharedTemplate&) = delete;
  SharedTemplate& operator=(const SharedTemplate&) = delete;

 private:
  const Device device_;
  GraphHandle const graph_;
};

/// \throws UsageError if an enumerator of the options has no name.
void require_named_options(const GraphOptions& options);
}  // namespace reprise::graphs

namespace reprise {

/// The implementation of a CUDAGraph. States and threads are those of the public class.
///
/// What exists in which state:
///
///                  capture   template                executable   resources
///     empty        -         -                       -            -
///     capturing    yes       -                       -            -
///     captured     -         yes                     -            yes
///     ready        -         yes, unless discarded   yes          yes
///
/// While capture_end() runs hooks, the graph is `captured` or `ready` already, and the capture is still there, so that
/// it can fail.
///
/// `launch_mutex` serialises launches of the executable; it is held while the executable is read or replaced and a
/// replay may run. Everything else belongs to the one thread that uses the graph.
struct CUDAGraph::Impl {
  using State = graphs::GraphState;
  class LaunchLock;
  class LockBoth;
  class ExchangedImpls;
  class Use;

  explicit Impl(KeepGraph keep_graph) : made_with(keep_graph) {}
  ~Impl() { make_empty(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The implementation of a graph that was not moved from.
  static Impl& of(const CUDAGraph& graph, const char* call);
  static std::uint64_t next_id() noexcept;

  void require(const char* call, std::initializer_list<State> expected) const {
    const State found = state.load(std::memory_order_relaxed);
    for (const State each : expected)
      if (found == each) return;
    graphs::refuse(found, call, expected, options.name);
  }
  /// Something was captured.
  void require_captured(const char* call) const {
    if (state.load(std::memory_order_relaxed) != State::ready) [[unlikely]]
      require(call, {State::captured, State::ready});
  }
  void require_keep_graph(const char* call) const;
  void require_template(const char* call) const;

  /// Refused where a hook of this graph is running, on the thread that runs it.
  void refuse_in_own_hook(const char* call) const;
  /// Refused where a hook of this graph is running, on any thread: for calls that would release what the hook uses.
  void refuse_while_hook_runs(const char* call) const;
  /// Refused where the graph belongs to something that launches it by replay_changed().
  void refuse_reserved(const char* call) const;
  bool in_own_hook() const noexcept {
    const std::thread::id running = hook_thread.load(std::memory_order_relaxed);
    return running != std::thread::id() && running == std::this_thread::get_id();
  }
  /// A hook of this graph runs, on any thread: what it waits for there may use the graph, too. False while other calls
  /// run that call no listeners.
  bool hook_runs() const noexcept { return hook_thread.load(std::memory_order_relaxed) != std::thread::id(); }

  // --- Capture: cuda_graph.cpp, capture_scope.cpp ---------------------------------------------------------------
  /// Captures what `body` does, as reprise::capture(). `call`, here and below, is the user's, for errors.
  void capture_body(const char* call, const GraphOptions& wanted, const CaptureBody& body);
  /// Throws UsageError if a capture with these options cannot begin. `stream` is the one to capture, null if it is to
  /// be an internal one; whether it is capturing is not checked here. Changes nothing.
  void require_can_begin(const char* call, const GraphOptions& wanted, const StreamRef* stream) const;
  /// A framework that was installed since this graph was made takes part from now on. Only while it is empty.
  void join_framework() {
    if (state == State::empty && !in_own_hook()) listeners.join_framework();
  }
  /// Begins a capture on the calling thread's current stream.
  void begin_on_current_stream(const char* call, const GraphOptions& wanted);
  void begin(const char* call, const StreamRef& stream, const GraphOptions& wanted);
  /// \param frame that of the public function which ends the capture: locals of the capture's body lie below it. That
  ///        function must not be inlined into its caller.
  void end(const char* call, const void* frame);
  // What end() does once nothing refuses it; needs `launch_mutex`.
  void complete_capture(const char* call, const void* frame);
  /// \throws UsageError if a framework was installed since the capture began: it took no part in it.
  void require_framework_took_part(const char* call) const;
  /// True if what is read of the nodes at the end of the capture is kept, so that several readers read them once.
  bool reads_nodes_again() const noexcept;
  /// KeepGraph::yes if the constructor or the options keep the template for the user.
  KeepGraph keeps(const GraphOptions& wanted) const noexcept {
    return made_with == KeepGraph::yes ? made_with : wanted.keep_graph;
  }
  /// Calls `step` of a capture; when it throws, this graph is empty again, and there is a report of the error.
  template <class Step>
  void or_make_empty(const Step& step);
  /// Drops whatever there is, in any state.
  void make_empty() noexcept;

  // --- The end of its life --------------------------------------------------------------------------------------
  /// `graph` is destroyed or assigned to. Defers the destruction of its Impl while calls or hooks use that.
  static void end_of_life(CUDAGraph& graph) noexcept;
  /// Throws UsageError if the graph was destroyed while the call was underway.
  void refuse_destroyed(const char* call) const;
  /// Destroys this object if its destruction was deferred, and no call or hook uses it any more. To be called last of
  /// all.
  void destroy_if_deferred() noexcept;

  // --- Another capture: cuda_graph_update.cpp -------------------------------------------------------------------
  /// Other code gets a handle of the template, or of one of its nodes, and may edit it from now on.
  void give_out_template() noexcept {
    if (keep == KeepGraph::yes) may_be_edited = true;
  }
  /// Where other code may have edited the template, nodes are read anew. At the beginning of a call.
  void forget_editable() noexcept {
    if (may_be_edited) changes.forget();
  }
  /// The executable may have other values than the template: those before an edit.
  bool executable_may_differ() const noexcept { return may_be_edited && exec != nullptr; }
  /// Takes over the work of another graph: values of the template's nodes, the executable if there is one, and what
  /// listeners keep of it. Needs the launch mutexes of both, and templates of one device. Returns why that cannot be;
  /// nothing has changed then, as after an exception.
  std::optional<graphs::UpdateRefusal> update_from(Impl& other);
  /// Exchanges all that was captured, with executables, for what another graph has. Neither is in a capture, and
  /// `launch_mutex` is held where a replay may run. Id and hooks stay; a ReplayTimer has no graph any more.
  void exchange_captured(Impl& other) noexcept;
  bool takes_part_in_replays() const noexcept { return !in_replays.empty() || hooks.take_part_in_replays(); }

  // --- The executable: cuda_graph_replay.cpp --------------------------------------------------------------------
  /// Makes an executable of the template; it replaces the previous one, if any. Needs `launch_mutex` where a
  /// replay may run. If it fails, nothing has changed.
  void make_executable(StreamHandle upload_stream);
  /// The same for a graph that was captured, which is `ready` then; an upload that the options request goes to an
  /// internal stream.
  void make_ready();
  /// Notifies listeners and hooks of the executable. If a hook throws, the executable stays.
  void notify_instantiated(const char* call);
  /// Calls make_executable() and notify_instantiated().
  void instantiate(const char* call);
  void instantiate_for(const char* call);  ///< likewise, for a launch, whose call is named in errors
  void discard_template() noexcept;
  /// Returns false if the template stays, because another graph needs it or the runtime refuses.
  bool destroy_template() noexcept;
  /// Refuses, or makes the graph ready to be launched on `stream`. Needs `launch_mutex`.
  void prepare_launch(const char* call, const StreamRef& stream);
  /// Null: the calling thread's current stream of the graph's device.
  void replay(const StreamRef* stream);
  std::exception_ptr replay_changed(const StreamRef& stream, const std::function<void(GraphExecHandle)>& change);
  /// Calls `replay`, which launches the graph. Returns what was thrown after the launch, as by a hook; null if nothing
  /// was. Throws what was thrown before it.
  template <class Replay>
  std::exception_ptr thrown_after_launch(const Replay& replay) const {
    const std::uint64_t before = launches;
    try {
      replay();
    } catch (...) {
      if (launches == before) throw;
      return std::current_exception();
    }
    return nullptr;
  }
  /// Launches it. Needs `launch_mutex`, and prepare_launch().
  void launch(const char* call, const StreamRef& stream);
  /// Adds the graph to the capture of this library that the stream takes part in; false if it is in none.
  bool become_child(const char* call, const StreamRef& stream);
  void note_first_launch() const noexcept;
  void replay_with_listeners(const char* call, const StreamRef& stream);  // and hooks
  void replay_with_hooks(const char* call, const StreamRef& stream);
  void launch_with_listeners(const char* call, const StreamRef& stream);
  void launch_executable(const char* call, const StreamRef& stream);
  void raise_launch(const char* call, const backend::Result& result) const;
  [[noreturn]] void refuse_device(const char* call, const StreamRef& stream) const;
  void upload(const StreamRef& stream);

  // --- The nodes: nodes/ ----------------------------------------------------------------------------------------
  /// What views of the graph's nodes refer to, until it is empty.
  const std::shared_ptr<graphs::GraphLink>& link();
  /// Changes nodes, all or none, and notifies listeners. Needs `launch_mutex`; the changes were checked.
  /// `set` are all places that the user set, also where the value is the same.
  void change_nodes(std::span<graphs::NodeChange> changed, std::span<const graphs::SetPlace> set);
  /// True if a listener is to know of places that are set to the value which they have. With the launch mutex.
  bool wants_same_values() const;
  /// What launch() was passed in the capture, and addresses that were named, become parameters of the template.
  void find_parameters();
  /// Sets values of which one changes, or of which the template may have others. With the launch mutex.
  void set_parameters(const char* call, std::span<const ParameterValue> values);
  /// The nodes of the template that use an address. \throws UsageError if there are none, or one is the library's own.
  std::vector<graphs::Parameters::Use> uses_of(const graphs::Parameters::Address& address);
  /// \throws UsageError if a kernel that uses a range uses the address behind it, too, which may be its end.
  void require_no_end_used(const graphs::Parameters::Address& address, std::span<const graphs::Parameters::Use> found);
  /// Describes a node of the template, as in errors: "kernel Scale (node 3) in forward".
  std::string node_text(GraphNodeHandle node) const;
  /// Refuses changes of nodes within hooks of the graph, and of a graph that belongs to something else.
  void require_changeable(const char* call) const {
    if (!hook_runs() && reserved_for == nullptr) [[likely]]
      return;
    refuse_in_own_hook(call);
    refuse_reserved(call);
  }

  backend::Backend& backend() const { return device->backend(); }
  /// Throws BackendError, with the name of the graph if it has one.
  void require_success(backend::Call call, const backend::Result& result,
                       SourceLocation where = SourceLocation::current()) const;

  // What a replay touches comes first, on as few cache lines as there can be: launches leave nothing in the cache.
  KeepGraph keep = KeepGraph::no;  // of the capture, or of what was captured
  std::atomic<State> state{State::empty};
  bool debug = false;
  // The user's call of capture_body(), which can run the body more than once; null in other captures.
  const char* body_call = nullptr;
  std::atomic<bool> may_be_edited{false};  // see give_out_template()
  // The capture is for another graph, which takes the template over: it ends without an executable.
  bool without_executable = false;
  bool may_discard = false;  // the options request that the template is discarded, and nothing needs it
  // The runtime, or code with a raw handle, may hold attached resources when template and executable are destroyed.
  std::atomic<bool> in_use_elsewhere{false};
  graphs::LaunchMutex launch_mutex;
  // While listeners are called, which may call hooks of the user's: the thread that does it.
  std::atomic<std::thread::id> hook_thread{};
  GraphExecHandle exec = nullptr;
  std::uint64_t launches = 0;                       // of executables that succeeded; guarded by `launch_mutex`
  std::unique_ptr<const std::string> reserved_for;  // reserve(); null: not reserved
  bool replays_notify = false;                      // listeners, hooks or both
  std::optional<Device> device;                     // of the capture, or of what was captured; empty in state empty
  graphs::GraphResources resources;

  CUDAGraph* owner = nullptr;  // owns this object
  // The owner, once the user's graph was destroyed while calls use this object.
  std::optional<CUDAGraph> deferred_owner;
  int uses = 0;  // calls underway that may run code of the user's, except for replays
  std::uint64_t graph_id = next_id();
  graphs::Listeners listeners;
  graphs::Hooks hooks{owner};                            // after the listeners at each step: they see what those did
  std::vector<graphs::CaptureListener*> of_executables;  // those that are notified of executables
  std::vector<graphs::CaptureListener*> in_replays;      // those that take part in replays
  graphs::CaptureListener* timer = nullptr;              // of these, the one of a ReplayTimer

  const KeepGraph made_with;           // the constructor's argument
  std::optional<HookId> option_hooks;  // of GraphOptions::hooks

  // Options and pool of the capture, or of what was captured.
  GraphOptions options;
  MempoolId pool;
  std::optional<graphs::ActiveCapture> capture;
  GraphHandle template_graph = nullptr;
  std::shared_ptr<graphs::SharedTemplate> shared_template;  // owns it, once another graph may need it, too
  std::shared_ptr<graphs::SharedTemplate> values_of;  // after update(): where the values came from; null: from here
  graphs::CountedGraph counted;
  graphs::Parameters parameters;
  graphs::NodeChanges changes;                   // of its nodes
  std::shared_ptr<graphs::GraphLink> node_link;  // null until there are views of nodes

  std::optional<CaptureReport> last_report;  // of the last capture, in any state
};

/// Locks a graph's launch mutex. Within a hook of the graph it locks nothing: the caller of the hook holds the mutex.
class CUDAGraph::Impl::LaunchLock {
 public:
  explicit LaunchLock(Impl& impl) {
    if (!impl.in_own_hook()) lock_ = std::unique_lock(impl.launch_mutex);
  }

 private:
  std::unique_lock<graphs::LaunchMutex> lock_;
};

/// Locks the launch mutexes of two graphs, which may be the same, in an order that all threads share.
class CUDAGraph::Impl::LockBoth {
 public:
  LockBoth(Impl& one, Impl& other) : first_(std::min(&one, &other, std::less<>())->launch_mutex) {
    if (&one != &other) second_ = std::unique_lock(std::max(&one, &other, std::less<>())->launch_mutex);
  }

 private:
  std::unique_lock<graphs::LaunchMutex> first_, second_;
};

/// While it lives, each of two graphs has the Impl of the other. At the end a graph that was moved has its own again,
/// where it is now; one that was destroyed has none.
class CUDAGraph::Impl::ExchangedImpls {
 public:
  /// \param user the Impl of the user's graph.
  /// \param stand_in what that has meanwhile.
  ExchangedImpls(Impl& user, Impl& stand_in) : user_(user), stand_in_(stand_in) {
    std::swap(*user_.owner, *stand_in_.owner);
  }
  ~ExchangedImpls() {
    if (!stand_in_.deferred_owner) std::swap(*user_.owner, *stand_in_.owner);
  }
  ExchangedImpls(const ExchangedImpls&) = delete;
  ExchangedImpls& operator=(const ExchangedImpls&) = delete;

 private:
  Impl& user_;
  Impl& stand_in_;
};

/// While it lives, the Impl of a graph outlives the graph. Destroyed after everything else that uses the Impl.
/// Replays do without: they call destroy_if_deferred() after an exception.
class CUDAGraph::Impl::Use {
 public:
  explicit Use(Impl& impl) : impl_(impl) { ++impl_.uses; }
  ~Use() {
    --impl_.uses;
    impl_.destroy_if_deferred();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Impl& impl_;
};

/// Access to the Impl of a graph, for what is no member of CUDAGraph: its only friend.
struct graphs::GraphAccess {
  using Impl = CUDAGraph::Impl;
  /// The Impl of a graph that was not moved from.
  static Impl& of(const CUDAGraph& graph, const char* call) { return Impl::of(graph, call); }
  /// The Impl, null in a graph that was moved from.
  static std::unique_ptr<Impl>& impl(CUDAGraph& graph) { return graph.impl_; }
};

/// Shared by a graph and the views of its nodes: leads to the Impl, whose address stays the same when the graph is
/// moved.
struct graphs::GraphLink {
  GraphAccess::Impl* graph = nullptr;  ///< null once the graph was reset, destroyed or assigned to
};

}  // namespace reprise
