// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/handles.h"
#include "reprise/hooks.h"
#include "reprise/stream.h"

namespace reprise::graphs {

/// The hooks of one graph, which calls them at the steps of its life; see reprise/hooks.h.
///
/// Hooks are added and removed while one of them runs: what is removed then is forgotten when the run is over.
class Hooks {
 public:
  HookId add(GraphHooks hooks);
  /// What is to be destroyed when nothing is locked any more; nothing while a hook runs, which sees to it afterwards.
  using Removed = std::shared_ptr<void>;
  /// Empty if there is none of that name.
  std::optional<Removed> remove(HookId id);

  // The steps. All that are registered run; the first exception is thrown, if the step may throw.
  void captured(GraphHandle template_graph);
  void instantiated(GraphExecHandle exec);
  bool take_part_in_replays() const noexcept;
  void before_replay(const StreamRef& stream);
  void replayed(const StreamRef& stream);
  /// Does nothing if captured() was not called since the last time.
  void reset() noexcept;

 private:
  struct Entry {
    HookId id;
    GraphHooks hooks;
    bool removed = false;
  };

  /// Calls `call(hooks)` for each that is registered now, and returns the first exception.
  template <class F>
  std::exception_ptr run(const char* step, F&& call) noexcept;
  void forget_removed() noexcept;

  std::vector<std::shared_ptr<Entry>> entries_;
  int running_ = 0;        // runs underway, one within the other
  bool captured_ = false;  // the hooks `captured` were called, and `reset` was not since
};

}  // namespace reprise::graphs
