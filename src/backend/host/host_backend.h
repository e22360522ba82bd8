// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "backend/backend.h"
#include "backend/host/capture/host_capture.h"
#include "backend/host/host_runtime.h"
#include "backend/monitor.h"
#include "backend/result.h"
#include "support/forked.h"

namespace reprise::backend::host {

/// The backend interface on a simulated device. Each call: return an error if the thread is executing an operation or
/// the device has a sticky error; return an injected failure if one is due; lock the runtime, check the capture rules,
/// act. The calls are spread over host_backend_*.cpp by subject.
///
/// As its own monitor it sees all calls in any case; watching them notes more.
class HostBackend final : public Backend, public Monitor {
 public:
  HostBackend(HostRuntime& runtime, HostDevice& device, bool of_simulator = false)
      : Backend(of_simulator), runtime_(runtime), device_(device) {
    device.backend = this;
  }

  DeviceType type() const noexcept override { return DeviceType::host; }
  int index() const noexcept override { return device_.index(); }
  std::string device_name() const override { return "simulated host device"; }
  Monitor& monitor() noexcept override { return *this; }
  CaptureFindings describe_capture(StreamHandle stream) const override;
  std::shared_ptr<void> watch_calls(std::string* why) override;
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec, std::string* why) override;
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle template_graph, GraphExecHandle exec,
                                                                  std::string* why) override;
