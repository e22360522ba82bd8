// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/error.h"
#include "reprise/memory.h"
#include "reprise/stream.h"
#include "reprise/workspace.h"

/// \file
/// cuBLAS and cuBLASLt in captures: handles that give captured work a workspace which lives as long as its graph.
///
/// A component of its own, for CUDA devices only: it needs CUDA's toolkit, links cuBLAS, and is not part of reprise.h.
/// In CMake: `find_package(reprise COMPONENTS cublas)` and the target `reprise::cublas`.

namespace reprise {

/// A call of cuBLAS or cuBLASLt failed.
class REPRISE_EXPORT CublasError : public Error {
 public:
  /// \param status what the call returned.
  /// \param what the whole text.
  CublasError(cublasStatus_t status, const std::string& what) : Error(what), status_(status) {}

  cublasStatus_t status() const noexcept { return status_; }  ///< what the call returned

 private:
  cublasStatus_t status_;
};

/// Options of a handle.
struct CublasOptions {
  /// The size of a workspace in bytes. Not given: what cuBLAS recommends for the device, cublas_workspace_bytes().
  std::optional<std::size_t> workspace_bytes = {};
};

namespace detail::cublas {

inline const char* advice(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "make the handle before the capture, on a device that works";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "free memory of the device, or make the handle's workspace smaller (CublasOptions)";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "look at sizes, leading dimensions and pointers of the call";
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "this device or this version of cuBLAS cannot do that; choose another type, layout or algorithm";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the work could not be launched; in a capture: is the capture still whole? (StreamRef::capture_status)";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "often the end of an earlier failure on the device; in a capture also a copy between host and device that "
             "cannot be captured";
    default:
      return "cuBLAS's documentation of the call says when it returns this";
  }
}

[[noreturn]] inline void raise(cublasStatus_t status, const char* call, const SourceLocation& where) {
  std::string text = std::string(call) + " returned " + cublasGetStatusName(status) + " (" +
                     std::to_string(static_cast<int>(status)) + "): " + cublasGetStatusString(status) + "; " +
                     advice(status);
  if (where.line != 0)
    text += std::string(" [") + where.function + ", " + where.file + ":" + std::to_string(where.line) + "]";
  throw CublasError(status, text);
}

inline void check_runtime(cudaError_t result, const char* call, SourceLocation where = SourceLocation::current()) {
  if (result != cudaSuccess)
    throw BackendError(call, static_cast<ErrorCode>(result), cudaGetErrorString(result), where);
}

/// Makes a device the calling thread's current one of CUDA's runtime, and the thread's capture mode relaxed, until the
/// end of the scope: allocations and frees by cuBLAS then break no capture.
class HandleScope {
 public:
  explicit HandleScope(Device device) {
    check_runtime(cudaGetDevice(&previous_), "cudaGetDevice");
    if (previous_ != device.index()) check_runtime(cudaSetDevice(device.index()), "cudaSetDevice");
    changed_ = previous_ != device.index();
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~HandleScope() {
    static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_));
    if (changed_) static_cast<void>(cudaSetDevice(previous_));
  }
  HandleScope(const HandleScope&) = delete;
  HandleScope& operator=(const HandleScope&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

inline Device require_cuda(Device device) {
  if (device.type() == DeviceType::cuda) return device;
  throw UsageError("expected a CUDA device for a handle of cuBLAS; found " + device.str() +
                   ": cuBLAS has no kernels for the simulated host device; name a CUDA device (REPRISE_DEVICE=cuda:0), "
                   "or keep this part of the program for machines that have one");
}

/// Checks a requirement of cuBLAS: the stream is of the handle's device, which is the thread's current one.
inline void require_usable(Device device, const StreamRef& stream) {
  if (stream.device() != device)
    throw UsageError("expected a stream of " + device.str() + ", for which this handle of cuBLAS was made; found a " +
                     "stream of " + stream.device().str() + "; make a handle for each device");
  int current = 0;
  check_runtime(cudaGetDevice(&current), "cudaGetDevice");
  if (current != device.index())
    throw UsageError("expected " + device.str() + ", for which this handle of cuBLAS was made, to be the current " +
                     "device of CUDA's runtime in this thread; found cuda:" + std::to_string(current) +
                     "; call cudaSetDevice(" + std::to_string(device.index()) + ") before");
}

}  // namespace detail::cublas

/// Throws CublasError unless the status is success.
/// \param status what a call of cuBLAS or cuBLASLt returned.
/// \param call its name, for the text.
/// \param where the caller; filled in by the compiler.
inline void check_cublas(cublasStatus_t status, const char* call = "cuBLAS",
                         SourceLocation where = SourceLocation::current()) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    detail::cublas::raise(status, call, where);
}

