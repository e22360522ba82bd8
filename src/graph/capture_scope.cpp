// SPDX-License-Identifier: Apache-2.0
#include "reprise/capture.h"

#include <array>
#include <exception>
#include <utility>

#include "graph/cuda_graph_impl.h"
#include "graph/framework_captures.h"
#include "graph/internal_streams.h"
#include "graph/synchronize.h"
#include "reprise/graph.h"

namespace reprise {

using graphs::GraphAccess;

/// The implementation of a scope: its resources, released in the reverse order by the destructors.
///
///     open -> closed    end() succeeded or failed with the capture over, or the scope was left
///
/// Entered, used and left on one thread.
struct graph::Impl {
  Impl(CUDAGraph& target, const GraphOptions& options);
  ~Impl() { close(); }

  void end();
  bool still_capturing() const {
    const auto& impl = GraphAccess::impl(cuda_graph);
    return impl != nullptr && impl->state == graphs::GraphState::capturing;
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
  // Refused before anything is changed, and before the wait for the device.
  const StreamRef* given = options.stream.has_value() ? &stream : nullptr;
  GraphAccess::Impl& impl = GraphAccess::of(target, "graph");
  impl.join_framework();
  impl.require_can_begin("graph", options, given);
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

namespace {

void capture_once(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body) {
  graph scope(cuda_graph, options);
  body();
  scope.end();
}

// Words that the body leaves unwritten show what other calls left there before. This leaves nothing that looks like an
// address, and something else each time.
[[gnu::noinline]] void overwrite_stack(unsigned char pattern) {
  std::array<unsigned char, std::size_t{128} * 1024> below;
  below.fill(pattern);
  asm volatile("" : : "r"(below.data()) : "memory");
}

/// capture() in two passes.
///
///     rehearsal -> [the listeners are notified] -> capture
///
/// In the rehearsal the user's object has another inside, which is thrown away: the body finds its graph capturing, and
/// what it assigns in the end belongs to the graph that stays.
struct Rehearsal {
  using Impl = GraphAccess::Impl;

  Rehearsal(CUDAGraph& graph, const GraphOptions& wanted)
      : cuda_graph(graph), real(*GraphAccess::impl(graph)), options(wanted) {
    real.rehearses = GraphAccess::impl(stand_in)->rehearses = true;
  }
  ~Rehearsal() { real.rehearses = false; }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  void run(const std::function<void()>& body) {
    options.discard_template = false;
    Impl& rehearsed = *GraphAccess::impl(stand_in);
    try {
      const Exchanged exchanged(cuda_graph, stand_in);
      capture_once(cuda_graph, options, body);
    } catch (...) {
      real.last_report = std::move(rehearsed.last_report);
      throw;
    }
    notify(rehearsed);
    stand_in.reset();
  }

  // Both graphs have the same listeners, unless a framework was installed right between them.
  void notify(const Impl& rehearsed) const {
    const auto ours = real.listeners.in_order(), theirs = rehearsed.listeners.in_order();
    if (ours.size() != theirs.size())
      throw UsageError("A framework was installed while a graph was being captured: capture it again.");
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i]->rehearsed(*theirs[i]);
  }

  struct Exchanged {
    Exchanged(CUDAGraph& one, CUDAGraph& other) : a(GraphAccess::impl(one)), b(GraphAccess::impl(other)) { a.swap(b); }
    ~Exchanged() { a.swap(b); }
    Exchanged(const Exchanged&) = delete;
    Exchanged& operator=(const Exchanged&) = delete;
    std::unique_ptr<Impl>& a;
    std::unique_ptr<Impl>& b;
  };

  CUDAGraph& cuda_graph;
  Impl& real;
  GraphOptions options;
  CUDAGraph stand_in{KeepGraph::yes};  // needs no executable
};

void capture_twice(GraphAccess::Impl& impl, CUDAGraph& graph, const GraphOptions& options,
                   const std::function<void()>& body) {
  Rehearsal rehearsal(graph, options);
  impl.require_can_begin("capture", options, nullptr);
  overwrite_stack(0xA5);
  rehearsal.run(body);
  overwrite_stack(0x5A);
  capture_once(graph, options, body);
}

}  // namespace

void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body) {
  constexpr const char* call = "capture";
  if (!body) throw UsageError("capture needs a body to run, and was passed an empty function.");
  GraphAccess::Impl& impl = GraphAccess::of(cuda_graph, call);
  impl.join_framework();
  try {
    if (impl.needs_rehearsal(options) == nullptr)
      capture_once(cuda_graph, options, body);
    else
      capture_twice(impl, cuda_graph, options, body);
  } catch (...) {
    if (const auto* const framework = graphs::framework_captures()) framework->add_to_exception();
    throw;
  }
}

}  // namespace reprise
