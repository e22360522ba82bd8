// SPDX-License-Identifier: Apache-2.0
#include "reprise/control_flow.h"

#include <array>
#include <bit>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/capture_query.h"
#include "backend/captures_underway.h"
#include "backend/check.h"
#include "backend/condition_record.h"
#include "backend/monitor.h"
#include "backend/own_kernels.h"
#include "backend/user_code.h"
#include "captures/registry.h"
#include "graph/capture/active_capture.h"
#include "graph/capture/kept_objects.h"
#include "graph/control_flow/body_nodes.h"
#include "graph/listeners/child_listener.h"
#include "kernels/condition_kernel.h"
#include "memory/device_words.h"
#include "reprise/detail/public_call.h"
#include "text/format.h"

namespace reprise {

using backend::Checked;
using backend::ConditionalType;
using backend::LoopState;

/// The words of a loop, which its graph holds, too.
struct graphs::LoopMemory {
  Device device;
  memory::DeviceWords words;

  LoopState* state() const { return reinterpret_cast<LoopState*>(words.get()); }
};

namespace {

// The arguments of one call of the functions below.
struct Request {
  const char* call;
  StreamRef stream;
  const std::uint32_t* condition;
  ConditionalType type;
  std::span<const CaptureBody> bodies;
  LoopState* loop = nullptr;
  std::uint32_t limit = 0;

  bool repeats() const { return type == ConditionalType::while_; }
};

void require_usable(const Request& request) {
  const char* const call = request.call;
  if (request.bodies.empty()) throw UsageError(text::format("{} needs at least one body, and was passed none.", call));
  for (std::size_t i = 0; i < request.bodies.size(); ++i)
    if (!request.bodies[i])
      throw UsageError(text::format("{} needs bodies to capture, and number {} is an empty function.", call, i));
  const auto address = std::bit_cast<std::uintptr_t>(request.condition);
  if (address == 0 || address % alignof(std::uint32_t) != 0)
    throw UsageError(
        text::format("{} expected the address of a condition in device memory, a multiple of 4, which the device reads "
                     "in each replay; found {}.",
                     call, static_cast<const void*>(request.condition)));
  if (request.stream.device().type() == DeviceType::host) return;
  if (request.type == ConditionalType::switch_ || request.bodies.size() > 1)
    if (const std::string& why = backend::branches_unavailable(); !why.empty())
      throw UsageError(text::format("{}: {}. Nothing was captured.", call, why));
  if (const std::string& why = backend::condition_kernel_unavailable(); !why.empty())
    throw UsageError(
        text::format("{} needs a kernel of this library on a CUDA device, which reads the condition; {}.", call, why));
}

// Every device can read pinned memory.
void require_readable_condition(const Request& request) {
  const Device& device = request.stream.device();
  const backend::PointerInfo info =
      Checked(device.backend()).allowing(ErrorCode::invalid_value).info_of(request.condition);
  if (info.kind == backend::MemoryKind::pinned ||
      (info.kind == backend::MemoryKind::device && info.device_index == device.index()))
    return;
  throw UsageError(text::format(
      "{} expected a condition that kernels of device {} can read; found {}, {}. Take memory of that device, or pinned "
      "memory (HostBuffer). Nothing was captured, and the capture continues.",
      request.call, device.str(), static_cast<const void*>(request.condition),
      info.kind == backend::MemoryKind::device
          ? text::format("in memory of the device with the number {}", info.device_index)
          : std::string("in pageable memory of the host, or of another runtime")));
}

captures::Found require_capture(const Request& request) {
  captures::Found found = captures::find(request.stream);
  if (found.part == captures::Part::invalidated) captures::refuse_broken("control flow for");
  if (found.part != captures::Part::own)
    throw UsageError(
        text::format("{}: the stream takes part in no capture that this library began, and only a graph has control "
                     "flow on the device. Call it within capture() or the scope graph.",
                     request.call));
  require_readable_condition(request);
  const graphs::ActiveCapture::Use active(*found.capture);
  if (active && active->bodies().has_body_on(request.stream, found.info.id))
    throw UsageError(
        text::format("{} was called for the enclosing stream of the body that is being captured, and would not be part "
                     "of it. Pass the body's own stream, or call it without a stream. The capture "
                     "continues.",
                     request.call));
  return found;
}

// Submits the kernel that sets the condition.
// \param begins before the node; false: at the end of a body that repeats.
void launch_setter(const Request& request, backend::ConditionalHandle handle, const StreamRef& stream, bool begins) {
  backend::Backend& backend = stream.device().backend();
  const std::uint32_t* condition = request.condition;
  LoopState* loop = request.loop;
  std::uint32_t limit = request.limit, first = begins ? 1 : 0;
  std::array<void*, 5> arguments{&handle, &condition, &loop, &limit, &first};
  backend::KernelNodeParams params;
  Checked(backend).kernel_function(backend::condition_record(), &params.function);
  params.params = arguments.data();
  Checked(backend).launch_kernel(params, stream.native());
}

struct ConditionalNode {
  GraphNodeHandle node = nullptr;
  GraphHandle graph = nullptr;  // that it is in
  backend::ConditionalHandle handle = 0;
  std::vector<GraphHandle> bodies = {};
};

// The next node of the stream, after the kernel that sets its condition.
ConditionalNode add_node(const Request& request, GraphHandle graph) {
  const Checked runtime(request.stream.device().backend());
  ConditionalNode made;
  made.graph = graph;
  runtime.graph_conditional_handle_create(&made.handle, graph, 0);
  launch_setter(request, made.handle, request.stream, true);
  const backend::CaptureInfo info = backend::capture_info(request.stream);
  const std::vector<GraphNodeHandle> dependencies(info.dependencies.begin(), info.dependencies.end());
  const std::vector<backend::EdgeData> edges(info.edges.begin(), info.edges.end());
  backend::NodeParams params =
      backend::ConditionalNodeParams{made.handle, request.type, static_cast<unsigned>(request.bodies.size())};
  runtime.graph_add_node(&made.node, graph, {dependencies, edges}, params);
  made.bodies = std::get<backend::ConditionalNodeParams>(params).bodies;
  runtime.stream_update_capture_dependencies(request.stream.native(), {&made.node, 1},
                                             backend::UpdateDependencies::set);
  return made;
}

// The capture of one body, from its beginning until end(). Destroyed before, it drops the runtime's capture.
class BodyCapture {
 public:
  BodyCapture(const Request& request, const captures::Found& found, const ConditionalNode& made, std::size_t number)
      : request_(request), capture_(found.capture), node_(made.node), stream_(request.stream) {
    begin(found, made.bodies[number]);
    underway_ = true;
    backend::bodies_underway.fetch_add(1, std::memory_order_relaxed);
    try {
      register_body(found, made, number);
    } catch (...) {
      drop();
      throw;
    }
  }
  ~BodyCapture() { drop(); }
  BodyCapture(const BodyCapture&) = delete;
  BodyCapture& operator=(const BodyCapture&) = delete;

