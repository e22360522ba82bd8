// SPDX-License-Identifier: Apache-2.0
#include "graph/bodies.h"

#include <algorithm>

#include "backend/check.h"

namespace reprise::graphs {

using backend::Backend;
using backend::Call;

// A broken capture, one of another thread, or one already ended by a raw driver call is over after the first try,
// without a graph: then the code does not matter.
void drop_capture(const StreamRef& stream, EndedGraph graph) noexcept {
  Backend& backend = stream.device().backend();
  const backend::RelaxedCaptureMode relaxed(backend);
  ErrorCode ended = ErrorCode::success;
  for (const bool again : {false, true}) {
    CaptureStatus status = CaptureStatus::none;
    const bool known = backend.stream_is_capturing(stream.native(), &status) == ErrorCode::success;
    if (known ? status == CaptureStatus::none : again) return;
    if (again) backend::warn_on_error(backend, Call::stream_end_capture, ended);
    GraphHandle made = nullptr;
    ended = backend.stream_end_capture(stream.native(), &made);
    if (made != nullptr && graph == EndedGraph::destroy) backend::WarnOnError(backend).graph_destroy(made);
    if (ended == ErrorCode::success) return;
  }
}

void Bodies::begin_addition() noexcept {
  const std::lock_guard lock(mutex_);
  ++incomplete_;
}

void Bodies::end_addition() noexcept {
  const std::lock_guard lock(mutex_);
  --incomplete_;
}

bool Bodies::is_complete() const noexcept {
  const std::lock_guard lock(mutex_);
  return incomplete_ == 0;
}

StreamRef Bodies::stream_for(const StreamRef& outer, std::uint64_t outer_id, bool repeats) {
  const std::lock_guard lock(mutex_);
  if (!repeats)
    for (const OwnStream& own : streams_)
      if (own.outer == outer.native() && own.outer_id == outer_id && !own.repeats) return own.stream->ref();
  streams_.push_back({outer.native(), outer_id, repeats, std::make_unique<InternalStream>(outer.device())});
  return streams_.back().stream->ref();
}

void Bodies::opened(const StreamRef& stream) {
  const std::lock_guard lock(mutex_);
  open_.push_back(stream);
}

bool Bodies::closed(const StreamRef& stream) noexcept {
  const std::lock_guard lock(mutex_);
  return std::erase(open_, stream) != 0;
}

void Bodies::drop_open() noexcept {
  const std::lock_guard lock(mutex_);
  for (; !open_.empty(); open_.pop_back()) drop_capture(open_.back(), EndedGraph::belongs_to_node);
}

}  // namespace reprise::graphs
