// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "graph/capture_listener.h"
#include "random/capture_draws.h"

namespace reprise::graphs {

/// The common part of listeners for random numbers once the capture has ended.
class DrawsListener : public CaptureListener {
 public:
  void abandoned() noexcept override { reset(); }
  void instantiated(GraphHandle /*template_graph*/, GraphExecHandle exec) noexcept override {
    if (draws_ != nullptr) draws_->instantiated(exec);
  }
  bool takes_part_in_replays() const noexcept override { return draws_ != nullptr; }
  void before_replay(const StreamRef& stream) override { draws_->before_replay(stream); }
  void replayed(const StreamRef& /*stream*/) noexcept override { draws_->replayed(); }
  void replay_failed() noexcept override { draws_->replay_failed(); }
  std::shared_ptr<void> take_resource() override { return draws_ != nullptr ? draws_->take_words() : nullptr; }

 protected:
  std::shared_ptr<random::CaptureDraws> draws_;  // null after a capture that drew nothing
};

}  // namespace reprise::graphs
