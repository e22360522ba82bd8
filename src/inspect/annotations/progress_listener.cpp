// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/progress_listener.h"

#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::inspect {

void ProgressListener::begin(captures::Capture& capture) {
  if (!capture.options().progress_marks) return;
  if (words_ == nullptr) words_ = std::make_shared<ProgressMarks::Words>(ProgressMarks::limit, capture.device());
  marks_ = std::make_shared<ProgressMarks>(words_);
}

void ProgressListener::started(captures::Capture& capture) {
  if (marks_ != nullptr) marks_->clear_on(capture.stream());
}

void ProgressListener::ended(captures::Capture& /*capture*/, graphs::CapturedGraph& graph) {
  if (words_ != nullptr) graph.resources.push_back(words_);
}

std::function<void()> ProgressListener::adopt_from(const ProgressListener& theirs, graphs::Adoption& /*adoption*/) {
  return [this, words = theirs.words_, marks = theirs.marks_]() mutable {
    words_.swap(words);
    marks_.swap(marks);
  };
}

}  // namespace reprise::inspect

namespace reprise {

std::optional<Annotation> CUDAGraph::last_mark() const {
  constexpr const char* call = "CUDAGraph::last_mark";
  Impl& impl = Impl::of(*this, call);
  const Impl::LaunchLock lock(impl);  // an update may replace them meanwhile
  impl.require(call, {Impl::State::captured, Impl::State::ready});
  const auto marks = impl.listeners.progress().marks();
  if (marks == nullptr)
    throw UsageError(
        text::format("{}{}: the graph was captured without GraphOptions::progress_marks, and does not say "
                     "how far a replay has come: capture it with the option.",
                     call, graphs::of_graph(impl.options.name)));
  return marks->last();
}

}  // namespace reprise
