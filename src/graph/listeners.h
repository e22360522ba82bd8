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

/// A set of listeners for a new graph: those of this library and of components.
Listeners make_listeners();

/// Makes a listener of a component's own, for one graph.
using ListenerFactory = std::unique_ptr<CaptureListener> (*)();

/// From now on each graph has such a listener, too: a new one from the beginning, another one from its next capture on.
/// Those of components come in the order in which they were added, after memory and random numbers and before what
/// looks at nodes that nobody changes any more. Until the process ends. Thread-safe.
void add_listener_factory(ListenerFactory make);

/// Adds what components added since the set was made. To be called while the graph is empty. Two loads if there is
/// nothing new.
void add_missing_listeners(Listeners& listeners);

}  // namespace reprise::graphs