/// The size that cuBLAS's documentation of cublasSetWorkspace recommends: 32 MiB on Hopper (also used for newer
/// devices), 4 MiB on older ones. \throws UsageError unless it is a CUDA device; BackendError
inline std::size_t cublas_workspace_bytes(Device device) {
  int major = 0;
  detail::cublas::check_runtime(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, detail::cublas::require_cuda(device).index()),
      "cudaDeviceGetAttribute");
  return std::size_t{major >= 9 ? 32u : 4u} << 20;
}

namespace detail::cublas {

/// A handle of either library for one device, and the size of its workspaces. Movable; a moved-from one owns nothing.
template <class Handle, auto create, auto destroy>
class OwnedHandle {
 public:
  OwnedHandle(Device device, const CublasOptions& options, const char* call)
      : device_(require_cuda(device)),
        workspace_bytes_(options.workspace_bytes ? *options.workspace_bytes : cublas_workspace_bytes(device)) {
    const HandleScope scope(device_);
    check_cublas(create(&handle_), call);
  }
  ~OwnedHandle() {
    if (handle_ == nullptr) return;
    try {
      const HandleScope scope(device_);
      check_cublas(destroy(handle_), "destroying a handle");
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }
  OwnedHandle(OwnedHandle&& other) noexcept
      : device_(other.device_),
        workspace_bytes_(other.workspace_bytes_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedHandle& operator=(OwnedHandle&& other) noexcept {
    // This object's previous handle is destroyed with `other`.
    OwnedHandle taken(std::move(other));
    std::swap(device_, taken.device_);
    std::swap(workspace_bytes_, taken.workspace_bytes_);
    std::swap(handle_, taken.handle_);
    return *this;
  }

  /// \throws UsageError if it was moved from.
  Handle get() const {
    if (handle_ == nullptr) reprise::detail::refuse_moved_from("a handle of cuBLAS");
    return handle_;
  }
  Device device() const noexcept { return device_; }
  std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }

 private:
  Device device_;
  std::size_t workspace_bytes_;
  Handle handle_ = nullptr;
};

}  // namespace detail::cublas

/// An owned handle of cuBLAS.
///
///     CublasHandle blas;                                  // before the capture
///     CUDAGraph graph = capture([&] {
///       check_cublas(cublasSgemm(blas.on(), ...), "cublasSgemm");
///     });
///
/// *Capture.* on() sets the stream, and in a capture the workspace too, library_workspace("cublas", ...): it belongs to
/// the graph, so the handle may be destroyed and its thread end before a replay. Call on() again for each stream, and
/// after each capture: until then the handle keeps using the graph's workspace.
///
/// *Life.* Make handles before the captures, and destroy them after: cuBLAS allocates when a handle is made, and waits
/// for the device when it is destroyed, which breaks every capture underway.
///
/// *Threads and devices.* One handle for each thread and device, as cuBLAS requires; the device must be the thread's
/// current one of CUDA's runtime (it is, in a program that uses one device). A handle may be made, used and destroyed
/// on any thread, by one at a time: nothing of it belongs to a thread.
///
/// *Hooks.* All functions may be called within hooks of graphs. A capture is over when its hooks run, so that on() then
/// sets cuBLAS's own workspace, unless its stream takes part in another capture.
///
/// Movable; a moved-from handle may only be assigned to or destroyed, and throws UsageError where it is used.
class CublasHandle {
 public:
  /// A new handle for `device`. In a capture, too, where the first handle of a process may break the captures that are
  /// underway: make one before the capture.
  /// \throws UsageError unless it is a CUDA device; CublasError, BackendError
  explicit CublasHandle(Device device = current_device(), const CublasOptions& options = {})
      : handle_(device, options, "cublasCreate") {}

