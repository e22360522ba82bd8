// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners.h"

#include <algorithm>

#include "graph/framework_captures.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "graph/listeners/workspace_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/report/report_listener.h"

namespace reprise::graphs {

Listeners::Listeners()
    : report(std::make_unique<inspect::ReportListener>()),
      pool(std::make_unique<PoolListener>()),
      workspaces(std::make_unique<WorkspaceListener>()),
      random(std::make_unique<RandomListener>()),
      annotations(std::make_unique<inspect::AnnotationListener>()),
      liveness(std::make_unique<inspect::LivenessListener>(*annotations)),
      retain(std::make_unique<RetainListener>()) {
  add(ListenerOrder::report, *report);
  add(ListenerOrder::pool, *pool);
  add(ListenerOrder::workspaces, *workspaces);
  add(ListenerOrder::random, *random);
  add(ListenerOrder::annotations, *annotations);
  add(ListenerOrder::liveness, *liveness);
  add(ListenerOrder::retain, *retain);
  join_framework();
}

Listeners::~Listeners() = default;

void Listeners::join_framework() {
  const FrameworkCaptures* const captures = framework_captures();
  if (captures == nullptr || framework != nullptr) return;
  framework = captures->make_listeners();
  for (CaptureListener* const listener : framework->in_order()) add(ListenerOrder::framework, *listener);
}

void Listeners::add(ListenerOrder place, CaptureListener& listener) {
  const auto at = std::ranges::upper_bound(places_, place) - places_.begin();
  places_.insert(places_.begin() + at, place);
  in_order_.insert(in_order_.begin() + at, &listener);
}

}  // namespace reprise::graphs
