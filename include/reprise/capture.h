// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "reprise/capture_options.h"
#include "reprise/detail/export.h"
#include "reprise/graph.h"
#include "reprise/graph_diff.h"
#include "reprise/stream.h"

/// \file
/// Captures of a piece of a program: the scope `graph`, and the function capture().

namespace reprise {

/// A scope in which the work of the calling thread's current stream is captured: PyTorch's `torch.cuda.graph`.
///
/// On entry, if no capture of this library is underway in the process: waits for the device and releases cached memory,
/// so that the pool of the graph can grow. (Waiting for the device breaks every capture. A capture begun with raw
/// driver calls is not detected: end it first.) Then the stream of the options, or an internal one, becomes current and
/// its capture begins.
///
/// Leaving the scope normally ends the capture, and may throw what CUDAGraph::capture_end throws. Leaving it by an
/// exception abandons the capture: the graph is empty, and the exception propagates. Either way the thread's previous
/// current stream is restored. Must be entered and left on one thread.
class REPRISE_EXPORT graph {
 public:
  explicit graph(CUDAGraph& cuda_graph, const GraphOptions& options = {});
  /// Ends the capture, or abandons it when an exception is in flight.
  ~graph() noexcept(false);
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  /// Ends the capture before the scope does; the destructor then does nothing.
  void end();

  /// The captured stream.
  StreamRef stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A reference to the function that capture() runs, which takes nothing, a StreamRef or a `cudaStream_t`: the stream
/// that is captured. It is the calling thread's current stream as well, so that work without a stream argument is
/// captured, too. Valid as long as the function; for parameters, not to be stored.
class CaptureBody {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, CaptureBody> &&
           (std::invocable<F&> || std::invocable<F&, StreamRef> || std::invocable<F&, StreamHandle>))
      CaptureBody(F&& function)  // NOLINT(google-explicit-constructor): bodies are passed as they are
      : function_(address(function)), call_(&call<std::remove_reference_t<F>>) {
    // Not lambdas without captures, which convert by way of a function pointer.
    if constexpr (std::is_pointer_v<std::remove_reference_t<F>> || requires { function.operator bool(); })
      if (!static_cast<bool>(function)) call_ = nullptr;
  }

  /// An empty one, which capture() refuses.
  CaptureBody(std::nullptr_t) noexcept : function_(nullptr), call_(nullptr) {}  // NOLINT(google-explicit-constructor)

  /// False for an empty std::function or a null function pointer.
  explicit operator bool() const noexcept { return call_ != nullptr; }
  void operator()(const StreamRef& stream) const { call_(function_, stream); }

 private:
  template <class F>
  static void* address(F& function) {
    if constexpr (std::is_function_v<F>)
      return reinterpret_cast<void*>(&function);
    else
      return const_cast<void*>(static_cast<const void*>(std::addressof(function)));
  }

  template <class F>
  static F& target(void* function) {
    if constexpr (std::is_function_v<F>)
      return *reinterpret_cast<F*>(function);
    else
      return *static_cast<F*>(function);
  }

  template <class F>
  static void call(void* function, const StreamRef& stream) {
    F& body = target<F>(function);
    if constexpr (std::invocable<F&>)
      body();
    else if constexpr (std::invocable<F&, StreamRef>)
      body(stream);
    else
      body(stream.native());
  }

  void* function_;
  void (*call_)(void* function, const StreamRef& stream);
};

/// Captures the work that `body` submits, and returns its graph:
///
///     CUDAGraph g = capture(stream, [&](cudaStream_t s) { step<<<grid, block, 0, s>>>(x); });
///     g.replay(stream);
///
/// *Memory* that the body allocates from CachingAllocator belongs to the pool of the graph, also if the body hands it
/// out, as a Buffer that it assigns. Each replay writes it again. Its contents are valid from one replay to the next
/// one; it may be freed before or after the graph is destroyed, and stays mapped until both are gone.
///
/// *Work on other streams* than the captured one, and those that were forked off it, is no part of the graph. Functions
/// of this library refuse it on this thread with UsageError, on the legacy default stream, on the stream that was
/// current before, and on streams of other devices, except in relaxed mode of the thread (CaptureModeGuard). That holds
/// in the scope `graph` as well.
///
/// `body` runs once, before that GraphOptions::warmup times, and once more with
/// GraphOptions::check_frozen_values. An exception of `body` abandons the capture and propagates. \throws what
/// CUDAGraph::capture_begin and capture_end throw; UsageError if `body` is empty.
REPRISE_EXPORT CUDAGraph capture(const GraphOptions& options, CaptureBody body);
/// As above, on an internal stream of the current device.
REPRISE_EXPORT CUDAGraph capture(CaptureBody body);
/// As above, on `stream`.
REPRISE_EXPORT CUDAGraph capture(const StreamRef& stream, CaptureBody body);
/// As above, on an internal stream of `device`.
REPRISE_EXPORT CUDAGraph capture(Device device, CaptureBody body);

/// As above, into an empty graph: for one that is captured again, or that `body` uses.
REPRISE_EXPORT void capture(CUDAGraph& cuda_graph, const GraphOptions& options, CaptureBody body);
/// As above, with the default options.
REPRISE_EXPORT void capture(CUDAGraph& cuda_graph, CaptureBody body);

}  // namespace reprise
