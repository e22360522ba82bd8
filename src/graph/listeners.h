// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "graph/capture_listener.h"

namespace reprise::graphs {

/// The listeners of one graph, in the order in which they join a capture.
using Listeners = std::vector<std::unique_ptr<CaptureListener>>;

/// Those of this library: the one place that names the concerns which take part in captures.
Listeners make_own_listeners();

/// A set of listeners for a new graph: those of this library and of the framework.
Listeners make_listeners();

/// Adds those of a framework that was installed since the set was made. To be called while the graph is empty.
void add_missing_listeners(Listeners& listeners);

}  // namespace reprise::graphs
