// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "backend/capture_query.h"
#include "backend/check.h"
#include "backend/objects/outside_work.h"
#include "captures/registry.h"
#include "graph/capture/internal_streams.h"
#include "graph/cuda_graph_impl.h"
#include "graph/graph_names.h"
#include "graph/listeners/child_listener.h"
#include "graph/replays.h"
#include "memory/allocator_impl.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

// Making the executable of a CUDAGraph, and launching it.

namespace reprise {

using backend::Call;
using backend::Checked;
using backend::RelaxedCaptureMode;
using backend::Result;
using backend::WarnOnError;

namespace {

// Off the fast path. A launch on a stream that is capturing would break that capture.
[[gnu::noinline]] void refuse_capturing(const char* call, const StreamRef& stream, const std::string& name) {
  const detail::PublicCall public_call(call);
  if (!backend::captures_work(stream)) return;
  throw UsageError(text::format(
      "{}{}: the stream is being captured, and the call cannot be recorded. Use a stream that takes no part "
      "in a capture; in an intact capture of this library, CUDAGraph::replay() "
      "and add_child() add the graph as a child. The capture continues.",
      call, graphs::of_graph(name)));
}

}  // namespace

void CUDAGraph::Impl::require_success(Call call, const Result& result, SourceLocation where) const {
  if (result.failed()) [[unlikely]]
    backend::raise(backend(), call, result, where, graphs::graph_text(options.name));
}

void CUDAGraph::Impl::make_executable(StreamHandle upload_stream) {
  backend::Backend& runtime = backend();
  // Instantiating is a potentially unsafe call in the captures of others.
  const RelaxedCaptureMode relaxed(runtime);
  graphs::CopiesOfDevices copies = changes.copies_of_devices(runtime, template_graph);
  GraphExecHandle made = nullptr;
  Result result = runtime.graph_instantiate(&made, template_graph, options.instantiate_flags, upload_stream);
  if (result == ErrorCode::not_supported && exec != nullptr) {
    // A template with allocation or conditional nodes has one executable at a time.
    WarnOnError(runtime).graph_exec_destroy(std::exchange(exec, nullptr));
    counted.executable_destroyed();
    state = State::captured;
    result = runtime.graph_instantiate(&made, template_graph, options.instantiate_flags, upload_stream);
  }
  require_success(Call::graph_instantiate, result);
  try {
    changes.disable_in(runtime, template_graph, made);
  } catch (...) {
    WarnOnError(runtime).graph_exec_destroy(made);
    throw;
  }
  if (exec != nullptr) WarnOnError(runtime).graph_exec_destroy(exec);
  exec = made;
  changes.executable_made(std::move(copies));
  counted.instantiated();
  // The upload may still be running, and then holds on to the executable.
  if ((options.instantiate_flags & InstantiateFlags::upload) != InstantiateFlags::none) in_use_elsewhere = true;
}

void CUDAGraph::Impl::notify_instantiated(const char* call) {
  const graphs::NamedThread calling(hook_thread);
  for (graphs::CaptureListener* const listener : of_executables) listener->instantiated(template_graph, exec);
  hooks.instantiated(exec);
  refuse_destroyed(call);
}

void CUDAGraph::Impl::make_ready() {
  std::optional<graphs::InternalStream> upload_stream;
  if ((options.instantiate_flags & InstantiateFlags::upload) != InstantiateFlags::none) upload_stream.emplace(*device);
  make_executable(upload_stream ? upload_stream->ref().native() : nullptr);
  state = State::ready;
}

void CUDAGraph::Impl::instantiate(const char* call) {
  make_ready();
  notify_instantiated(call);
}

namespace {

[[noreturn]] void refuse_in_destructor(const char* call, const std::string& name) {
  throw UsageError(text::format(
      "{}{} was called by the destructor of an object that another call of the same graph released on this "
      "thread, such as reset() or the end of the graph: expected a call that only queries the graph; do it before or "
      "after that call.",
      call, graphs::of_graph(name)));
}

[[noreturn]] void refuse_in_hook(const char* call, const std::string& name) {
  throw UsageError(
      text::format("{}{} was called within a hook of the same graph, which may only query it, add or remove hooks, "
                   "and retain or release objects: do it after the call that ran the hook.",
                   call, graphs::of_graph(name)));
}

}  // namespace

void CUDAGraph::Impl::refuse_in_own_hook(const char* call) const {
  if (!in_own_hook()) [[likely]]
    return;
  if (graphs::hook_runs_on_this_thread()) refuse_in_hook(call, options.name);
  refuse_in_destructor(call, options.name);
}

void CUDAGraph::Impl::refuse_while_hook_runs(const char* call) const {
  refuse_in_own_hook(call);
  if (hook_runs()) [[unlikely]]
    refuse_in_hook(call, options.name);
}

void CUDAGraph::Impl::refuse_reserved(const char* call) const {
  if (reserved_for != nullptr) [[unlikely]]
    throw UsageError(text::format("{}{}: the graph belongs to {}, which launches and releases it. Call that instead.",
                                  call, graphs::of_graph(options.name), *reserved_for));
}

[[gnu::cold]] void CUDAGraph::Impl::refuse_device(const char* call, const StreamRef& stream) const {
  throw UsageError(text::format("{}{}: the stream is of device {}, but the graph was captured on {}.", call,
                                graphs::of_graph(options.name), stream.device().str(), device->str()));
}

[[gnu::cold]] void CUDAGraph::Impl::instantiate_for(const char* call) {
  const detail::PublicCall public_call(call);
  instantiate(call);
}

// What a replay executes is [[gnu::hot]], here and where it calls other files: the linker puts such functions side by
// side, and after a launch their pages must be found anew.
[[gnu::hot]] void CUDAGraph::Impl::prepare_launch(const char* call, const StreamRef& stream) {
  if (stream.device() != *device) [[unlikely]]
    refuse_device(call, stream);
  if (captures::any_underway()) [[unlikely]]
    refuse_capturing(call, stream, options.name);
  if (exec == nullptr) [[unlikely]]
    instantiate_for(call);
  if (!in_use_elsewhere.load(std::memory_order_relaxed)) in_use_elsewhere.store(true, std::memory_order_relaxed);
}

[[gnu::hot]] void CUDAGraph::Impl::replay(const StreamRef* stream) try {
  constexpr const char* call = "CUDAGraph::replay";
  refuse_in_own_hook(call);
  refuse_reserved(call);
  const std::lock_guard lock(launch_mutex);
  require_captured(call);
  const StreamRef on = stream != nullptr ? *stream : current_stream(*device);
  if (captures::any_underway() && become_child(call, on)) [[unlikely]]
    return;
  prepare_launch(call, on);
  launch(call, on);
} catch (...) {
  destroy_if_deferred();
  throw;
}

std::exception_ptr CUDAGraph::Impl::replay_changed(const StreamRef& stream,
                                                   const std::function<void(GraphExecHandle)>& change) try {
  constexpr const char* call = "CUDAGraph::replay";
  refuse_in_own_hook(call);
  std::exception_ptr thrown;
  {
    const std::lock_guard lock(launch_mutex);
    require_captured(call);
    backend::OutsideWork::require_none(stream, call);
    prepare_launch(call, stream);
    change(exec);
    thrown = thrown_after_launch([&] { launch(call, stream); });
  }
  if (thrown != nullptr) destroy_if_deferred();
  return thrown;
} catch (...) {
  destroy_if_deferred();
  throw;
}

[[gnu::hot]] inline void CUDAGraph::Impl::launch(const char* call, const StreamRef& stream) {
  if (!replays_notify && !graphs::global_hooks_in_replays.load(std::memory_order_relaxed)) [[likely]]
    launch_executable(call, stream);
  else
    replay_with_listeners(call, stream);
}

[[gnu::hot]] void CUDAGraph::Impl::launch_executable(const char* call, const StreamRef& stream) {
  resources.launch(stream, [&] {
    const Result result = backend().graph_launch(exec, stream.native());
    if (result.failed()) [[unlikely]]
      raise_launch(call, result);
  });
  if (launches++ == 0) [[unlikely]]
    note_first_launch();
}

// For texts that say what was not replayed yet.
void CUDAGraph::Impl::note_first_launch() const noexcept {
  if (device->type() != DeviceType::host) return;
  CachingAllocator::Impl& allocator = CachingAllocator::of(*device).impl();
  allocator.pool_launched(pool);
  for (const MempoolId of_child : listeners.children().pools()) allocator.pool_launched(of_child);
}

// The call is named here, not around the launch: a replay that succeeds does nothing for it.
[[gnu::cold]] void CUDAGraph::Impl::raise_launch(const char* call, const Result& result) const {
  const detail::PublicCall public_call(call);
  require_success(Call::graph_launch, result);
}

[[gnu::hot]] void CUDAGraph::Impl::replay_with_listeners(const char* call, const StreamRef& stream) {
  const detail::PublicCall public_call(call);
  const graphs::NamedThread calling(hook_thread);
  if (hooks.none_in_replays()) [[likely]]
    launch_with_listeners(call, stream);
  else
    replay_with_hooks(call, stream);
  refuse_destroyed(call);
}

void CUDAGraph::Impl::replay_with_hooks(const char* call, const StreamRef& stream) {
  // Hooks, then from the last listener to the first, and back: hooks run outside the checks and the draws.
  graphs::HookedReplay hooked(hooks, stream);
  try {
    hooked.before();
    refuse_destroyed(call);
    launch_with_listeners(call, stream);
  } catch (...) {
    hooked.failed();
    throw;
  }
  hooked.launched();
}

[[gnu::hot]] void CUDAGraph::Impl::launch_with_listeners(const char* call, const StreamRef& stream) {
  const std::size_t count = in_replays.size();
  std::size_t waiting = count;  // of those from here on, before_replay() has returned
  try {
    for (; waiting > 0; --waiting) in_replays[waiting - 1]->before_replay(stream);
    launch_executable(call, stream);
  } catch (...) {
    for (; waiting < count; ++waiting) in_replays[waiting]->replay_failed();
    throw;
  }
  for (std::size_t i = 0; i < count; ++i) in_replays[i]->replayed(stream);
}

void CUDAGraph::Impl::upload(const StreamRef& stream) {
  constexpr const char* call = "CUDAGraph::upload";
  const detail::PublicCall public_call(call);
  const Use use(*this);
  refuse_in_own_hook(call);
  const std::lock_guard lock(launch_mutex);
  require_captured(call);
  prepare_launch(call, stream);
  require_success(Call::graph_upload, backend().graph_upload(exec, stream.native()));
}

void CUDAGraph::instantiate() {
  constexpr const char* call = "CUDAGraph::instantiate";
  const detail::PublicCall public_call(call);
  Impl& impl = Impl::of(*this, call);
  const Impl::Use use(impl);
  impl.require_keep_graph(call);
  impl.refuse_in_own_hook(call);
  const std::lock_guard lock(impl.launch_mutex);
  impl.require_captured(call);
  impl.changes.forget();  // the template may have been edited
  impl.parameters.forget();
  impl.instantiate(call);
}

void CUDAGraph::upload(const StreamRef& stream) {
  Impl::of(*this, "CUDAGraph::upload").upload(stream);
}

[[gnu::hot]] void CUDAGraph::replay() {
  Impl::of(*this, "CUDAGraph::replay").replay(nullptr);
}

[[gnu::hot]] void CUDAGraph::replay(const StreamRef& stream) {
  Impl::of(*this, "CUDAGraph::replay").replay(&stream);
}

[[gnu::hot]] std::exception_ptr graphs::replay_in_order(memory::LastLaunch& last, CUDAGraph& graph,
                                                        const StreamRef& stream) {
  const GraphAccess::Impl& impl = GraphAccess::of(graph, "CUDAGraph::replay");
  std::exception_ptr thrown;
  last.launch(stream, [&] { thrown = impl.thrown_after_launch([&] { graph.replay(stream); }); });
  return thrown;
}

std::exception_ptr graphs::replay_changed(CUDAGraph& graph, const StreamRef& stream,
                                          const std::function<void(GraphExecHandle)>& change) {
  return GraphAccess::of(graph, "CUDAGraph::replay").replay_changed(stream, change);
}

void graphs::reserve(CUDAGraph& graph, std::string owner) {
  GraphAccess::of(graph, "reserve").reserved_for = std::make_unique<const std::string>(std::move(owner));
}

}  // namespace reprise
