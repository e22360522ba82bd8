// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "graph/listeners/capture_listener.h"
#include "random/capture_draws.h"

namespace reprise::graphs {

/// The common part of listeners T for random numbers once the capture has ended.
template <class T>
class DrawsListener : public ListenerOf<T> {
 public:
  void abandoned(captures::Capture& /*capture*/) noexcept override { this->reset(); }
  void instantiated(GraphHandle /*template_graph*/, GraphExecHandle exec) noexcept override {
    draws_->instantiated(exec);
  }
  std::function<void()> adopt_from(const T& other, Adoption& adoption) override {
    const auto& theirs = other.draws_;
    return [this, draws = theirs != nullptr ? theirs->adopted(adoption.nodes, adoption.exec) : nullptr] {
      draws_ = draws;
    };
  }
  void added_as_child(const captures::ChildNode& child) override {
    if (draws_ != nullptr) draws_->add_to_parent(child);
  }
  [[gnu::hot]] void before_replay(const StreamRef& stream) override { draws_->before_replay(stream); }
  [[gnu::hot]] void replayed(const StreamRef& /*stream*/) noexcept override { draws_->replayed(); }
  void replay_failed() noexcept override { draws_->replay_failed(); }

 protected:
  /// Keeps the draws for the replays of the graph; nothing if there are none.
  void keep(std::shared_ptr<random::CaptureDraws> draws, CapturedGraph& graph) {
    if (draws == nullptr || draws->empty()) return;
    draws->finish();
    graph.resources.push_back(draws->take_words());
    graph.of_executables.push_back(this);
    graph.in_replays.push_back(this);
    graph.needs_template = true;  // for the head nodes, see CaptureDraws::before_replay()
    draws_ = std::move(draws);
  }

  std::shared_ptr<random::CaptureDraws> draws_;  // null after a capture that drew nothing
};

}  // namespace reprise::graphs
