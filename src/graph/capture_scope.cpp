// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "graph/capture_registry.h"
#include "graph/cuda_graph_impl.h"
#include "graph/internal_streams.h"
#include "reprise/graph.h"

namespace reprise {

/// The inside of a scope: what it acquired, given back in the reverse order by the destructors.
///
///     open -> closed    end() succeeded or failed with the capture over, or the scope was left
///
/// Entered, used and left on one thread.
struct graph::Impl {
  Impl(CUDAGraph& target, const GraphOptions& options);
  ~Impl() { close(); }

  void end();
  bool still_capturing() const {
    return cuda_graph.impl_ != nullptr && cuda_graph.impl_->state == graphs::GraphState::capturing;
  }
  /// Abandons the capture if it is still underway; the current stream is as before the scope.
  void close() noexcept;

  CUDAGraph& cuda_graph;
  std::optional<graphs::InternalStream> internal;
  StreamRef stream;
  std::optional<StreamGuard> guard;
  bool open = false;
  const int exceptions = std::uncaught_exceptions();  // in flight when the scope was entered
};

graph::Impl::Impl(CUDAGraph& target, const GraphOptions& options)
    : cuda_graph(target), stream(options.stream.has_value() ? *options.stream : StreamRef(current_device(), nullptr)) {
  // Refused before anything is changed, and before anybody waits for the device.
  const StreamRef* given = options.stream.has_value() ? &stream : nullptr;
  CUDAGraph::Impl::of(target, "graph").require_can_begin("graph", options, given);
  graphs::synchronize_if_no_capture(stream.device());
  if (given == nullptr) stream = internal.emplace(stream.device()).ref();
  guard.emplace(stream);
  cuda_graph.capture_begin(options);
  open = true;
}

void graph::Impl::end() {
  if (!open)
    throw UsageError(
        "graph::end needs a scope that is open, and this one was ended already: call it once, or leave it "
        "to the destructor.");
  try {
    cuda_graph.capture_end();
  } catch (...) {
    if (!still_capturing()) close();  // else the call was refused: the capture goes on, and so does the scope
    throw;
  }
  close();
}

void graph::Impl::close() noexcept {
  if (!open) return;
  open = false;
  cuda_graph.capture_abandon();
  guard.reset();
  internal.reset();
}

graph::graph(CUDAGraph& cuda_graph, const GraphOptions& options) : impl_(std::make_unique<Impl>(cuda_graph, options)) {}

graph::~graph() noexcept(false) {
  if (impl_->open && std::uncaught_exceptions() <= impl_->exceptions) impl_->end();
}

void graph::end() {
  impl_->end();
}

StreamRef graph::stream() const {
  return impl_->stream;
}

void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body) {
  if (!body) throw UsageError("capture needs a body to run, and was given an empty function.");
  graph scope(cuda_graph, options);
  body();
  scope.end();
}

}  // namespace reprise
