// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "captures/added_edges.h"
#include "graph/listeners/capture_listener.h"

namespace reprise::graphs {

/// The child graphs of one capture: what they hold, which the parent shares, and their last copies. In a slot of the
/// capture from the first child on. Thread-safe.
class CaptureChildren {
 public:
  static std::shared_ptr<CaptureChildren> of(captures::Capture& capture);
  /// Null if there are none.
  static std::shared_ptr<CaptureChildren> end(captures::Capture& capture) noexcept;

  /// Adds resources that a child's nodes use.
  void hold(const std::vector<std::shared_ptr<void>>& resources) {
    const std::lock_guard lock(mutex_);
    held_.insert(held_.end(), resources.begin(), resources.end());
  }
  /// The node that ran the graph with this number last, itself or in a child graph; one that is null if none did.
  captures::PlacedNode last_copy(std::uint64_t graph_id) const {
    const std::lock_guard lock(mutex_);
    const auto known = copies_.find(graph_id);
    return known != copies_.end() ? known->second : captures::PlacedNode{};
  }
  /// The node is complete: it runs the graphs with these numbers.
  void added(const std::vector<std::uint64_t>& graph_ids, const captures::PlacedNode& node) {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t id : graph_ids) copies_[id] = node;
  }
  /// Orders two nodes of one graph, of which the later one is a conditional node that was there before.
  void connect(const Device& device, GraphHandle graph, GraphNodeHandle from, GraphNodeHandle to) {
    const std::lock_guard lock(mutex_);
    edges_.add(device, graph, from, to);
  }
  /// Call the next two once the capture is over. The numbers of all graphs that have a copy.
  std::vector<std::uint64_t> graph_ids() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, node] : copies_) ids.push_back(id);
    return ids;
  }
  const std::vector<std::shared_ptr<void>>& held() const noexcept { return held_; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<void>> held_;
  std::unordered_map<std::uint64_t, captures::PlacedNode> copies_;
  captures::AddedEdges edges_;
};

/// Child graphs: the parent shares what they hold as long as anything of the parent can use it.
class ChildListener final : public ListenerOf<ChildListener> {
 public:
  void ended(captures::Capture& capture, CapturedGraph& graph) override {
    const auto children = CaptureChildren::end(capture);
    if (children == nullptr) return;
    pools_ = capture.pools();
    graph_ids_ = children->graph_ids();
    for (const auto& held : children->held()) graph.resources.push_back(held);
  }
  void abandoned(captures::Capture& capture) noexcept override { CaptureChildren::end(capture); }
  std::function<void()> adopt_from(const ChildListener& other, Adoption& /*adoption*/) override {
    return [this, pools = other.pools_, ids = other.graph_ids_]() mutable {
      pools_ = std::move(pools);
      graph_ids_ = std::move(ids);
    };
  }
  void reset() noexcept override {
    pools_.clear();
    graph_ids_.clear();
  }

  /// If the captured graph has children, its own pool and theirs.
  const std::vector<MempoolId>& pools() const noexcept { return pools_; }
  /// The numbers of its children, at any depth.
  const std::vector<std::uint64_t>& graph_ids() const noexcept { return graph_ids_; }

 private:
  std::vector<MempoolId> pools_;
  std::vector<std::uint64_t> graph_ids_;
};

}  // namespace reprise::graphs
