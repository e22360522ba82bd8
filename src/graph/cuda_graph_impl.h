// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backend/backend.h"
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
///                  capture   template   executable   resources
///     empty        -         -          -            -
///     capturing    yes       -          -            -
///     captured     -         yes        -            held
///     ready        -         there      there        held
///
/// In `ready` the template may have been discarded.
///
/// `flag` makes launches of the executable one after the other; it is held around whatever reads or replaces the
/// executable while a replay may run. Everything else belongs to the one thread that uses the graph.
struct CUDAGraph::Impl {
  using State = graphs::GraphState;
  class LaunchLock;
  class CallingListeners;

  explicit Impl(KeepGraph keep_graph) : keep(keep_graph), resources(keep_graph) {}
  ~Impl() { make_empty(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// The inside of a graph that was not moved from.
  static Impl& of(const CUDAGraph& graph, const char* call);

  void require(const char* call, std::initializer_list<State> expected) const {
    graphs::require(state.load(std::memory_order_relaxed), call, expected);
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
  bool in_own_hook() const noexcept {
    const std::thread::id running = hook_thread.load(std::memory_order_relaxed);
    return running != std::thread::id() && running == std::this_thread::get_id();
  }

  // --- Capture: cuda_graph.cpp ----------------------------------------------------------------------------------
  /// Throws UsageError if a capture with these options cannot begin. `stream` is the one to capture, null if it is to
  /// be an internal one. Changes nothing.
  void require_can_begin(const char* call, const GraphOptions& wanted, const StreamRef* stream) const;
  /// A framework that was installed since this graph was made takes part from now on. Only while it is empty.
  void join_framework() {
    if (state == State::empty && !in_own_hook()) listeners.join_framework();
  }
  void begin(const StreamRef& stream, const GraphOptions& wanted);
  void end();
  /// The name of an option for which some listener needs a rehearsal; null if there is none.
  const char* needs_rehearsal(const GraphOptions& wanted) const noexcept;
  /// An error ended the capture that did not break it: makes a report of it, if there is none.
  void report_failure(const Error& error, Device where);
  /// Drops whatever there is, in any state.
  void make_empty() noexcept;
  /// The same, for good. Ends the process within a hook of this graph.
  void end_of_life() noexcept;

  // --- The executable: cuda_graph_replay.cpp --------------------------------------------------------------------
  /// Makes an executable of the template, in the place of the one that there may be. Needs `flag` where a replay may
  /// run. If it fails, nothing has changed.
  void make_executable(StreamHandle upload_stream);
  /// Notifies listeners and hooks of the executable. If a hook throws, the executable stays.
  void notify_instantiated();
  /// Both of the above, for a graph that was captured; an upload that the options ask for goes to an internal stream.
  void instantiate();
  /// Refuses, or makes the graph ready to be launched on `stream`. Needs `flag`.
  void prepare_launch(const char* call, const StreamRef& stream);
  /// Null: the calling thread's current stream of the graph's device.
  void replay(const StreamRef* stream);
  void replay_changed(const StreamRef& stream, const std::function<void(GraphExecHandle)>& change);
  /// Launches it. Needs `flag`, and prepare_launch().
  void launch(const StreamRef& stream);
  void replay_with_listeners(const StreamRef& stream);  // and hooks
  void launch_executable(const StreamRef& stream);
  void upload(const StreamRef& stream);

  backend::Backend& backend() const { return device->backend(); }

  // What a replay touches comes first, on as few cache lines as there can be: launches leave nothing in the cache.
  const KeepGraph keep;
  std::atomic<State> state{State::empty};
  bool debug = false;
  bool rehearses = false;  // capture() runs its body twice
  // The runtime, or code with a raw handle, may hold attached resources when template and executable are destroyed.
  std::atomic<bool> in_use_elsewhere{false};
  graphs::LaunchMutex flag;
  // While listeners are called, which may call hooks of the user's: the thread that does it.
  std::atomic<std::thread::id> hook_thread{};
  GraphExecHandle exec = nullptr;
  bool replays_notify = false;   // listeners, hooks or both
  std::optional<Device> device;  // of the capture, or of what was captured; empty in state empty
  graphs::GraphResources resources;

  graphs::Listeners listeners;
  graphs::Hooks hooks;                               // after the listeners at each step: they see what those did
  std::vector<graphs::CaptureListener*> in_replays;  // those that take part in replays

  // Of the capture, or of what was captured.
  GraphOptions options;
  MempoolId pool;
  std::unique_ptr<graphs::ActiveCapture> capture;
  GraphHandle template_graph = nullptr;

  std::optional<CaptureReport> last_report;  // of the last capture, in any state
};

/// Locks a graph's launch mutex. Within a hook of the graph it locks nothing: the caller of the hook holds the mutex.
class CUDAGraph::Impl::LaunchLock {
 public:
  explicit LaunchLock(Impl& impl) : flag_(impl.in_own_hook() ? nullptr : &impl.flag) {
    if (flag_ != nullptr) flag_->lock();
  }
  ~LaunchLock() {
    if (flag_ != nullptr) flag_->unlock();
  }
  LaunchLock(const LaunchLock&) = delete;
  LaunchLock& operator=(const LaunchLock&) = delete;

 private:
  graphs::LaunchMutex* const flag_;
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

/// Access to the inside of a graph, for what is no member of CUDAGraph: its only friend.
struct graphs::GraphAccess {
  using Impl = CUDAGraph::Impl;
  /// The inside of a graph that was not moved from.
  static Impl& of(const CUDAGraph& graph, const char* call) { return Impl::of(graph, call); }
  /// The inside, null in a graph that was moved from.
  static std::unique_ptr<Impl>& impl(CUDAGraph& graph) { return graph.impl_; }
};

}  // namespace reprise
