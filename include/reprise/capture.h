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
/// On entry, if no capture of this library is underway in the process: waits for the device and gives cached memory
/// back, so that the pool of the graph can grow. (Waiting for the device breaks every capture, so it is left out while
/// there is one. A capture that somebody began with raw driver calls is not known here: end it first.) Then the stream
/// of the options, or an internal one, becomes current and its capture begins.
///
/// Leaving the scope normally ends the capture, and may throw what CUDAGraph::capture_end throws. Leaving it by an
/// exception abandons the capture: the graph is empty, and the exception goes on. Either way the thread's current
/// stream is as before. To be entered and left on one thread.
class graph {
 public:
  /// Begins.
  explicit graph(CUDAGraph& cuda_graph, const GraphOptions& options = {});
  /// Ends, or abandons when an exception is in flight.
  ~graph() noexcept(false);
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  /// Ends the capture before the scope does; the destructor then does nothing.
  void end();

  /// The stream that is captured.
  StreamRef stream() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Captures what `body` gives to the current stream, and returns when it is captured. An exception of `body` abandons
/// the capture and goes on. `body` runs once; with GraphOptions::confirm_by_second_capture twice.
///
///     CUDAGraph g;
///     capture(g, {}, [&] { launch(LaunchConfig::cover(n), Scale{}, 0.5f, x.data(), n); });
///     g.replay();
void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body);

}  // namespace reprise
