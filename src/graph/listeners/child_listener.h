// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "captures/edges.h"
#include "graph/listeners/capture_listener.h"
#include "memory/watches/allocation_log.h"

namespace reprise::graphs {

/// The child graphs and loops of one capture: their memory and words, and the last copies of children.
/// In a slot of the capture from the first of them on. Thread-safe.
class CaptureChildren {
 public:
  using Allocations = std::vector<memory::AllocationLog::Allocation>;

  static std::shared_ptr<CaptureChildren> of(captures::Capture& capture);
  /// Null if there are none.
  static std::shared_ptr<CaptureChildren> end(captures::Capture& capture) noexcept;

  /// Adds what the capture of a child allocated.
  void add_memory(const Allocations& allocations) {
    const std::lock_guard lock(mutex_);
    memory_.insert(memory_.end(), allocations.begin(), allocations.end());
  }
  /// The copy of a child has values of parameters, which calls for the child do not set.
  void note_parameters() {
    const std::lock_guard lock(mutex_);
    have_parameters_ = true;
  }
  /// The words of a loop, and the number of its call among those of the capture.
  struct LoopWords {
    std::size_t number = 0;
    std::shared_ptr<void> words = {};
  };
  /// Loops of this capture take over the words of those of an earlier capture of the graph, in the order of the calls.
  void reuse_loops(std::vector<std::shared_ptr<void>> words) {
    const std::lock_guard lock(mutex_);
    reused_ = std::move(words);
  }
  /// Begins the next loop. Its words are null if there are none to take over: set_words() adds them.
  LoopWords next_loop() {
    const std::lock_guard lock(mutex_);
    const std::size_t number = loops_.size();
    loops_.push_back(number < reused_.size() ? reused_[number] : nullptr);
    return {number, loops_.back()};
  }
  void set_words(const LoopWords& loop) {
    const std::lock_guard lock(mutex_);
    loops_[loop.number] = loop.words;
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
  /// The numbers of all graphs that have a copy. This function and the next three need a capture that is over.
  std::vector<std::uint64_t> graph_ids() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, node] : copies_) ids.push_back(id);
    return ids;
  }
  const std::vector<std::shared_ptr<void>>& loops() const noexcept { return loops_; }
  const Allocations& memory() const noexcept { return memory_; }
  bool have_parameters() const noexcept { return have_parameters_; }

 private:
  mutable std::mutex mutex_;
  Allocations memory_;
  bool have_parameters_ = false;
  std::vector<std::shared_ptr<void>> loops_;   // words, by the number of the loop
  std::vector<std::shared_ptr<void>> reused_;  // likewise, of an earlier capture
  std::unordered_map<std::uint64_t, captures::PlacedNode> copies_;
  captures::AddedEdges edges_;
};

/// Child graphs and loops; the parent keeps what they hold (KeptObjects). Each capture of a graph has the same words of
/// loops, so that a Loop stays one of the graph when that is captured again.
class ChildListener final : public ListenerOf<ChildListener> {
 public:
  void inherit_from(const ChildListener& before) override { loops_ = before.loops_; }
  void started(captures::Capture& capture) override {
    if (!loops_.empty()) CaptureChildren::of(capture)->reuse_loops(loops_);
  }
  void ended(captures::Capture& capture, CapturedGraph& /*graph*/) override {
    const auto children = CaptureChildren::end(capture);
    if (children == nullptr) return;
    known_ = {capture.pools(), children->graph_ids(), children->memory(), children->have_parameters()};
    loops_ = children->loops();
  }
  void abandoned(captures::Capture& capture) noexcept override {
    CaptureChildren::end(capture);
    loops_.clear();
  }
  std::function<void()> adopt_from(const ChildListener& other, Adoption& /*adoption*/) override {
    return [this, theirs = other.known_]() mutable { known_ = std::move(theirs); };
  }
  void reset() noexcept override {
    known_ = {};
    loops_.clear();
  }

  /// If the captured graph has children, its own pool and theirs.
  const std::vector<MempoolId>& pools() const noexcept { return known_.pools; }
  /// What the captures of its children allocated, at any depth, for comparison with another graph.
  const CaptureChildren::Allocations& memory() const noexcept { return known_.memory; }
  /// True if children, at any depth, had parameters when they were added: those of the copies are not set any more.
  bool have_parameters() const noexcept { return known_.have_parameters; }
  /// The numbers of its children, at any depth.
  const std::vector<std::uint64_t>& graph_ids() const noexcept { return known_.graph_ids; }

 private:
  struct Known {
    std::vector<MempoolId> pools = {};
    std::vector<std::uint64_t> graph_ids = {};
    CaptureChildren::Allocations memory = {};
    bool have_parameters = false;
  };

  Known known_;
  std::vector<std::shared_ptr<void>> loops_;
};

}  // namespace reprise::graphs
