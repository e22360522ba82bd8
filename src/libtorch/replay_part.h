// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "captures/capture.h"
#include "graph/listeners/capture_listener.h"
#include "reprise/detail/export.h"

namespace reprise::libtorch {

/// What the component libtorch_optim keeps of a capture, and then for the replays of its graph: steps of optimizers. It
/// attaches it to the slot `replay_part`, so that captures of tensors need nothing of that component.
class ReplayPart {
 public:
  virtual ~ReplayPart() = default;

  /// At the end of the capture: true if the graph needs it. May throw: the capture fails.
  virtual bool any() const = 0;
  virtual void before_replay(const StreamRef& stream) const = 0;
  /// The graph becomes a child of the graph of this capture.
  virtual void add_to(captures::Capture& parent) const = 0;
};

REPRISE_EXPORT_INTERNAL extern constinit captures::Slot<ReplayPart> replay_part;

/// The ReplayPart of one graph.
class ReplayPartListener final : public graphs::ListenerOf<ReplayPartListener> {
 public:
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& capture) noexcept override { capture.detach(replay_part); }
  void added_as_child(const captures::ChildNode& child) override {
    if (part_ != nullptr) part_->add_to(child.capture);
  }
  void before_replay(const StreamRef& stream) override { part_->before_replay(stream); }
  std::function<void()> adopt_from(const ReplayPartListener& other, graphs::Adoption& /*adoption*/) override {
    return [this, theirs = other.part_] { part_ = theirs; };
  }
  void reset() noexcept override { part_.reset(); }

 private:
  std::shared_ptr<const ReplayPart> part_;  // null if there is none
};

}  // namespace reprise::libtorch
