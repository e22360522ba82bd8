// SPDX-License-Identifier: Apache-2.0
#include "reprise/capture.h"

#include <array>
#include <exception>
#include <utility>

#include "graph/cuda_graph_impl.h"
#include "graph/framework_captures.h"
#include "graph/internal_streams.h"
#include "graph/stack_patterns.h"
#include "graph/synchronize.h"
#include "graph/warm_up.h"
#include "reprise/graph.h"

namespace reprise {

using graphs::GraphAccess;

/// The implementation of a scope: its resources, released in the reverse order by the destructors.
///
///     open -> closed    end() succeeded or failed with the capture over, or the scope was left
///
/// It keeps to the inside of the graph: the graph itself may be moved, or destroyed, which end() reports.
///
/// Entered, used and left on one thread.
struct graph::Impl {
  Impl(CUDAGraph& target, const GraphOptions& options);
  ~Impl() { close(); }

  void end(const void* frame);  // as CUDAGraph::Impl::end()
  /// Abandons the capture if it is still underway; the current stream is as before the scope.
  void close() noexcept;

  GraphAccess::Impl& inside;
  std::optional<GraphAccess::Impl::Use> use;  // while open
  std::optional<graphs::InternalStream> internal;
  StreamRef stream;
  std::optional<StreamGuard> guard;
  bool open = false;
  const int exceptions = std::uncaught_exceptions();  // in flight when the scope was entered
};

graph::Impl::Impl(CUDAGraph& target, const GraphOptions& options)
    : inside(GraphAccess::of(target, "graph")),
      use(inside),
      stream(options.stream.has_value() ? *options.stream : StreamRef(current_device(), nullptr)) {
  // Refused before anything is changed, and before the wait for the device.
  const StreamRef* given = options.stream.has_value() ? &stream : nullptr;
  inside.join_framework();
  const char* const call = inside.has_body ? "capture" : "graph";
  inside.require_can_begin(call, options, given);
  if (given != nullptr) graphs::require_no_capture(call, stream);
  graphs::synchronize_if_no_capture(stream.device());
  if (given == nullptr) stream = internal.emplace(stream.device()).ref();
  guard.emplace(stream);
  inside.owner->capture_begin(options);
  open = true;
}

void graph::Impl::end(const void* frame) {
  if (!open)
    throw UsageError(
        "graph::end needs a scope that is open, and this one was ended already: call it once, or leave it "
        "to the destructor.");
  try {
    inside.refuse_destroyed("graph::end");
    inside.end(frame);
  } catch (...) {
    // Else the call was refused: the capture goes on, and so does the scope.
    if (inside.left_here || inside.state != graphs::GraphState::capturing) close();
    throw;
  }
  close();
}

void graph::Impl::close() noexcept {
  if (!open) return;
  open = false;
  inside.owner->capture_abandon();
  guard.reset();
  internal.reset();
  use.reset();
}

graph::graph(CUDAGraph& cuda_graph, const GraphOptions& options) : impl_(std::make_unique<Impl>(cuda_graph, options)) {}

[[gnu::noinline]] graph::~graph() noexcept(false) {
  if (impl_->open && std::uncaught_exceptions() <= impl_->exceptions) impl_->end(__builtin_frame_address(0));
}

[[gnu::noinline]] void graph::end() {
  impl_->end(__builtin_frame_address(0));
}

StreamRef graph::stream() const {
  return impl_->stream;
}

namespace {

void capture_once(GraphAccess::Impl& inside, const GraphOptions& options, const CaptureBody& body) {
  inside.refuse_destroyed("capture");
  graph scope(*inside.owner, options);
  body(scope.stream());
  scope.end();
}

// Words that the body leaves unwritten show what other calls left there before. This leaves nothing that looks like an
// address, and something else each time.
[[gnu::noinline]] void overwrite_stack(unsigned char pattern) {
  std::array<unsigned char, std::size_t{128} * 1024> below;
  below.fill(pattern);
  asm volatile("" : : "r"(below.data()) : "memory");
}

/// Allows the options that run the body more than once, which only capture() can do.
class HasBody {
 public:
  explicit HasBody(GraphAccess::Impl& impl) : impl_(impl) { impl_.has_body = true; }
  ~HasBody() { impl_.has_body = false; }
  HasBody(const HasBody&) = delete;
  HasBody& operator=(const HasBody&) = delete;

 private:
  GraphAccess::Impl& impl_;
};

/// capture() in two passes.
///
///     dry run -> [GraphOptions::check_frozen_values is called] -> [the listeners are notified] -> capture
///
/// In the dry run the user's object has another inside, which is destroyed afterwards: the body finds its graph
/// capturing, and what it assigns in the end belongs to the graph that stays.
struct DryRun {
  using Impl = GraphAccess::Impl;

