// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "reprise/capture_options.h"
#include "reprise/graph.h"
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
class graph {
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

/// Captures the work that `body` submits to the current stream. An exception of `body` abandons the capture and
/// propagates. `body` runs once; with GraphOptions::confirm_by_second_capture twice.
///
///     CUDAGraph g;
///     capture(g, {}, [&] { launch(LaunchConfig::cover(n), Scale{}, 0.5f, x.data(), n); });
///     g.replay();
void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body);

}  // namespace reprise
