// SPDX-License-Identifier: Apache-2.0
#include "graph/listeners/collectives_listener.h"

#include <algorithm>
#include <utility>

#include "captures/child_node.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::graphs {
namespace {

constinit captures::Slot<CapturedCollectives> collectives_of_capture;

}  // namespace

std::shared_ptr<CapturedCollectives> CapturedCollectives::of(captures::Capture& capture) {
  return capture.get_or_attach(collectives_of_capture);
}

std::shared_ptr<CapturedCollectives> CapturedCollectives::end(captures::Capture& capture) noexcept {
  return capture.detach(collectives_of_capture);
}

void CapturedCollectives::add(std::shared_ptr<Communicator> communicator, std::shared_ptr<void> uses) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(used_, uses) == used_.end()) used_.push_back(std::move(uses));
  if (std::ranges::find(all_, communicator) == all_.end()) all_.push_back(std::move(communicator));
}

void CollectivesListener::ended(captures::Capture& capture, CapturedGraph& graph) {
  const auto collectives = CapturedCollectives::end(capture);
  if (collectives == nullptr) return;
  graph.resources.push_back(collectives);
  graph.in_replays.push_back(this);
  collectives_ = collectives;
}

void CollectivesListener::added_as_child(const captures::ChildNode& child) {
  const auto own = collectives();
  const auto of_parent = own != nullptr ? CapturedCollectives::of(child.capture) : nullptr;
  if (of_parent == nullptr) return;
  for (const std::shared_ptr<Communicator>& each : own->all()) of_parent->add(each, own);
}

void CollectivesListener::before_replay(const StreamRef& /*stream*/) {
  const auto own = collectives();
  if (own == nullptr) return;
  for (const std::shared_ptr<Communicator>& each : own->all())
    if (each->aborted())
      throw UsageError(
          text::format("CUDAGraph::replay: the graph contains collectives of a communicator that was aborted ({}) "
                       "after the timeout of CUDAGraph::synchronize(). Its processes do not act "
                       "together any more: end them all, start them again from a checkpoint, and capture again.",
                       each->describe()));
}

}  // namespace reprise::graphs