  DryRun(Impl& graph, const GraphOptions& wanted) : real(graph), options(wanted) {
    inside.has_body = true;
    inside.graph_id = real.graph_id;
    inside.hooks.leave_out_global();
  }
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  void run(const CaptureBody& body) {
    options.discard_template = false;
    options.hooks = {};
    try {
      const Exchanged exchanged(real, inside);
      capture_once(inside, options, body);
    } catch (...) {
      real.last_report = std::move(inside.last_report);
      throw;
    }
  }

  /// The captured graph is destroyed after this. Both graphs have the same listeners, unless a framework was installed
  /// right between them.
  void notify_and_release() {
    const auto ours = real.listeners.in_order(), theirs = inside.listeners.in_order();
    if (ours.size() != theirs.size())
      throw UsageError("A framework was installed while a graph was being captured: capture it again.");
    for (std::size_t i = 0; i < ours.size(); ++i) ours[i]->after_dry_run(*theirs[i]);
    stand_in.reset();
  }

  // A graph that was moved gets its inside back where it is; one that was destroyed has lost it.
  struct Exchanged {
    Exchanged(Impl& one, Impl& other) : a(one), b(other) { std::swap(*a.owner, *b.owner); }
    ~Exchanged() {
      if (!b.left_here) std::swap(*a.owner, *b.owner);
    }
    Exchanged(const Exchanged&) = delete;
    Exchanged& operator=(const Exchanged&) = delete;
    Impl& a;
    Impl& b;
  };

  Impl& real;
  GraphOptions options;
  CUDAGraph stand_in{KeepGraph::yes};  // needs no executable
  Impl& inside = *GraphAccess::impl(stand_in);
  const Impl::Use use_of_inside{inside};
};

void capture_twice(GraphAccess::Impl& inside, const GraphOptions& options, const CaptureBody& body) {
  inside.refuse_destroyed("capture");  // by a warm-up
  DryRun dry_run(inside, options);
  inside.require_can_begin("capture", options, nullptr);
  overwrite_stack(graphs::stack_pattern_of_dry_run);
  dry_run.run(body);
  if (options.check_frozen_values) options.check_frozen_values();
  dry_run.notify_and_release();
  overwrite_stack(graphs::stack_pattern_of_capture);
  capture_once(inside, options, body);
}

void capture_passes(GraphAccess::Impl& inside, const GraphOptions& options, const CaptureBody& body) {
  if (inside.needs_dry_run(options) == nullptr)
    capture_once(inside, options, body);
  else
    capture_twice(inside, options, body);
}

void capture_warmed_up(GraphAccess::Impl& inside, GraphOptions options, const CaptureBody& body) {
  const graphs::WarmUp warm_up(options, body);
  options.stream = warm_up.stream();
  capture_passes(inside, options, body);
}

CUDAGraph captured(const GraphOptions& options, const CaptureBody& body) {
  CUDAGraph made;
  capture(made, options, body);
  return made;
}

}  // namespace

CUDAGraph capture(const GraphOptions& options, CaptureBody body) {
  return captured(options, body);
}

CUDAGraph capture(CaptureBody body) {
  return captured({}, body);
}

CUDAGraph capture(const StreamRef& stream, CaptureBody body) {
  GraphOptions options;
  options.stream = stream;
  return captured(options, body);
}

CUDAGraph capture(Device device, CaptureBody body) {
  const DeviceGuard current(device);
  return captured({}, body);
}

void capture(CUDAGraph& cuda_graph, CaptureBody body) {
  capture(cuda_graph, GraphOptions{}, body);
}

void capture(CUDAGraph& cuda_graph, const GraphOptions& options, CaptureBody body) {
  constexpr const char* call = "capture";
  if (!body) throw UsageError("capture needs a body to run, and was passed an empty function.");
  GraphAccess::Impl& impl = GraphAccess::of(cuda_graph, call);
  const GraphAccess::Impl::Use use(impl);
  impl.join_framework();
  const HasBody has_body(impl);
  try {
    if (options.warmup == 0) {
      capture_passes(impl, options, body);
    } else {
      impl.require_can_begin(call, options, options.stream ? &*options.stream : nullptr);
      if (options.stream) graphs::require_no_capture(call, *options.stream);
      capture_warmed_up(impl, options, body);
    }
  } catch (...) {
    if (const auto* const framework = graphs::framework_captures()) framework->add_to_exception();
    throw;
  }
}

}  // namespace reprise
