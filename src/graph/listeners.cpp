// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners.h"

#include <algorithm>

#include "graph/framework_captures.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "graph/listeners/workspace_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/frozen/frozen_listener.h"
#include "inspect/liveness/host_copies_listener.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/report/report_listener.h"

namespace reprise::graphs {

// In the order in which they join a capture; those of a framework come before the annotations: after memory and random
// numbers, before what looks at nodes that do not change any more.
struct Listeners::Own {
  inspect::ReportListener report;                        // sees what the others do
  PoolListener pool;                                     // before what allocates
  WorkspaceListener workspaces;                          // go back to the pool before it is closed
  RandomListener random;                                 // after the pool: the words of a graph lie in it
  inspect::AnnotationListener annotations;               // of nodes that do not change any more
  inspect::FrozenListener frozen{annotations};           // likewise; errors name the annotations
  inspect::LivenessListener liveness{annotations};       // likewise; other nodes than in the dry run are refused before
  inspect::HostCopiesListener host_copies{annotations};  // likewise
  RetainListener retain;                                 // what it keeps is destroyed first
};

Listeners::Listeners()
    : own_(std::make_unique<Own>()), in_order_{&own_->report,   &own_->pool,        &own_->workspaces,
                                               &own_->random,   &own_->annotations, &own_->frozen,
                                               &own_->liveness, &own_->host_copies, &own_->retain} {
  join_framework();
}

Listeners::~Listeners() = default;

RandomListener& Listeners::random() const noexcept {
  return own_->random;
}
inspect::AnnotationListener& Listeners::annotations() const noexcept {
  return own_->annotations;
}
inspect::LivenessListener& Listeners::liveness() const noexcept {
  return own_->liveness;
}
RetainListener& Listeners::retain() const noexcept {
  return own_->retain;
}

void Listeners::join_framework() {
  const FrameworkCaptures* const captures = framework_captures();
  if (captures == nullptr || framework_ != nullptr) return;
  framework_ = captures->make_listeners();
  const std::vector<CaptureListener*> theirs = framework_->in_order();
  in_order_.insert(std::ranges::find(in_order_, &own_->annotations), theirs.begin(), theirs.end());
}

}  // namespace reprise::graphs