  const StreamRef& stream() const noexcept { return stream_; }
  /// Sets the condition again if the body repeats, unless the body broke its capture, of which end() throws.
  /// \throws UsageError if the whole capture has ended.
  void set_condition(backend::ConditionalHandle handle) const {
    const auto owner = active();
    if (request_.repeats() && stream_.capture_status() == CaptureStatus::active)
      launch_setter(request_, handle, stream_, false);
  }

  void end() {
    active()->body_ends(*body_);
    backend::Backend& backend = stream_.device().backend();
    const backend::CaptureFindings findings = backend.monitor().describe_capture(stream_.native());
    over();
    const std::optional<ErrorCode> result = active()->bodies().end(stream_);
    if (!result) refuse_ended();
    if (*result != ErrorCode::success) throw active()->body_failure(request_.call, findings, *result);
    if (capture_->stream().capture_status() == CaptureStatus::invalidated)
      throw active()->failure(backend.monitor().describe_capture(capture_->stream().native()),
                              ErrorCode::stream_capture_invalidated);
    active()->add_inner_nodes(findings.nodes.value_or(0));
    graphs::require_nothing_beside(request_.call, request_.stream, node_);
    // A loop has the kernel that sets its condition again.
    graphs::require_body_nodes(backend, request_.call, body_->graph,
                               capture_->allows_empty() ? 0
                               : request_.repeats()     ? 2
                                                        : 1);
  }

 private:
  [[noreturn]] void refuse_ended() const {
    throw UsageError(
        text::format("{}: the capture ended while its body was being captured: end it after the call.", request_.call));
  }

