// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners.h"

#include <utility>

#include "graph/hooks_listener.h"
#include "graph/pool_listener.h"
#include "graph/random_listener.h"
#include "graph/retain_listener.h"
#include "graph/workspace_listener.h"
#include "inspect/annotation_listener.h"
#include "inspect/liveness_listener.h"
#include "inspect/report_listener.h"

namespace reprise::graphs {

Listeners make_listeners() {
  Listeners listeners;
  listeners.push_back(std::make_unique<inspect::ReportListener>());  // first: it sees what the others do
  listeners.push_back(std::make_unique<PoolListener>());
  listeners.push_back(std::make_unique<WorkspaceListener>());
  listeners.push_back(std::make_unique<RandomListener>());
  // One may know another: they live and die together, each in its place in memory.
  auto annotations = std::make_unique<inspect::AnnotationListener>();
  auto liveness = std::make_unique<inspect::LivenessListener>(*annotations);  // after those that change nodes
  listeners.push_back(std::move(annotations));
  listeners.push_back(std::move(liveness));
  listeners.push_back(std::make_unique<RetainListener>());
  listeners.push_back(std::make_unique<HooksListener>());  // last: hooks see what the others did, and may throw
  return listeners;
}

}  // namespace reprise::graphs
