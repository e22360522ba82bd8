// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "captures/capture.h"
#include "reprise/handles.h"
#include "reprise/stream.h"

namespace reprise::captures {

/// A node of a capture that runs a copy of a captured graph. The stream does not depend on it yet.
struct ChildNode {
  Capture& capture;
  StreamRef stream;                               ///< that the node is added to
  GraphHandle graph;                              ///< of the capture, or of `body`
  std::shared_ptr<const Body> body;               ///< that the stream captures; null: the graph of the capture
  std::span<const GraphNodeHandle> dependencies;  ///< of the node
  GraphNodeHandle node;
  GraphHandle copy;      ///< the node's own graph; may be changed
  GraphHandle original;  ///< the template that it is a copy of
};

}  // namespace reprise::captures
