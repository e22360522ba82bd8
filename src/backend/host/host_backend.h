// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "backend/backend.h"
#include "backend/host/capture/capture.h"
#include "backend/host/host_device.h"
#include "backend/host/host_monitor.h"

namespace reprise::backend::host {

/// The backend interface on a simulated device. Each call: refuse if the thread may not call or the device is broken,
/// fail if that was asked for, lock the runtime, check the capture rules, act. The calls are spread over
/// host_backend_*.cpp by subject.
class HostBackend final : public Backend {
 public:
  HostBackend(HostRuntime& runtime, HostDevice& device) : runtime_(runtime), device_(device) {}

  DeviceType type() const noexcept override;
  int index() const noexcept override;
  std::string device_name() const override;
  std::string last_error_detail() const override;
  Monitor& monitor() noexcept override { return monitor_; }
#define REPRISE_CALL(name, cuda, parameters, arguments) Result name parameters override;
#include "backend/calls.def"

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Runs a call's body with the runtime locked, unless the call is to fail.
  template <class Body>
  Result enter(Call call, Body&& body) {
    if (const Result refused = refuse_caller(); refused != Result::success) [[unlikely]]
      return refused;
    if (const Result failed = injected(call); failed != Result::success) [[unlikely]] {
      Lock lock(runtime_.mutex);
      note_failure(lock, call, failed);
      lock.unlock();
      if (stack_pending) attach_pending_stack(runtime_);
      return failed;
    }
    Lock lock(runtime_.mutex);
    const Result result = std::forward<Body>(body)(lock);
    if (result != Result::success) [[unlikely]]
      note_failure(lock, call, result);
    if (lock.owns_lock()) lock.unlock();
    if (stack_pending) [[unlikely]]
      attach_pending_stack(runtime_);
    return result;
  }
  /// For the reports of captures, if calls are watched.
  void note_failure(Lock& lock, Call call, Result result) {
    if (!lock.owns_lock()) lock.lock();  // after a wait
    if (runtime_.watchers > 0) note_refused(runtime_, call, result);
    thread_rule = nullptr;
  }
  /// Refuses threads that execute an operation, and all threads once the device is broken.
  Result refuse_caller() const;
  /// The code of the failure that was asked for, if this call is the one; else success.
  Result injected(Call call) const {
    return runtime_.failures.any() ? next_failure(call) : Result::success;
  }
  [[gnu::noinline]] Result next_failure(Call call) const;
  /// Leaves the text as the thread's error detail.
  static Result fail(Result result, std::string detail);
  static Result bad_handle(const char* what);
  /// As CUDA, which says invalid_handle of streams, events and functions, and invalid_value of all others.
  static Result no_such(const char* what);

  HostStream* find(StreamHandle stream) const {
    return runtime_.find(stream, device_);
  }

  /// Gives work to a stream whose rules were checked: an operation, or a node when the stream captures.
  void submit(HostStream& stream, NodeType type, Work work);
  /// Sleeps, unlocked, until these are done.
  Result wait(Lock& lock, const std::vector<OperationRef>& operations) const;
  /// True if these are complete. If not, and work runs by steps, makes a step first.
  Result query(Lock& lock, std::span<const OperationRef> operations) const;
  /// For calls that ask how far the device is: if work runs by steps, one is made, unlocked. To come before anything
  /// that is looked up.
  static void make_progress(Lock& lock);
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
  Result check_memcpy(const MemcpyNodeParams& params, MemoryKind* destination, MemoryKind* source) const;
  Result check_memset(const MemsetNodeParams& params) const;
  /// Function and arguments, and then the shape of the launch: only the latter breaks a capture.
  Result check_kernel(const KernelNodeParams& params) const;
  Result check_launch_config(const KernelNodeParams& params) const;
  static Result check_use(EventUseFlags use);
  /// Checks the params of a node.
  Result check_node(const NodeParams& params) const;
  /// Work that cannot run: on a capturing stream that breaks the capture. (Bad arguments alone do not.)
  Result refuse_work(Call call, HostStream& stream, Result result) const;
  Result copy_on(Lock& lock, Call call, HostStream& stream, const MemcpyNodeParams& params);
  Result set_on(Lock& lock, Call call, HostStream& stream, const MemsetNodeParams& params);
  Result join(HostStream& stream, HostEvent& event, bool external);
  Result begin_capture_on(Call call, StreamHandle handle, HostGraph* graph,
                          std::span<const GraphNodeHandle> dependencies, CaptureErrorMode mode);
  Result find_nodes(std::span<const GraphNodeHandle> handles, const HostGraph* graph,
                    std::vector<HostNode*>* nodes) const;
  Result launch_on(HostStream& stream, HostExec& exec);

  HostRuntime& runtime_;
  HostDevice& device_;
  HostMonitor monitor_{runtime_, device_};
};

}  // namespace reprise::backend::host