#define REPRISE_CALL(name, cuda, parameters, arguments) Result name parameters override;
#include "backend/calls.def"

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Runs a call's body with the runtime locked, unless the call is to fail. A body that finds no memory of the host,
  /// or no thread for its work, must not have changed anything.
  template <class Body>
  Result enter(Call call, Body&& body) {
    try {
      if (Result refused = refuse_caller(); refused.failed()) [[unlikely]]
        return refused;
      Result result = injected(call);
      Lock lock(runtime_.mutex);
      const bool is_watched = runtime_.watchers > 0;  // the body may unlock
      if (!result.failed()) [[likely]]
        result = std::forward<Body>(body)(lock);
      if (result.failed() || is_watched) [[unlikely]]
        finish(lock, call, result);
      return result;
    } catch (...) {
      return lacks_resources();
    }
  }
  /// The same for a call on a stream, which the body gets: a call that its capture rules refuse does not reach the
  /// body.
  template <class Body>
  Result enter_stream(Call call, StreamHandle handle, const Body& body) {
    return enter(call, [&](Lock& lock) -> Result {
      HostStream* const stream = find(handle);
      if (stream == nullptr) return bad_handle("stream");
      if (Result rule = check(call, stream); rule.failed()) return rule;
      return body(lock, *stream);
    });
  }
  /// The same for a call on a graph, an executable or a node, which the body gets. \param what the handle is of.
  template <class Handle, class Body>
  Result enter_on(Call call, Handle handle, const char* what, const Body& body) {
    return enter(call, [&](Lock&) -> Result {
      auto* const found = runtime_.find(handle);
      if (found == nullptr) return no_such(what);
      return body(*found);
    });
  }
  /// The same without the lock, for a call that any thread may make, of what never changes or is the thread's own.
  template <class Body>
  Result enter_unlocked(Call call, Body&& body) {
    Result result = support::forked() ? refuse_caller() : injected(call);
    if (!result.failed()) result = std::forward<Body>(body)();
    return result;
  }
  /// For the reports of captures: notes the call, if calls are watched, and completes what it left there.
  void finish(Lock& lock, Call call, const Result& result) const noexcept;
  /// Returns the result for the exception that is being handled: no host memory, no thread. Rethrows others.
  static Result lacks_resources();
  /// Refuses threads that execute an operation, all threads once the device is broken, and child processes.
  Result refuse_caller() const;
  /// The code of an injected failure, if it falls on this call; else success.
  Result injected(Call call) const {
    return runtime_.failures.any() ? next_failure(call) : Result(ErrorCode::success);
  }
  [[gnu::noinline]] Result next_failure(Call call) const;
  /// Applies the capture rules to a call.
  Result check(Call call, HostStream* stream = nullptr, HostEvent* event = nullptr, bool external = false) const {
    return check_capture_rules(runtime_, {call, &device_, stream, event, external});
  }
  static Result fail(ErrorCode result, std::string detail) {
    return {result, std::move(detail)};
  }
  /// As CUDA, which says invalid_handle of streams, events and functions, and invalid_value of all others.
  static Result no_such(const char* what, ErrorCode code = ErrorCode::invalid_value);
  static Result bad_handle(const char* what) {
    return no_such(what, ErrorCode::invalid_handle);
  }

  HostStream* find(StreamHandle stream) const {
    return runtime_.find(stream, device_);
  }

  /// The work of a node in this graph, of any type but child graphs and conditional nodes: allocates the memory of an
  /// allocation node, and finds that of a free node.
  Result make_node_work(const HostGraph& graph, HostDevice& device, const NodeParams& params, Work* work) const;
  /// Notes that the node, which frees graph memory, has been added.
  static void note_free(const HostNode& node);
  /// Refuses graph memory that cannot be freed outside of graphs.
  static Result check_free(const GraphMemory& memory);
  std::vector<OperationRef> all_work() const;
  /// Refuses a launch that cannot allocate or free its memory; else takes the bytes for it.
  Result check_launch_memory(const HostExec& exec) const;
  /// Notes what a submitted launch allocates and frees; after check_launch_memory().
  static void note_launch_memory(const Plan& plan) noexcept;

  /// Submits work to a stream whose rules were checked: an operation, or a node when the stream captures.
  /// \param programmatic in a capture, the edges from kernels are programmatic.
  void submit(HostStream& stream, NodeType type, Work work, bool programmatic = false);
  /// Sleeps, unlocked, until these are done.
  Result wait(Lock& lock, std::span<const OperationRef> operations) const;
  Result wait_for_last(Lock& lock, const HostStream& stream) const {
    return wait(lock, std::array{stream.tail});
  }
  /// True if these are complete. If not, and work runs by steps, makes a step first.
  Result query(Lock& lock, std::span<const OperationRef> operations) const;
  /// For calls that query progress: if work runs by steps, makes one step, unlocked. Must come before anything
  /// that is looked up.
  void make_progress(Lock& lock) const;
  /// The host knows now that these are done.
  void host_waited(std::span<const OperationRef> operations) const {
    if (runtime_.races != nullptr) [[unlikely]]
      runtime_.races->host_waited(operations);
  }
  /// Memory that was just given out has no history.
  void forget_accesses(const void* pointer, std::size_t bytes) const {
    if (runtime_.races != nullptr) [[unlikely]]
      runtime_.races->forget(pointer, bytes);
  }
  Result check_range(const void* pointer, std::size_t bytes, const char* what, MemoryKind* kind) const;
  /// Refuses work of streams on memory of allocation nodes that is not allocated. Its state is that after all work
  /// submitted so far: work that comes later, and is ordered before the free, cannot be.
  Result check_allocated(const void* pointer) const;
  Result check_memcpy(const MemcpyNodeParams& params, MemoryKind* destination, MemoryKind* source) const;
  Result check_memset(const MemsetNodeParams& params) const;
  /// Function and arguments, and then the shape of the launch: only the latter breaks a capture.
  Result check_kernel(const KernelNodeParams& params) const;
  Result check_launch_config(const KernelNodeParams& params) const;
  static Result check_use(EventUseFlags use);
  /// Checks the params of a node; of a conditional one, check_conditional() does.
  Result check_node(const NodeParams& params) const;
  static Result check_conditional(const HostGraph& graph, const ConditionalNodeParams& params);
  /// \param to the type of the node that it leads to; null if that is not known.
  static Result check_edge(const HostNode& from, const NodeType* to, const EdgeData& data);
  /// In this order, refuse a graph that cannot be cloned or be a child; whose nodes and edges cannot be removed.
  static Result check_copy(const HostGraph& graph);
  static Result check_removal(const HostGraph& graph);
  /// Finds errors of conditional nodes that only an instantiation reports: unused handles, and nodes that no body can
  /// have.
  Result check_bodies(const HostGraph& graph, bool in_body) const;
  /// True if a capture adds to this graph, or to another one that lies in the same outermost graph.
  bool is_captured_to(const HostGraph& graph) const;
  /// Work that cannot run: on a capturing stream that breaks the capture. (Bad arguments alone do not.)
  Result refuse_work(Call call, HostStream& stream, Result result) const;
  Result copy_on(Call call, StreamHandle handle, const MemcpyNodeParams& params);
  Result set_on(Call call, StreamHandle handle, const MemsetNodeParams& params);
  Result begin_capture_on(Call call, StreamHandle handle, HostGraph* graph, const Dependencies& dependencies,
                          CaptureMode mode);
  Result find_nodes(const Dependencies& handles, const HostGraph* graph, std::vector<Dependency>* nodes) const;
  /// Makes a change for each of the edges, and undoes those that were made when one is refused.
  template <class Change>
  Result change_edges(const HostGraph& graph, std::span<const Edge> edges, const Change& change,
                      bool (*undo)(const Dependency&, HostNode&)) const;
  /// Finds the place of a node that can be enabled and disabled.
  Result find_switchable(const HostExec& exec, GraphNodeHandle handle, std::size_t* place) const;
  /// Adds a child graph or conditional node, with graphs of its own. Checked before.
  HostNode& add_with_graphs(HostGraph& graph, NodeParams& params, std::span<const Dependency> before);
  Result set_child(HostExec& exec, std::size_t place, const HostGraph& child);
  Result launch_on(HostStream& stream, HostExec& exec);

  HostRuntime& runtime_;
  HostDevice& device_;
};

}  // namespace reprise::backend::host