  graphs::ActiveCapture::Use active() const {
    graphs::ActiveCapture::Use found(*capture_);
    if (!found) refuse_ended();
    return found;
  }

  void begin(const captures::Found& found, GraphHandle graph) {
    const auto owner = active();
    graphs::Bodies& bodies = owner->bodies();
    stream_ = bodies.stream_for(request_.stream, found.info.id, request_.repeats());
    bodies.opened(stream_, found.body);  // before it begins: this needs memory
    try {
      // Relaxed: what is unsafe during captures breaks the one around alone, so that the body's can be ended (Bodies).
      Checked(stream_.device().backend())
          .stream_begin_capture_to_graph(stream_.native(), graph, {}, CaptureMode::relaxed);
    } catch (...) {
      bodies.not_begun(stream_);
      throw;
    }
  }

  void register_body(const captures::Found& found, const ConditionalNode& made, std::size_t number) {
    auto body = std::make_shared<captures::Body>(captures::Body{
        backend::capture_info(stream_).id, stream_, made.bodies[number], made.node, made.graph, found.body,
        request_.repeats(), request_.loop != nullptr ? &request_.loop->iterations : nullptr, request_.limit});
    body_ = body;
    capture_->add_body(std::move(body));
    active()->body_began(*body_);
  }

  // False if the capture of the body was over already.
  bool over() noexcept {
    if (!std::exchange(underway_, false)) return false;
    backend::bodies_underway.fetch_sub(1, std::memory_order_relaxed);
    if (body_ != nullptr) capture_->body_ends(*body_);
    return true;
  }
  // Called before the runtime forgets what broke the capture. The exception that leaves the body is the user's.
  void report_if_broken(const graphs::ActiveCapture::Use& active) noexcept try {
    const backend::CaptureFindings findings = stream_.device().backend().monitor().describe_capture(stream_.native());
    if (findings.broken_by) active->body_broke(findings);
  } catch (...) {
    warn("There was no memory for the report of a capture of a body.");
  }
  void drop() noexcept {
    if (!over()) return;
    if (const graphs::ActiveCapture::Use active(*capture_); active) {
      report_if_broken(active);
      active->bodies().drop_body(stream_);
      if (body_ != nullptr) active->body_abandoned(*body_);
    }
  }

