// SPDX-License-Identifier: Apache-2.0
#include "reprise/capture.h"

#include <array>
#include <exception>
#include <utility>

#include "backend/objects/outside_work.h"
#include "backend/user_code.h"
#include "graph/capture/framework_captures.h"
#include "graph/capture/internal_streams.h"
#include "graph/capture/stack_patterns.h"
#include "graph/capture/warm_up.h"
#include "graph/cuda_graph_impl.h"
#include "graph/listeners/random_listener.h"
#include "memory/allocator_impl.h"
#include "reprise/detail/public_call.h"
#include "reprise/graph.h"
#include "text/format.h"

namespace reprise {

using graphs::GraphAccess;

/// The implementation of a scope: its resources, released in the reverse order by the destructors.
///
///     open -> closed    end() succeeded or failed with the capture over, or the scope was left
///
/// Refers to the graph's Impl: the graph itself may be moved, or destroyed, which end() reports.
///
/// Entered, used and left on one thread.
struct graph::Impl {
  Impl(CUDAGraph& target, const GraphOptions& options);
  ~Impl() { close(); }

  void end(const void* frame);  // as CUDAGraph::Impl::end()
  /// The user's call, for errors: of capture(), or of the scope. The scope may end with its object.
  const char* begin_call() const noexcept { return impl.body_call != nullptr ? impl.body_call : "graph"; }
  const char* end_call() const noexcept { return impl.body_call != nullptr ? impl.body_call : "graph::end"; }
  /// Abandons the capture if it is still underway; the current stream is as before the scope.
  void close() noexcept;

  GraphAccess::Impl& impl;
  std::optional<GraphAccess::Impl::Use> use;  // while open
  std::optional<graphs::InternalStream> internal;
  StreamRef stream;
  std::optional<StreamGuard> guard;
  std::optional<backend::OutsideWork> outside;  // while open
  bool open = false;
  const int exceptions = std::uncaught_exceptions();  // in flight when the scope was entered
};

graph::Impl::Impl(CUDAGraph& target, const GraphOptions& options)
    : impl(GraphAccess::of(target, "graph")),
      use(impl),
      stream(options.stream.has_value() ? *options.stream : StreamRef(current_device(), nullptr)) {
  // Refused before anything is changed, and before the wait for the device.
  const StreamRef* given = options.stream.has_value() ? &stream : nullptr;
  impl.join_framework();
  const char* const call = begin_call();
  const detail::PublicCall public_call(call);
  impl.require_can_begin(call, options, given);
  if (given != nullptr) graphs::require_no_capture(call, stream);
  CachingAllocator::of(stream.device()).impl().synchronize_if_no_capture();
  if (given == nullptr) stream = internal.emplace(stream.device()).ref();
  const StreamRef before = current_stream(stream.device());
  guard.emplace(stream);
  impl.begin_on_current_stream(call, options);
  outside.emplace(stream);
  outside->add_current(before);
  open = true;
}

void graph::Impl::end(const void* frame) {
  if (!open)
    throw UsageError(
        "graph::end needs an open scope, and this one was ended already: call it once, or leave it "
        "to the destructor.");
  const detail::PublicCall public_call(end_call());
  try {
    impl.refuse_destroyed(end_call());
    impl.end(end_call(), frame);
  } catch (...) {
    // While the graph is capturing, the call was refused: the capture continues, and so does the scope.
    if (impl.deferred_owner || impl.state != graphs::GraphState::capturing) close();
    throw;
  }
  close();
}

void graph::Impl::close() noexcept {
  if (!open) return;
  open = false;
  outside.reset();
  impl.owner->capture_abandon();
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

void capture_once(GraphAccess::Impl& impl, const GraphOptions& options, const CaptureBody& body) {
  impl.refuse_destroyed(impl.body_call);
  graph scope(*impl.owner, options);
  {
    const backend::UserCode user_code;
    body(scope.stream());
  }
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
  HasBody(GraphAccess::Impl& impl, const char* call) : impl_(impl), before_(std::exchange(impl.body_call, call)) {}
  ~HasBody() { impl_.body_call = before_; }
  HasBody(const HasBody&) = delete;
  HasBody& operator=(const HasBody&) = delete;

 private:
  GraphAccess::Impl& impl_;
  const char* const before_;  // in a body that captures into its own graph, which is refused
};

// capture() in two passes.
//
//     dry run -> GraphOptions::check_frozen_values is called -> the listeners inherit from it -> capture
//
// In the dry run the user's object has another Impl, which is destroyed afterwards: the body finds its graph capturing,
// and what it assigns in the end belongs to the graph that stays.
void capture_twice(GraphAccess::Impl& impl, const GraphOptions& options, const CaptureBody& body) {
  impl.refuse_destroyed(impl.body_call);  // by a warm-up
  CUDAGraph stand_in(KeepGraph::yes);     // needs no executable
  GraphAccess::Impl& dry = *GraphAccess::impl(stand_in);
  const GraphAccess::Impl::Use use(dry);
  dry.body_call = impl.body_call;
  dry.graph_id = impl.graph_id;
  dry.hooks.leave_out_global();
  dry.listeners.inherit(impl.listeners);
  impl.require_can_begin(impl.body_call, options, nullptr);
  GraphOptions of_dry_run = options;
  of_dry_run.discard_template = false;
  of_dry_run.hooks = {};
  overwrite_stack(graphs::stack_pattern_of_dry_run);
  try {
    const GraphAccess::Impl::ExchangedImpls exchanged(impl, dry);
    capture_once(dry, of_dry_run, body);
  } catch (...) {
    impl.last_report = std::move(dry.last_report);
    throw;
  }
  {
    const backend::UserCode user_code;
    options.check_frozen_values();
  }
  impl.listeners.inherit(dry.listeners);
  stand_in.reset();
  overwrite_stack(graphs::stack_pattern_of_capture);
  capture_once(impl, options, body);
}

void capture_passes(GraphAccess::Impl& impl, const GraphOptions& options, const CaptureBody& body) {
  if (options.check_frozen_values)
    capture_twice(impl, options, body);
  else
    capture_once(impl, options, body);
}

void capture_warmed_up(GraphAccess::Impl& impl, GraphOptions options, const CaptureBody& body) {
  const StreamRef before = current_stream();
  GraphOptions of_warm_up = options;
  const auto& registered = impl.listeners.random().registered();
  of_warm_up.generators.insert(of_warm_up.generators.end(), registered.begin(), registered.end());
  const graphs::WarmUp warm_up(of_warm_up, body, impl.listeners.framework());
  options.stream = warm_up.stream();
  backend::OutsideWork outside(*options.stream);
  outside.add_current(before);
  capture_passes(impl, options, body);
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
  GraphAccess::of(cuda_graph, call).capture_body(call, options, body);
}

void CUDAGraph::Impl::capture_body(const char* call, const GraphOptions& wanted, const CaptureBody& body) {
  if (!body) throw UsageError(text::format("{} needs a body to run, and was passed an empty function.", call));
  const detail::PublicCall public_call(call);
  const Use use(*this);
  join_framework();
  const HasBody has_body(*this, call);
  try {
    if (wanted.warmup == 0) {
      capture_passes(*this, wanted, body);
    } else {
      require_can_begin(call, wanted, wanted.stream ? &*wanted.stream : nullptr);
      if (wanted.stream) graphs::require_no_capture(call, *wanted.stream);
      capture_warmed_up(*this, wanted, body);
    }
  } catch (...) {
    if (const auto* const framework = graphs::framework_captures()) framework->add_to_exception();
    throw;
  }
}

}  // namespace reprise
