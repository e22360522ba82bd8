// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "graph/listeners/capture_listener.h"
#include "inspect/annotations/progress_marks.h"

namespace reprise::inspect {

/// GraphOptions::progress_marks: the words and the scopes of one graph. CaptureAnnotations adds the marks, where scopes
/// are left.
class ProgressListener final : public graphs::ListenerOf<ProgressListener> {
 public:
  void inherit_from(const ProgressListener& before) override { words_ = before.words_; }
  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& /*capture*/) noexcept override { reset(); }
  std::size_t own_nodes() const noexcept override { return marks_ != nullptr ? marks_->nodes() : 0; }
  std::function<void()> adopt_from(const ProgressListener& theirs, graphs::Adoption& adoption) override;
  void reset() noexcept override {
    marks_.reset();
    words_.reset();
  }

  /// Marks of the capture that is underway, or of its graph; null without the option. Safe to be used by other threads
  /// than that of the graph.
  std::shared_ptr<ProgressMarks> marks() const noexcept { return marks_; }

 private:
  std::shared_ptr<ProgressMarks::Words> words_;  // the graph holds them, too
  std::shared_ptr<ProgressMarks> marks_;
};

}  // namespace reprise::inspect
