// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/detail/export.h"
#include "reprise/handles.h"
#include "reprise/hooks.h"
#include "reprise/stream.h"

namespace reprise::graphs {

/// Registered hooks, of one graph or of all.
struct HookEntry {
  HookEntry(HookId its_id, GlobalGraphHooks its_hooks) : id(its_id), hooks(std::move(its_hooks)) {}

  const HookId id;
  GlobalGraphHooks hooks;
  // A call is counted first, and then checks whether they were removed: after a removal, running calls can be waited
  // for.
  std::atomic<int> running{0};
  std::atomic<bool> removed{false};
};
using HookEntries = std::vector<std::shared_ptr<HookEntry>>;

/// Hooks in the order of their registration. One thread at a time.
class HookList {
 public:
  HookId add(GlobalGraphHooks hooks);
  /// Null if no hooks have this id. The functions are destroyed with the result, or by a step that goes on: their
  /// destructors may do anything, so the caller must hold no lock then.
  std::shared_ptr<HookEntry> remove(HookId id);
  REPRISE_EXPORT_INTERNAL bool take_part_in_replays() const noexcept;
  /// Replaced, never changed: a step goes on with those that were registered when it began. Null if there are none.
  const std::shared_ptr<const HookEntries>& entries() const noexcept { return entries_; }
  void swap(HookList& other) noexcept { entries_.swap(other.entries_); }

 private:
  std::shared_ptr<const HookEntries> entries_;
};

/// True while there are hooks for all graphs: what the other steps of a graph without hooks look at.
REPRISE_EXPORT_INTERNAL inline constinit std::atomic<bool> global_hooks_exist{false};
/// True while there are hooks for the replays of all graphs: what a replay without listeners and hooks looks at.
REPRISE_EXPORT_INTERNAL inline constinit std::atomic<bool> global_hooks_in_replays{false};

/// True within a hook of any graph, on the calling thread.
bool hook_runs_on_this_thread() noexcept;

/// The hooks of one graph and of all graphs, which the graph calls at the steps of its life; see reprise/hooks.h.
class Hooks {
 public:
  /// \param graph the graph; it may become another one while a hook runs.
  explicit Hooks(CUDAGraph* const& graph) : graph_(graph) {}

  HookId add(GraphHooks hooks);
  std::shared_ptr<void> remove(HookId id) { return own_.remove(id); }  ///< see HookList
  bool take_part_in_replays() const noexcept { return own_.take_part_in_replays(); }
  /// True if there are none of this graph, and none in the replays of all graphs.
  bool none_in_replays() const noexcept {
    return own_.entries() == nullptr && !global_hooks_in_replays.load(std::memory_order_relaxed);
  }
  /// Global hooks are not called: the graph is internal.
  void leave_out_global() noexcept { with_global_ = false; }

  /// Exchanges the hooks of two graphs.
  void swap(Hooks& other) noexcept { own_.swap(other.own_); }

  // The steps beside replays. All that are registered run; the first exception is thrown, if the step may throw.
  /// Returns false if there are none.
  bool captured(GraphHandle template_graph);
  void instantiated(GraphExecHandle exec);
  /// Does nothing if captured() was not called since the last time.
  void reset() noexcept;

 private:
  friend class HookedReplay;

  template <class... Arguments>
  std::exception_ptr call(const char* step, std::function<void(const CUDAGraph&, Arguments...)> GlobalGraphHooks::*hook,
                          Arguments... arguments) const noexcept;
  bool none() const noexcept {
    return own_.entries() == nullptr && !global_hooks_exist.load(std::memory_order_relaxed);
  }

  CUDAGraph* const& graph_;
  HookList own_;
  bool with_global_ = true;
  bool captured_ = false;  // the hooks `captured` were called, and `reset` was not since
};

/// The hooks of one replay:
///
///     before -> launched | failed
///
/// Runs the hooks of a replay: after_replay of all whose before_replay returned.
class HookedReplay {
 public:
  HookedReplay(const Hooks& hooks, const StreamRef& stream);

  /// \throws the first exception of a hook; call failed() then.
  void before();
  /// \throws the first exception of a hook.
  void launched();
  /// In the handler of the exception that ended the replay.
  void failed() noexcept;

 private:
  std::exception_ptr after(ErrorCode result) noexcept;

  const std::shared_ptr<const HookEntries> own_, global_;
  CUDAGraph* const& graph_;
  const StreamRef& stream_;
  std::vector<const HookEntry*> threw_;  // before the launch
};

}  // namespace reprise::graphs
