// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "graph/capture/kept_objects.h"
#include "graph/listeners/capture_listener.h"
#include "graph/resources/graph_resources.h"

namespace reprise::graphs {

/// Objects that live as long as anything of the graph: those of CUDAGraph::retain() and release(), and what calls in
/// the capture keep. They are held here and by the capture, then by the graph's resources.
class RetainListener final : public ListenerOf<RetainListener> {
 public:
  /// Needs a capture that is underway, or its graph with these resources. Called by one thread at a time.
  void retain(std::shared_ptr<void> object, GraphResources& resources) {
    std::shared_ptr<Objects> objects = objects_.lock();
    if (objects == nullptr) {
      objects_ = objects = std::make_shared<Objects>();
      if (resources.holds())
        resources.add(objects);
      else
        held_ = objects;
    }
    objects->push_back(std::move(object));
  }

  /// Takes out what was retained last of all that have the same owner; null if there is none.
  std::shared_ptr<void> take(const std::shared_ptr<void>& object) {
    const std::shared_ptr<Objects> objects = objects_.lock();
    if (objects == nullptr) return nullptr;
    const auto found = std::find_if(objects->rbegin(), objects->rend(), [&](const auto& each) {
      return !each.owner_before(object) && !object.owner_before(each);
    });
    if (found == objects->rend()) return nullptr;
    std::shared_ptr<void> taken = std::move(*found);
    objects->erase(std::next(found).base());
    return taken;
  }

  void ended(captures::Capture& capture, CapturedGraph& graph) override {
    if (held_ != nullptr) graph.resources.push_back(std::move(held_));
    if (auto kept = KeptObjects::take(capture)) graph.resources.push_back(std::move(kept));
  }
  void abandoned(captures::Capture& capture) noexcept override {
    KeptObjects::take(capture);
    reset();
  }
  // Each graph has a list of its own, to release from.
  std::function<void()> adopt_from(const RetainListener& other, Adoption& adoption) override {
    const auto copy = other.replace_by_copy(adoption.resources);
    return [this, objects = std::weak_ptr<Objects>(copy)] { objects_ = objects; };
  }
  // release() takes nothing from the copy.
  void replace_by_copies(GraphResources::Resources& shared) const override { replace_by_copy(shared); }
  // Forgets the objects: the graph's resources may still hold them for a launch that runs.
  void reset() noexcept override {
    held_.reset();
    objects_.reset();
  }

 private:
  using Objects = GraphResources::Resources;

  // Returns the copy; null if nothing was retained.
  std::shared_ptr<Objects> replace_by_copy(Objects& shared) const {
    const std::shared_ptr<Objects> own = objects_.lock();
    if (own == nullptr) return nullptr;
    auto copy = std::make_shared<Objects>();
    for (const std::shared_ptr<void>& object : *own) copy->push_back(object);
    std::ranges::replace(shared, std::shared_ptr<void>(own), std::shared_ptr<void>(copy));
    return copy;
  }

  std::shared_ptr<Objects> held_;   // until the graph's resources hold them
  std::weak_ptr<Objects> objects_;  // the same, for what comes later; expired while nothing was retained
};

}  // namespace reprise::graphs