  /// Returns the handle for work on `stream`: with that stream set, and in a capture with the workspace of its graph.
  /// Elsewhere cuBLAS uses its own workspace.
  /// \throws UsageError if the stream is of another device, or the handle's device is not the thread's current one;
  ///         OutOfMemoryError, CublasError
  cublasHandle_t on(const StreamRef& stream = current_stream()) {
    detail::cublas::require_usable(device(), stream);
    const Workspace workspace = library_workspace("cublas", workspace_bytes(), stream);
    // The stream first: setting it restores cuBLAS's own workspace.
    check_cublas(cublasSetStream(get(), stream.native()), "cublasSetStream");
    if (workspace) check_cublas(cublasSetWorkspace(get(), workspace.data, workspace.bytes), "cublasSetWorkspace");
    return get();
  }

  /// With the last stream and workspace set.
  /// \throws UsageError if it was moved from.
  cublasHandle_t get() const { return handle_.get(); }
  Device device() const noexcept { return handle_.device(); }
  std::size_t workspace_bytes() const noexcept { return handle_.workspace_bytes(); }  ///< of a workspace in a capture

 private:
  detail::cublas::OwnedHandle<cublasHandle_t, &cublasCreate, &cublasDestroy> handle_;
};

/// Scratch space for one call of cublasLtMatmul, to be kept until that returned: memory of the graph in a capture, else
/// memory of its own, freed to the caching allocator in the order of the stream.
class CublasLtWorkspace {
 public:
  /// \throws UsageError in a capture that was not begun by this library, or is broken; OutOfMemoryError
  CublasLtWorkspace(std::size_t bytes, const StreamRef& stream)
      : workspace_(library_workspace("cublasLt", bytes, stream)) {
    if (workspace_ || bytes == 0) return;
    if (stream.capture_status() != CaptureStatus::none)
      throw UsageError(
          "expected a stream in a capture of this library, or in none; found one in a capture begun with a " +
          std::string("call of CUDA, or in a broken one: the graph would keep the address of a freed workspace; ") +
          "begin the capture with reprise::capture, or pass memory of your own that outlives the graph");
    memory_ = Buffer<std::byte>(bytes, stream);
    workspace_ = {memory_.data(), bytes};
  }

  void* data() const noexcept { return workspace_.data; }
  std::size_t bytes() const noexcept { return workspace_.bytes; }

 private:
  Workspace workspace_;
  Buffer<std::byte> memory_;
};

/// An owned handle of cuBLASLt, and workspaces to pass to cublasLtMatmul:
///
///     const CublasLtWorkspace workspace = lt.workspace(stream);
///     check_cublas(cublasLtMatmul(lt.get(), ..., workspace.data(), workspace.bytes(), stream.native()),
///                  "cublasLtMatmul");
///
/// They have the same size in a capture and outside, so that one choice of an algorithm fits both
/// (`CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES` is workspace_bytes()).
///
/// Unlike a handle of cuBLAS it can be used by several threads at once. Make it before the captures and destroy it
/// after. Movable; a moved-from handle may only be assigned to or destroyed, and throws UsageError where it is used.
class CublasLtHandle {
 public:
  /// A new handle for `device`.
  /// \throws UsageError unless it is a CUDA device; CublasError, BackendError
  explicit CublasLtHandle(Device device = current_device(), const CublasOptions& options = {})
      : handle_(device, options, "cublasLtCreate") {}

  /// Scratch space for one call on `stream`.
  /// \throws UsageError if the stream is of another device, or the handle's device is not the thread's current one;
  ///         OutOfMemoryError
  CublasLtWorkspace workspace(const StreamRef& stream = current_stream()) const {
    detail::cublas::require_usable(device(), stream);
    return CublasLtWorkspace(workspace_bytes(), stream);
  }

  cublasLtHandle_t get() const { return handle_.get(); }
  Device device() const noexcept { return handle_.device(); }
  std::size_t workspace_bytes() const noexcept { return handle_.workspace_bytes(); }  ///< of each workspace

 private:
  detail::cublas::OwnedHandle<cublasLtHandle_t, &cublasLtCreate, &cublasLtDestroy> handle_;
};

}  // namespace reprise
