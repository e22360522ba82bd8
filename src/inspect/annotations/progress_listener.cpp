// SPDX-License-Identifier: Apache-2.0
#include "inspect/annotations/progress_listener.h"

#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "graph/nodes/node_changes.h"
#include "reprise/error.h"
#include "text/format.h"

namespace reprise::inspect {

void ProgressListener::begin(captures::Capture& capture) {
  if (!capture.options().progress_marks) return;
  if (words_ == nullptr) words_ = std::make_shared<ProgressMarks::Words>(capture.device());
  marks_ = std::make_shared<ProgressMarks>(words_);
}

void ProgressListener::started(captures::Capture& capture) {
  if (marks_ != nullptr) marks_->clear_on(capture.stream());
}

void ProgressListener::ended(captures::Capture& /*capture*/, graphs::CapturedGraph& graph) {
  if (words_ != nullptr) graph.resources.push_back(words_);
}

// A graph that goes on by itself has words of its own: this one must not show what its replays reach.
std::function<void()> ProgressListener::adopt_from(const ProgressListener& theirs, graphs::Adoption& adoption) {
  std::shared_ptr<ProgressMarks::Words> words = theirs.words_;
  std::shared_ptr<ProgressMarks> marks = theirs.marks_;
  if (marks != nullptr && words != words_) {
    words = words_ != nullptr ? words_ : std::make_shared<ProgressMarks::Words>(words->device());
    marks = marks->in(words);
    adoption.replace(theirs.words_, words);
    for (graphs::NodeChange& each : *adoption.changes)
      if (each.to.type() == backend::NodeType::memset && theirs.marks_->has(each.to.set().destination))
        theirs.marks_->move_to(*marks, each.to.set());
  }
  return [this, words = std::move(words), marks = std::move(marks)]() mutable {
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
        text::format("{}{}: the graph was captured without GraphOptions::progress_marks: capture it with the option.",
                     call, graphs::of_graph(impl.options.name)));
  return marks->last();
}

}  // namespace reprise
