// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "graph/capture_listener.h"

namespace reprise::graphs {

/// The listeners of one graph, in the order in which they join a capture.
using Listeners = std::vector<std::unique_ptr<CaptureListener>>;

/// A set of listeners for a new graph: the one place that names the concerns which take part in captures.
Listeners make_listeners();

}  // namespace reprise::graphs
