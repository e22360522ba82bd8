// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "graph/capture_listener.h"
#include "reprise/hooks.h"

namespace reprise::graphs {

/// The hooks of one graph. To come last: its hooks see what the others did, and may throw where no other listener may.
///
/// Hooks are added and removed while one of them runs: what is removed then is forgotten when the run is over.
class HooksListener final : public CaptureListener {
 public:
  HookId add(GraphHooks hooks);
  /// What is to be destroyed when nothing is locked any more; nothing while a hook runs, which sees to it afterwards.
  using Removed = std::shared_ptr<void>;
  /// Empty if there is none of that name.
  std::optional<Removed> remove(HookId id);

  void begin(const CaptureContext& /*context*/) override {}
  void started(const CaptureContext& /*context*/) override {}
  void ended(const CaptureContext& context, GraphHandle template_graph) override;
  void abandoned() noexcept override { reset(); }
  void instantiated(GraphHandle template_graph, GraphExecHandle exec) override;
  bool takes_part_in_replays() const noexcept override;
  void before_replay(const StreamRef& stream) override;
  void replayed(const StreamRef& stream) override;
  void reset() noexcept override;

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
