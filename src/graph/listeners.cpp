// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners.h"

#include <cstddef>
#include <iterator>
#include <utility>

#include "graph/framework_captures.h"
#include "graph/listeners/hooks_listener.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "graph/listeners/workspace_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/report/report_listener.h"

namespace reprise::graphs {
namespace {

// Where the listeners of a framework stand: how many of this library come before them, and how many after.
constexpr std::ptrdiff_t before_framework = 4;
constexpr std::ptrdiff_t after_framework = 4;

}  // namespace

Listeners make_own_listeners() {
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

Listeners make_listeners() {
  Listeners listeners = make_own_listeners();
  add_missing_listeners(listeners);
  return listeners;
}

void add_missing_listeners(Listeners& listeners) {
  const FrameworkCaptures* const framework = framework_captures();
  if (framework == nullptr || listeners.size() != before_framework + after_framework) return;
  Listeners made = framework->make_listeners();
  listeners.insert(std::prev(listeners.end(), after_framework), std::make_move_iterator(made.begin()),
                   std::make_move_iterator(made.end()));
}

}  // namespace reprise::graphs
