// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/capture_listener.h"

namespace reprise::inspect {
class AnnotationListener;
class LivenessListener;
class ReportListener;
}  // namespace reprise::inspect

namespace reprise::graphs {

class FrameworkListeners;
class PoolListener;
class RandomListener;
class RetainListener;
class WorkspaceListener;

/// Where a listener stands among those of a graph, with the reason.
enum class ListenerOrder : std::uint8_t {
  report,       // sees what the others do
  pool,         // before what allocates
  workspaces,   // after the pool: workspaces go back to it before it is closed
  random,       // after the pool: the words of a graph lie in it
  framework,    // after memory and random numbers, before what looks at nodes that do not change any more
  annotations,  // of nodes that do not change any more
  liveness,     // likewise, and after the annotations, which errors name
  retain,       // what it keeps is destroyed first
};

/// The listeners of one graph: the one place that names the concerns which take part in captures.
///
/// Owned and used by one graph, as its other parts.
class Listeners {
 public:
  /// Those of this library, and of the framework if there is one.
  Listeners();
  ~Listeners();
  Listeners(const Listeners&) = delete;
  Listeners& operator=(const Listeners&) = delete;

  /// Adds those of a framework that was installed since. To be called while the graph is empty.
  void join_framework();

  /// All, in the order in which they join a capture. Valid until join_framework().
  std::span<CaptureListener* const> in_order() const noexcept { return in_order_; }

  const std::unique_ptr<inspect::ReportListener> report;
  const std::unique_ptr<PoolListener> pool;
  const std::unique_ptr<WorkspaceListener> workspaces;
  const std::unique_ptr<RandomListener> random;
  std::unique_ptr<FrameworkListeners> framework;  // null without a framework that takes part in captures
  const std::unique_ptr<inspect::AnnotationListener> annotations;
  const std::unique_ptr<inspect::LivenessListener> liveness;
  const std::unique_ptr<RetainListener> retain;

 private:
  void add(ListenerOrder place, CaptureListener& listener);

  std::vector<CaptureListener*> in_order_;
  std::vector<ListenerOrder> places_;  // of in_order_
};

}  // namespace reprise::graphs
