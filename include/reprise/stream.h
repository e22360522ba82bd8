// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "reprise/detail/export.h"
#include "reprise/device.h"
#include "reprise/handles.h"

/// \file
/// Streams: the owning Stream, the view StreamRef, and the current stream of a thread.

namespace reprise {

class EventRef;

/// Calls that are refused while a capture is underway; CUDA's `cudaStreamCaptureMode`. See docs/capture-rules.md.
enum class CaptureMode : int {
  global = 0,   ///< potentially unsafe calls are refused on every thread (PyTorch's default)
  thread = 1,   ///< they are refused on the capturing thread only; recommended where other threads use the device
  relaxed = 2,  ///< they are allowed
  thread_local_ = thread,  ///< PyTorch's name of `thread`
};
/// PyTorch's name of CaptureMode, for ported code.
using CaptureErrorMode = CaptureMode;

/// Status of a stream in a capture; CUDA's `cudaStreamCaptureStatus`.
enum class CaptureStatus : int {
  none = 0,         ///< work on the stream executes
  active = 1,       ///< work on the stream becomes nodes
  invalidated = 2,  ///< a call broke the capture; it must be ended, and gives no graph
};

/// A view of a stream by another library, as CCCL's `cuda::stream_ref`: made from a `cudaStream_t`, which get()
/// returns.
template <class S>
concept StreamView = requires(const S& stream) {
  { stream.get() } -> std::same_as<StreamHandle>;
}
&&std::is_convertible_v<StreamHandle, S>;

/// A non-owning view of a stream, which it must not outlive. A small value. Thread-safe.
class REPRISE_EXPORT StreamRef {
 public:
  /// A view of any stream of a device: of this library, of CUDA's runtime, of another framework. Null is the legacy
  /// default stream; so is `cudaStreamLegacy` (0x1), which becomes null here.
  StreamRef(Device device, StreamHandle handle) noexcept
      : device_(device), handle_(reinterpret_cast<std::uintptr_t>(handle) == 1 ? nullptr : handle) {}
  StreamRef(Device device, int handle) = delete;  ///< prevents StreamRef(device, 0)

  /// A view of a stream of CUDA's runtime or driver, or of a host device, whose device is the stream's. The handles 0,
  /// 1 and 2 are the default streams of the current device. With several CUDA devices that is also the device of a
  /// stream that is being captured, and of any stream with a driver before 12.8. Costs a lookup, and with several CUDA
  /// devices two queries of the driver.
  /// \throws UsageError if the stream is of no device of this process, where no CUDA device could have it.
  StreamRef(StreamHandle handle);      // NOLINT(google-explicit-constructor): a `cudaStream_t` is a stream
  StreamRef(int) = delete;             ///< prevents StreamRef(0)
  StreamRef(std::nullptr_t) = delete;  ///< write Device::default_stream()

  /// From and to other views of a `cudaStream_t`, such as CCCL's `cuda::stream_ref`.
  template <StreamView S>
  StreamRef(const S& stream) : StreamRef(StreamHandle{stream.get()}) {}  // NOLINT(google-explicit-constructor)
  template <StreamView S>
  operator S() const {  // NOLINT(google-explicit-constructor)
    return S(handle_);
  }

  Device device() const noexcept { return device_; }
  StreamHandle native() const noexcept { return handle_; }         ///< `cudaStream_t`
  bool is_default() const noexcept { return handle_ == nullptr; }  ///< true for the legacy default stream

  /// Blocks until the work of the stream has completed.
  /// \throws BackendError with 900 if the stream is capturing; that invalidates the capture.
  void synchronize() const;

  /// True if the work of the stream has completed. Does not block.
  /// \throws BackendError with 900 if the stream is capturing; that invalidates the capture.
  bool query() const;

  /// Makes later work of this stream wait for the event's last record. On a capturing stream this adds an edge; a
  /// stream that waits for an event of a capture joins that capture.
  void wait(EventRef event) const;

  /// Makes later work of this stream wait for the work submitted to `other` so far.
  void wait(const StreamRef& other) const;

  /// Returns whether the stream is being captured. Never breaks a capture.
  CaptureStatus capture_status() const;

