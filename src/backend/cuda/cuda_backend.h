// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "backend/backend.h"
#include "backend/cuda/capture_watch.h"
#include "backend/cuda/driver_api.h"
#include "backend/cuda/error_log.h"
#include "backend/monitor.h"

namespace reprise::backend::cuda {

/// CUDA's result, as it is: the numbers are the same.
inline ErrorCode to_result(CUresult result) noexcept {
  return static_cast<ErrorCode>(result);
}

inline CUdeviceptr to_address(const void* pointer) noexcept {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline void* to_pointer(CUdeviceptr address) noexcept {
  return reinterpret_cast<void*>(address);
}

/// The backend interface on a CUDA device: one call of the driver for each, in the device's primary context, which is
/// the one that CUDA's runtime, and so every library, works in.
///
/// The primary context is retained by the first call that needs it and never released. A thread that had no current
/// context keeps this one, as with the runtime; a thread that had another one has it again when the call returns.
///
/// Nothing is checked here that the driver checks. All state is either set once or locked: any thread may call.
/// The calls are spread over cuda_backend_*.cpp by subject.
///
/// As its own monitor it observes this library's calls by CaptureWatch, all others and the times of nodes through
/// CUPTI.
class CudaBackend final : public Backend, public Monitor {
 public:
  /// \param driver outlives this object.
  /// \param device the device with the ordinal `index`.
  CudaBackend(const DriverApi& driver, CUdevice device, int index) : driver_(driver), device_(device), index_(index) {}

  DeviceType type() const noexcept override { return DeviceType::cuda; }
  int index() const noexcept override { return index_; }
  std::string device_name() const override;
  std::string logged_error() const override { return latest_error(driver_); }
  Monitor& monitor() noexcept override { return *this; }
  CaptureFindings describe_capture(StreamHandle stream) const override;
  std::shared_ptr<void> watch_calls(std::string* why) override;
  std::shared_ptr<NodeWatch> watch_nodes(GraphHandle template_graph, GraphExecHandle exec, std::string* why) override;
  std::unordered_map<GraphNodeHandle, std::uint64_t> profiler_ids(GraphHandle template_graph, GraphExecHandle exec,
                                                                  std::string* why) override;
#define REPRISE_CALL(name, cuda, parameters, arguments) Result name parameters override;
#include "backend/calls.def"

 private:
  /// Runs a call's body, which returns the driver's result, with the primary context current. The usual case, that it
  /// is current already, costs one query of the driver.
  template <class Body>
  Result enter(CallSite site, Body&& body) {
    CUcontext current = nullptr;
    const CUresult queried = driver_.cuCtxGetCurrent(&current);
    if (queried == CUDA_SUCCESS && current != nullptr && current == primary_.load(std::memory_order_acquire)) [[likely]]
      return finish(site, std::forward<Body>(body)());
    bool pushed = false;
    if (queried != CUDA_SUCCESS) return finish(site, queried);
    if (const CUresult made = make_current(current, &pushed); made != CUDA_SUCCESS) return finish(site, made);
    const CUresult result = std::forward<Body>(body)();
    if (pushed) (void)driver_.cuCtxPopCurrent(&current);
    return finish(site, result);
  }
  /// The same for calls on a stream whose context the driver uses, whatever is current. The handles 0, 1 and 2 are
  /// streams of the current context.
  template <class Body>
  Result enter_stream(CallSite site, Body&& body) {
    if (reinterpret_cast<std::uintptr_t>(site.stream) > 2) [[likely]]
      return finish(site, std::forward<Body>(body)());
    return enter(site, std::forward<Body>(body));
  }
  /// The same for a call that returns a value. The body gets a place for what the driver returns, which is written to
  /// `to` if the call succeeds.
  template <class Found, class To, class Body>
  Result enter_for(CallSite site, To* to, const Body& body) {
    return enter(site, [&] {
      Found found{};
      const CUresult result = body(&found);
      if (result == CUDA_SUCCESS) *to = static_cast<To>(found);
      return result;
    });
  }
  /// Makes the primary context current for a thread whose current context is `current`.
  CUresult make_current(CUcontext current, bool* pushed);
  CUresult primary_context(CUcontext* context);

  Result finish(CallSite site, CUresult result) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      return note_failure(site, result);
    return ErrorCode::success;
  }
  Result note_failure(CallSite site, CUresult result) const;

  /// Cluster and cooperation of a kernel node.
  CUresult kernel_attributes(CUgraphNode node, LaunchConfig* config) const;
  CUresult set_kernel_attributes(CUgraphNode node, const LaunchConfig& config) const;
  CUresult kernel_params(CUgraphNode node, KernelNodeParams* params) const;
  CUresult node_params(CUgraphNode node, CUgraphNodeType type, NodeParams* params) const;
  /// What the driver takes as other params of a node that is there.
  CUgraphNodeParams changed_params(CUgraphNode node, const NodeParams& params) const;
  /// A CUmemorytype; 0: the driver does not know the memory.
  unsigned memory_type(CUdeviceptr address) const;

  const DriverApi& driver_;
  const CUdevice device_;
  const int index_;
  std::atomic<CUcontext> primary_ = nullptr;
  std::mutex primary_mutex_;  ///< held while the primary context is retained
};

}  // namespace reprise::backend::cuda
