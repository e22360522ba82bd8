// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "backend/objects/device_uses.h"
#include "graph/active_capture.h"
#include "graph/graph_resources.h"
#include "graph/graph_state.h"
#include "graph/hooks.h"
#include "graph/launch_mutex.h"
#include "graph/listeners.h"
#include "reprise/graph.h"

namespace reprise {

/// The inside of a CUDAGraph. States and threads are those of the public class.
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
  class CallingListeners;
  class Use;

  explicit Impl(KeepGraph keep_graph) : made_with(keep_graph) {}
  ~Impl() { make_empty(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The inside of a graph that was not moved from.
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
  /// Refused where the graph belongs to something that launches it by replay_changed().
  void refuse_reserved(const char* call) const;
  bool in_own_hook() const noexcept {
    const std::thread::id running = hook_thread.load(std::memory_order_relaxed);
    return running != std::thread::id() && running == std::this_thread::get_id();
  }

  // --- Capture: cuda_graph.cpp ----------------------------------------------------------------------------------
  /// Throws UsageError if a capture with these options cannot begin. `stream` is the one to capture, null if it is to
  /// be an internal one; whether it is capturing is not checked here. Changes nothing.
  void require_can_begin(const char* call, const GraphOptions& wanted, const StreamRef* stream) const;
  /// A framework that was installed since this graph was made takes part from now on. Only while it is empty.
  void join_framework() {
    if (state == State::empty && !in_own_hook()) listeners.join_framework();
  }
  void begin(const StreamRef& stream, const GraphOptions& wanted);
  /// \param frame that of the public function which ends the capture: locals of the capture's body lie below it. That
  ///        function must not be inlined into its caller.
  void end(const void* frame);
  void complete_capture(const void* frame);  // what end() does once nothing refuses it; needs `launch_mutex`
  /// Whether the template is kept for the user, by the constructor or by the options.
  KeepGraph keeps(const GraphOptions& wanted) const noexcept {
    return made_with == KeepGraph::yes ? made_with : wanted.keep_graph;
  }
  /// The name of the option that requires a dry run of the body, or null. Only capture() can do that.
  static const char* needs_dry_run(const GraphOptions& wanted) noexcept;
  /// Calls `step` of a capture; when it throws, this graph is empty again, and there is a report of the error.
  template <class Step>
  void or_make_empty(const Step& step);
  /// An error ended the capture that did not break it: adds it to the report, or makes one.
  void report_failure(const Error& error, Device where, const std::string& name);
  /// Drops whatever there is, in any state.
  void make_empty() noexcept;

  // --- The end of its life --------------------------------------------------------------------------------------
  /// The graph that has this inside is destroyed or assigned to. Leaves the inside to the calls that use it, if any.
  static void end_of_life(CUDAGraph& graph) noexcept;
  /// Throws UsageError if the graph was destroyed while the call was underway.
  void refuse_destroyed(const char* call) const;
  /// Destroys this object if it was left to calls, and the last of them is over. To be called last of all.
  void end_if_left() noexcept;

  // --- The executable: cuda_graph_replay.cpp --------------------------------------------------------------------
  /// Makes an executable of the template, in the place of the one that there may be. Needs `launch_mutex` where a
  /// replay may run. If it fails, nothing has changed.
  void make_executable(StreamHandle upload_stream);
  /// Notifies listeners and hooks of the executable. If a hook throws, the executable stays.
  void notify_instantiated(const char* call);
  /// Both of the above, for a graph that was captured; an upload that the options request goes to an internal stream.
  void instantiate(const char* call);
  /// Refuses, or makes the graph ready to be launched on `stream`. Needs `launch_mutex`.
  void prepare_launch(const char* call, const StreamRef& stream);
  /// Null: the calling thread's current stream of the graph's device.
  void replay(const StreamRef* stream);
  void replay_changed(const StreamRef& stream, const std::function<void(GraphExecHandle)>& change);
  /// Launches it. Needs `launch_mutex`, and prepare_launch().
  void launch(const char* call, const StreamRef& stream);
  void replay_with_listeners(const char* call, const StreamRef& stream);  // and hooks
  void launch_with_listeners(const StreamRef& stream);
  void launch_executable(const StreamRef& stream);
  void upload(const StreamRef& stream);

  backend::Backend& backend() const { return device->backend(); }
  /// Throws BackendError, with the name of the graph if it has one.
  void require_success(backend::Call call, ErrorCode result, SourceLocation where = SourceLocation::current()) const;

  // What a replay touches comes first, on as few cache lines as there can be: launches leave nothing in the cache.
  KeepGraph keep = KeepGraph::no;  // of the capture, or of what was captured
  std::atomic<State> state{State::empty};
  bool debug = false;
  bool has_body = false;  // the capture is that of capture(), which can run the body more than once
  // The runtime, or code with a raw handle, may hold attached resources when template and executable are destroyed.
  std::atomic<bool> in_use_elsewhere{false};
  graphs::LaunchMutex launch_mutex;
  // While listeners are called, which may call hooks of the user's: the thread that does it.
  std::atomic<std::thread::id> hook_thread{};
  GraphExecHandle exec = nullptr;
  std::unique_ptr<const std::string> reserved_for;  // reserve(); null: not reserved
  bool replays_notify = false;                      // listeners, hooks or both
  std::optional<Device> device;                     // of the capture, or of what was captured; empty in state empty
  graphs::GraphResources resources;

  CUDAGraph* owner = nullptr;          // whose inside it is
  std::optional<CUDAGraph> left_here;  // the owner, once the user's graph was destroyed while calls use this object
  int uses = 0;                        // calls underway that may run code of the user's, except for replays
  std::uint64_t graph_id = next_id();
  graphs::Listeners listeners;
  graphs::Hooks hooks{owner};                            // after the listeners at each step: they see what those did
  std::vector<graphs::CaptureListener*> of_executables;  // those that are notified of executables
  std::vector<graphs::CaptureListener*> in_replays;      // those that take part in replays
  graphs::CaptureListener* timer = nullptr;              // of these, the one of a ReplayTimer

  const KeepGraph made_with;           // the constructor's argument
  std::optional<HookId> option_hooks;  // of GraphOptions::hooks

  // Of the capture, or of what was captured.
  GraphOptions options;
  MempoolId pool;
  std::optional<graphs::ActiveCapture> capture;
  GraphHandle template_graph = nullptr;

  // Keeps the device of a HostSimulator open; null for other devices, and in state empty. The resources share it.
  std::shared_ptr<backend::DeviceUse> device_use;

  std::optional<CaptureReport> last_report;  // of the last capture, in any state
};

/// Locks a graph's launch mutex. Within a hook of the graph it locks nothing: the caller of the hook holds the mutex.
class CUDAGraph::Impl::LaunchLock {
 public:
  explicit LaunchLock(Impl& impl) : mutex_(impl.in_own_hook() ? nullptr : &impl.launch_mutex) {
    if (mutex_ != nullptr) mutex_->lock();
  }
  ~LaunchLock() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  LaunchLock(const LaunchLock&) = delete;
  LaunchLock& operator=(const LaunchLock&) = delete;

 private:
  graphs::LaunchMutex* const mutex_;
};

/// While it lives, the calling thread calls listeners of a graph.
class CUDAGraph::Impl::CallingListeners {
 public:
  explicit CallingListeners(Impl& impl) : thread_(impl.hook_thread), before_(thread_.load(std::memory_order_relaxed)) {
    thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ~CallingListeners() { thread_.store(before_, std::memory_order_relaxed); }
  CallingListeners(const CallingListeners&) = delete;
  CallingListeners& operator=(const CallingListeners&) = delete;

 private:
  std::atomic<std::thread::id>& thread_;
  const std::thread::id before_;
};

/// While it lives, the inside of a graph outlives the graph. Destroyed after everything else that uses the inside.
/// Replays do without: they call end_if_left() after an exception.
class CUDAGraph::Impl::Use {
 public:
  explicit Use(Impl& impl) : impl_(impl) { ++impl_.uses; }
  ~Use() {
    --impl_.uses;
    impl_.end_if_left();
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Impl& impl_;
};

/// Access to the inside of a graph, for what is no member of CUDAGraph: its only friend.
struct graphs::GraphAccess {
  using Impl = CUDAGraph::Impl;
  /// The inside of a graph that was not moved from.
  static Impl& of(const CUDAGraph& graph, const char* call) { return Impl::of(graph, call); }
  /// The inside, null in a graph that was moved from.
  static std::unique_ptr<Impl>& impl(CUDAGraph& graph) { return graph.impl_; }
};

}  // namespace reprise
