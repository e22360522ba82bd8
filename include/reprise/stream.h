// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reprise/device.h"
#include "reprise/handles.h"

/// \file
/// Streams: the owning Stream, the view StreamRef, and the current stream of a thread.

namespace reprise {

class EventRef;

/// How the calls of other threads and streams are restricted while a capture is underway; CUDA's
/// `cudaStreamCaptureMode`. See docs/capture-rules.md.
enum class CaptureErrorMode : int {
  global = 0,         ///< potentially unsafe calls are refused on every thread (PyTorch's default)
  thread_local_ = 1,  ///< they are refused on the capturing thread only; recommended where other threads use the device
  relaxed = 2,        ///< they are allowed
};

/// Whether a stream is being captured; CUDA's `cudaStreamCaptureStatus`.
enum class CaptureStatus : int {
  none = 0,         ///< work on the stream executes
  active = 1,       ///< work on the stream becomes nodes
  invalidated = 2,  ///< a call broke the capture; it must be ended, and gives no graph
};

/// A stream of anyone's: a view that owns nothing and must not outlive the stream. A small value; the functions may be
/// called from any thread.
class StreamRef {
 public:
  /// A view of any stream of a device: of this library, of CUDA's runtime, of another framework. Null is the legacy
  /// default stream.
  StreamRef(Device device, StreamHandle handle) noexcept : device_(device), handle_(handle) {}
  StreamRef(Device device, int handle) = delete;  ///< a stream has no number

  Device device() const noexcept { return device_; }               ///< where its work runs
  StreamHandle native() const noexcept { return handle_; }         ///< `cudaStream_t`
  bool is_default() const noexcept { return handle_ == nullptr; }  ///< the legacy default stream?

  /// Blocks until the work of the stream is done.
  /// \throws BackendError with 900 if the stream is capturing; that invalidates the capture.
  void synchronize() const;

  /// Is the work of the stream done?
  /// \throws BackendError with 900 if the stream is capturing; that invalidates the capture.
  bool query() const;

  /// Work given to this stream from now on waits for what the event recorded last. On a capturing stream this adds an
  /// edge; a stream that waits for an event of a capture joins that capture.
  void wait(EventRef event) const;

  /// Work given to this stream from now on waits for what `other` has been given so far.
  void wait(const StreamRef& other) const;

  /// Whether the stream is being captured. Never breaks a capture.
  CaptureStatus capture_status() const;

  /// The number of the capture that the stream takes part in, 0 if in none. Never breaks a capture.
  std::uint64_t capture_id() const;

  /// The same stream of the same device?
  friend bool operator==(const StreamRef&, const StreamRef&) noexcept = default;

 private:
  Device device_;
  StreamHandle handle_;
};

/// How a Stream is made.
struct StreamOptions {
  /// False: the stream does not wait for the legacy default stream, nor that for it (`cudaStreamNonBlocking`).
  /// True: it does. While a blocking stream captures, any use of the legacy stream breaks the capture.
  bool blocking = false;
  int priority = 0;  ///< lower runs first, as in CUDA; clamped to what the device knows
};

/// A stream that this object owns. Movable; a moved-from Stream may only be assigned to or destroyed.
/// Destroying it does not wait: work that it was given still runs.
class Stream {
 public:
  explicit Stream(Device device = current_device(), StreamOptions options = {});  ///< a new stream of `device`
  ~Stream();
  Stream(Stream&& other) noexcept;             ///< takes the stream over
  Stream& operator=(Stream&& other) noexcept;  ///< destroys this object's stream and takes the other over

  StreamRef ref() const noexcept { return ref_; }                         ///< a view of it
  operator StreamRef() const noexcept { return ref_; }                    ///< a view of it
  StreamHandle native() const noexcept { return ref_.native(); }          ///< `cudaStream_t`
  Device device() const noexcept { return ref_.device(); }                ///< where its work runs
  void synchronize() const { ref_.synchronize(); }                        ///< see StreamRef::synchronize
  bool query() const { return ref_.query(); }                             ///< see StreamRef::query
  void wait(EventRef event) const;                                        ///< see StreamRef::wait
  void wait(const StreamRef& other) const { ref_.wait(other); }           ///< see StreamRef::wait
  CaptureStatus capture_status() const { return ref_.capture_status(); }  ///< see StreamRef::capture_status

 private:
  StreamRef ref_;
};

/// The calling thread's current stream of its current device.
StreamRef current_stream();

/// The calling thread's current stream of a device; the legacy default stream until it was set.
StreamRef current_stream(Device device);

/// Makes a stream, and its device, current in the calling thread until the end of the scope.
class StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream);  ///< makes `stream` current in this thread
  StreamGuard(Stream&&) = delete;          ///< the stream would be gone before the guard
  ~StreamGuard();                          ///< stream and device before it are current again
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  DeviceGuard device_;
  StreamRef previous_;
};

/// Is the calling thread's current stream being captured? (PyTorch's `torch.cuda.is_current_stream_capturing`.)
bool is_current_stream_capturing();

}  // namespace reprise