  /// The id of the capture that the stream takes part in, 0 if none. Never breaks a capture.
  std::uint64_t capture_id() const;

  friend bool operator==(const StreamRef&, const StreamRef&) noexcept = default;

 private:
  Device device_;
  StreamHandle handle_;
};

/// Properties of a new Stream.
struct StreamOptions {
  /// False: no implicit ordering with the legacy default stream (`cudaStreamNonBlocking`). True: each waits for the
  /// other; while a blocking stream captures, any use of the legacy stream breaks the capture.
  bool blocking = false;
  int priority = 0;  ///< lower runs first, as in CUDA; clamped to the device's range
};

namespace detail {

[[noreturn]] REPRISE_EXPORT void refuse_moved_from(const char* what);

}  // namespace detail

/// An owned stream. Movable; a moved-from Stream may only be assigned to or destroyed, and throws UsageError in all
/// else but device(). Destroying it does not wait: submitted work still runs. With the component libtorch, whose
/// allocators and autograd use streams for as long as the process lives, the handle stays valid, and a later Stream
/// with the same options reuses it.
class REPRISE_EXPORT Stream {
 public:
  explicit Stream(Device device = current_device(), StreamOptions options = {});
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;  ///< destroys this object's stream and takes over the other

  /// \throws UsageError if it was moved from.
  StreamRef ref() const {
    if (ref_.is_default()) [[unlikely]]
      detail::refuse_moved_from("a stream");
    return ref_;
  }
  operator StreamRef() const { return ref(); }
  StreamHandle native() const { return ref().native(); }  ///< `cudaStream_t`
  Device device() const noexcept { return ref_.device(); }
  void synchronize() const { ref().synchronize(); }                        ///< see StreamRef::synchronize
  bool query() const { return ref().query(); }                             ///< see StreamRef::query
  void wait(EventRef event) const;                                         ///< see StreamRef::wait
  void wait(const StreamRef& other) const { ref().wait(other); }           ///< see StreamRef::wait
  CaptureStatus capture_status() const { return ref().capture_status(); }  ///< see StreamRef::capture_status

 private:
  StreamRef ref_;
  StreamOptions options_;
};

/// The calling thread's current stream of its current device.
REPRISE_EXPORT StreamRef current_stream();

/// The calling thread's current stream of a device; the legacy default stream until it was set.
REPRISE_EXPORT StreamRef current_stream(Device device);

/// Makes a stream, and its device, current in the calling thread until the end of the scope. Must begin and end on one
/// thread: ended on another one, it changes nothing, with a warning. If a later guard is still there, that one restores
/// what this one would.
class REPRISE_EXPORT StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream);
  StreamGuard(Stream&&) = delete;  ///< the stream would be destroyed before the guard
  ~StreamGuard();                  ///< restores the previous stream and device
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceGuard device_;
};

/// Sets the calling thread's capture mode for potentially unsafe calls until the end of the scope
/// (`cudaThreadExchangeStreamCaptureMode`): in `relaxed`, calls such as `cudaMalloc` and `cudaEventQuery` are executed
/// while this thread captures, instead of breaking the capture. What a capture forbids in each mode stays forbidden.
/// Work that a body submits to a stream outside of its capture, which functions of this library refuse otherwise, is
/// executed at once in this mode.
/// Must begin and end on one thread: ended on another one, it changes nothing, with a warning.
class REPRISE_EXPORT CaptureModeGuard {
 public:
  explicit CaptureModeGuard(CaptureMode mode = CaptureMode::relaxed, Device device = current_device());
  ~CaptureModeGuard();  ///< restores the previous mode
  CaptureModeGuard(const CaptureModeGuard&) = delete;
  CaptureModeGuard& operator=(const CaptureModeGuard&) = delete;

 private:
  Device device_;
  CaptureMode previous_;
  const void* thread_;  // stands for the one that it began on
};

/// True if the calling thread's current stream is being captured (PyTorch's `torch.cuda.is_current_stream_capturing`).
REPRISE_EXPORT bool is_current_stream_capturing();

}  // namespace reprise
