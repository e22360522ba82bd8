// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "graph/capture_listener.h"
#include "inspect/annotations/progress_marks.h"

namespace reprise::inspect {

/// GraphOptions::progress_marks: the words and the scopes of one graph. CaptureAnnotations adds the marks, where scopes
/// are left.
class ProgressListener final : public graphs::CaptureListener {
 public:
  void after_dry_run(graphs::CaptureListener& listener) override { share_words(listener); }
  void inherit(const graphs::CaptureListener& before) override { share_words(before); }
  void begin(captures::Capture& capture) override;
  void started(captures::Capture& capture) override;
  void ended(captures::Capture& capture, graphs::CapturedGraph& graph) override;
  void abandoned(captures::Capture& /*capture*/) noexcept override { reset(); }
  std::size_t own_nodes() const noexcept override { return marks_ != nullptr ? marks_->nodes() : 0; }
  std::function<void()> adopt(const graphs::CaptureListener& other, graphs::Adoption& adoption) override;
  void reset() noexcept override {
    marks_.reset();
    words_.reset();
  }

  /// Marks of the capture that is underway, or of its graph; null without the option. Safe to be used by other threads
  /// than that of the graph.
  std::shared_ptr<ProgressMarks> marks() const noexcept { return marks_; }

 private:
  void share_words(const graphs::CaptureListener& other) {
    words_ = dynamic_cast<const ProgressListener&>(other).words_;
  }

  std::shared_ptr<ProgressMarks::Words> words_;  // the graph holds them, too
  std::shared_ptr<ProgressMarks> marks_;
};

}  // namespace reprise::inspect
