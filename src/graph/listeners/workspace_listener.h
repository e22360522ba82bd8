// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "graph/capture_listener.h"

namespace reprise::graphs {

class CaptureWorkspaces;

/// Gives libraries that work in a capture their workspaces, and keeps those as long as anything of the graph can touch
/// them: library_workspace() finds the capture by its id, from started() to ended().
///
/// To come after the listener of the pool: workspaces go back to the pool before it is closed.
class WorkspaceListener final : public CaptureListener {
 public:
  WorkspaceListener();
  ~WorkspaceListener() override;

  void begin(const CaptureContext& /*context*/) override {}
  void started(const CaptureContext& context) override;
  void ended(const CaptureContext& context, GraphHandle template_graph) override;
  void abandoned() noexcept override;
  std::shared_ptr<void> take_resource() override { return std::move(held_); }
  void reset() noexcept override { abandoned(); }

 private:
  std::shared_ptr<CaptureWorkspaces> underway_;  // while the capture is
  std::shared_ptr<void> held_;                   // what the captured graph is to hold; null if it used no workspace
};

}  // namespace reprise::graphs