  const Request& request_;
  const std::shared_ptr<captures::Capture> capture_;
  const GraphNodeHandle node_;
  StreamRef stream_;
  std::shared_ptr<const captures::Body> body_;
  bool underway_ = false;
};

void capture_body(const Request& request, const captures::Found& found, const ConditionalNode& made,
                  std::size_t number) {
  BodyCapture capture(request, found, made, number);
  {
    const StreamGuard current(capture.stream());
    const backend::UserCode user_code;
    request.bodies[number](capture.stream());
  }
  capture.set_condition(made.handle);
  capture.end();
}

[[noreturn]] void refuse_over(const Request& request) {
  throw UsageError(text::format("{}: the capture is over: call it before its end.", request.call));
}

void capture_conditional(const Request& request) {
  const captures::Found found = require_capture(request);
  const ConditionalNode made = [&] {
    const graphs::ActiveCapture::Use active(*found.capture);
    if (!active) refuse_over(request);
    active->bodies().begin_addition();
    return add_node(request, found.info.graph);
  }();
  for (std::size_t i = 0; i < request.bodies.size(); ++i) capture_body(request, found, made, i);
  if (const graphs::ActiveCapture::Use active(*found.capture); active) active->bodies().end_addition();
}

void capture_branches(const char* call, const StreamRef& stream, const std::uint32_t* condition, ConditionalType type,
                      std::span<const CaptureBody> bodies) {
  const detail::PublicCall public_call(call);
  const Request request{call, stream, condition, type, bodies};
  require_usable(request);
  capture_conditional(request);
}

// Words of a loop are no part of the graph's pool, so that they can be cleared at once.
std::shared_ptr<graphs::LoopMemory> cleared_memory(const Device& device) {
  auto made = std::make_shared<graphs::LoopMemory>(
      graphs::LoopMemory{device, memory::allocate_hidden_words(sizeof(LoopState), device)});
  const StreamRef stream = memory::stream_of_words(device);
  const backend::RelaxedCaptureMode relaxed(device.backend());
  const Checked runtime(device.backend());
  runtime.set_async({made->words.get(), 0, 1, sizeof(LoopState)}, stream.native());
  runtime.stream_synchronize(stream.native());
  return made;
}

// The words that the graph of the capture holds for its next loop: those of an earlier capture, if there are any.
std::shared_ptr<graphs::LoopMemory> words_of_next_loop(const Request& request, captures::Capture& capture) {
  const auto loops = graphs::CaptureChildren::of(capture);
  const auto kept = graphs::KeptObjects::of(capture);
  if (loops == nullptr || kept == nullptr) refuse_over(request);
  const Device& device = request.stream.device();
  graphs::CaptureChildren::LoopWords loop = loops->next_loop();
  auto words = std::static_pointer_cast<graphs::LoopMemory>(loop.words);
  if (words == nullptr || words->device != device) loop.words = words = cleared_memory(device);
  loops->set_words(loop);
  kept->keep(words);
  return words;
}

}  // namespace

void if_(const StreamRef& stream, const std::uint32_t* condition, CaptureBody body) {
  capture_branches("if_", stream, condition, ConditionalType::if_, {&body, 1});
}

void if_(const std::uint32_t* condition, CaptureBody body) {
  if_(current_stream(), condition, body);
}

void if_else(const StreamRef& stream, const std::uint32_t* condition, CaptureBody body, CaptureBody otherwise) {
  capture_branches("if_else", stream, condition, ConditionalType::if_, std::array{body, otherwise});
}

void if_else(const std::uint32_t* condition, CaptureBody body, CaptureBody otherwise) {
  if_else(current_stream(), condition, body, otherwise);
}

void switch_(const StreamRef& stream, const std::uint32_t* index, std::span<const CaptureBody> bodies) {
  capture_branches("switch_", stream, index, ConditionalType::switch_, bodies);
}

void switch_(const StreamRef& stream, const std::uint32_t* index, std::initializer_list<CaptureBody> bodies) {
  switch_(stream, index, std::span<const CaptureBody>(bodies.begin(), bodies.size()));
}

void switch_(const std::uint32_t* index, std::span<const CaptureBody> bodies) {
  switch_(current_stream(), index, bodies);
}

void switch_(const std::uint32_t* index, std::initializer_list<CaptureBody> bodies) {
  switch_(current_stream(), index, bodies);
}

Loop while_(const StreamRef& stream, const std::uint32_t* condition, LoopBody body, const LoopOptions& options) {
  const detail::PublicCall public_call("while_");
  Loop loop;
  const auto with_loop = [&](const StreamRef& inside) { body(inside, loop); };
  const CaptureBody inner = body ? CaptureBody(with_loop) : CaptureBody(nullptr);
  Request request{"while_", stream, condition, ConditionalType::while_, {&inner, 1}, nullptr, options.max_iterations};
  require_usable(request);
  const auto words = words_of_next_loop(request, *require_capture(request).capture);
  request.loop = words->state();
  loop = Loop(words);
  capture_conditional(request);
  return loop;
}

Loop while_(const std::uint32_t* condition, LoopBody body, const LoopOptions& options) {
  return while_(current_stream(), condition, std::move(body), options);
}

namespace {

[[noreturn]] void refuse_empty_loop(const char* call) {
  throw UsageError(
      text::format("{} was called on a Loop that was not made by while_: assign what that returns, or "
                   "take the Loop as an argument of its body.",
                   call));
}

}  // namespace

Loop::Run Loop::last_run(const StreamRef& stream) const {
  constexpr const char* call = "Loop::last_run";
  const detail::PublicCall public_call(call);
  if (memory_ == nullptr) refuse_empty_loop(call);
  if (stream.device() != memory_->device)
    throw UsageError(text::format("{}: the stream is of device {}, but the loop was captured on {}.", call,
                                  stream.device().str(), memory_->device.str()));
  graphs::require_no_capture(call, stream);
  LoopState found{};
  copy_async(&found, memory_->state(), sizeof(found), stream);
  stream.synchronize();
  return {found.iterations, found.stopped != 0};
}

Loop::Run Loop::last_run() const {
  if (memory_ == nullptr) refuse_empty_loop("Loop::last_run");
  return last_run(current_stream(memory_->device));
}

const std::uint32_t* Loop::iterations() const {
  if (memory_ == nullptr) refuse_empty_loop("Loop::iterations");
  return &memory_->state()->iterations;
}

}  // namespace reprise
