// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/listeners/capture_listener.h"

namespace reprise::graphs {

/// Gives libraries that work in a capture their workspaces, and keeps those as long as anything of the graph can touch
/// them: library_workspace() makes them at the capture.
///
/// To come after the listener of the pool: workspaces go back to the pool before it is closed.
class WorkspaceListener final : public CaptureListener {
 public:
  void ended(captures::Capture& capture, CapturedGraph& graph) override;
  void abandoned(captures::Capture& capture) noexcept override;
};

}  // namespace reprise::graphs
