// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners/listeners.h"

#include <algorithm>

#include "graph/capture/framework_captures.h"
#include "graph/listeners/child_listener.h"
#include "graph/listeners/collectives_listener.h"
#include "graph/listeners/pool_listener.h"
#include "graph/listeners/random_listener.h"
#include "graph/listeners/retain_listener.h"
#include "inspect/annotations/annotation_listener.h"
#include "inspect/annotations/progress_listener.h"
#include "inspect/frozen/frozen_listener.h"
#include "inspect/liveness/host_copies_listener.h"
#include "inspect/liveness/liveness_listener.h"
#include "inspect/nodes/graph_walk.h"
#include "inspect/report/report_listener.h"

namespace reprise::graphs {
namespace {

// The lists have the same kinds in the same order.
void inherit_each(const std::vector<CaptureListener*>& ours, const std::vector<CaptureListener*>& theirs) {
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i]->inherit(*theirs[i]);
}

}  // namespace

// In the order in which they join a capture; those of a framework come before the annotations: after memory and random
// numbers, before what looks at nodes that do not change any more.
struct Listeners::Own {
  inspect::ReportListener report;                        // its describe() begins the report, to which the others add
  PoolListener pool;                                     // before what allocates
  ChildListener children;                                // after the pool: what children hold is released before it
  CollectivesListener collectives;                       // in any place: what it holds lies in no pool
  inspect::ProgressListener progress;                    // scopes of the annotations add its nodes
  RandomListener random;                                 // after the pool: the words of a graph lie in it
  inspect::AnnotationListener annotations{progress};     // of nodes that do not change any more
  inspect::FrozenListener frozen{annotations};           // likewise; errors name the annotations
  inspect::LivenessListener liveness{annotations};       // likewise; other nodes than in the dry run are refused before
  inspect::HostCopiesListener host_copies{annotations};  // likewise
  RetainListener retain;                                 // what it keeps is destroyed first

  std::vector<CaptureListener*> in_order() {
    return {&report,      &pool,   &children, &collectives, &progress, &random,
            &annotations, &frozen, &liveness, &host_copies, &retain};
  }
};

Listeners::Listeners() : own_(std::make_unique<Own>()), in_order_(own_->in_order()) {
  join_framework();
}

Listeners::~Listeners() = default;

PoolListener& Listeners::pool() const noexcept {
  return own_->pool;
}
ChildListener& Listeners::children() const noexcept {
  return own_->children;
}
CollectivesListener& Listeners::collectives() const noexcept {
  return own_->collectives;
}
RandomListener& Listeners::random() const noexcept {
  return own_->random;
}
inspect::ProgressListener& Listeners::progress() const noexcept {
  return own_->progress;
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

bool Listeners::is_progress_mark(const void* destination) const noexcept {
  const auto marks = own_->progress.marks();
  return marks != nullptr && marks->has(destination);
}

const Annotation* Listeners::annotation_of(GraphNodeHandle node) const noexcept {
  return own_->annotations.annotation_of(node);
}

bool Listeners::annotations_have_name(std::string_view name) const {
  return own_->annotations.have_name(name);
}

std::string Listeners::node_text(backend::Backend& backend, GraphNodeHandle node, GraphNodeHandle top,
                                 const std::string& number) const {
  const inspect::ScannedNode described = inspect::scan_node(backend, node, top, number);
  return inspect::node_text(backend, described, own_->annotations.annotation_of(described));
}

void Listeners::replace_by_copies(memory::ReleaseQueue::Resources& shared) const {
  for (const CaptureListener* const listener : in_order_) listener->replace_by_copies(shared);
}

void Listeners::inherit(const Listeners& before) {
  inherit_each(own_->in_order(), before.own_->in_order());
  // A framework may have been installed in between: one of the two has none of its listeners then.
  if (framework_ != nullptr && before.framework_ != nullptr)
    inherit_each(framework_->in_order(), before.framework_->in_order());
}

void Listeners::swap(Listeners& other) noexcept {
  own_.swap(other.own_);
  framework_.swap(other.framework_);
  in_order_.swap(other.in_order_);
}

void Listeners::join_framework() {
  const FrameworkCaptures* const captures = framework_captures();
  if (captures == nullptr || framework_ != nullptr) return;
  framework_ = captures->make_listeners();
  const std::vector<CaptureListener*> theirs = framework_->in_order();
  in_order_.insert(std::ranges::find(in_order_, &own_->annotations), theirs.begin(), theirs.end());
}

}  // namespace reprise::graphs
