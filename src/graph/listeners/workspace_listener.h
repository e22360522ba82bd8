// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "graph/capture_listener.h"

namespace reprise::graphs {

struct CaptureWorkspaces;

/// Gives libraries that work in a capture their workspaces, and keeps those as long as anything of the graph can touch
/// them: library_workspace() finds them at the capture, from started() to ended().
///
/// To come after the listener of the pool: workspaces go back to the pool before it is closed.
class WorkspaceListener final : public CaptureListener {
 public:
  WorkspaceListener();
  ~WorkspaceListener() override;

  void started(const CaptureContext& context) override;
  void ended(const CaptureContext& context, GraphHandle template_graph) override;
  void abandoned() noexcept override;
  std::shared_ptr<void> take_resource() override { return std::move(held_); }
  void reset() noexcept override { abandoned(); }

 private:
  std::shared_ptr<CaptureWorkspaces> detach() noexcept;

  captures::Capture* underway_ = nullptr;  // while it has workspaces of this listener
  std::shared_ptr<void> held_;             // what the captured graph is to hold; null if it used no workspace
};

}  // namespace reprise::graphs
