// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Stream.h>

#include <concepts>
#include <functional>
#include <utility>

#include "reprise/graph.h"
#include "reprise/libtorch/install.h"

/// \file
/// Captures of libtorch's tensors.

namespace reprise::libtorch {

/// Does nothing: libtorch's tensors take part in all captures of a program that includes this header, and CUDA devices
/// have one current stream and one space of pool ids for both libraries: docs/libtorch-cuda.md.
void take_part_in_captures();

/// reprise::graph, for work on libtorch's tensors: of CUDA devices, and of the host device (host_device.h).
///
///     reprise::CUDAGraph g;
///     {
///       reprise::libtorch::graph scope(g);
///       y = model->forward(x);
///     }
///     g.replay();
class graph {
 public:
  /// Begins, as reprise::graph does.
  explicit graph(CUDAGraph& cuda_graph, const GraphOptions& options = {})
      : scope_((take_part_in_captures(), cuda_graph), options) {}

  /// Ends the capture before the scope does; see reprise::graph.
  void end() { scope_.end(); }

  /// The stream that is captured.
  StreamRef stream() const { return scope_.stream(); }

 private:
  reprise::graph scope_;
};

/// reprise::capture(), for work on libtorch's tensors.
void capture(CUDAGraph& cuda_graph, const GraphOptions& options, const std::function<void()>& body);

/// The same, for a callable as it is written: `capture(g, {}, [&] { ... })` means this one wherever this namespace is
/// visible, also beside reprise, whose capture() is found by its argument.
template <std::convertible_to<std::function<void()>> Body>
void capture(CUDAGraph& cuda_graph, const GraphOptions& options, Body&& body) {
  const std::function<void()> function(std::forward<Body>(body));
  libtorch::capture(cuda_graph, options, function);
}

/// Random numbers that are drawn from a generator in captures of this graph are others at each replay: those that eager
/// work would have drawn in its place. The default generator of the capture's device takes part without this; it is for
/// others, of CUDA devices and host devices. docs/random-numbers.md says what a generator cannot do while a capture is
/// underway.
/// \throws UsageError unless the graph is empty, or for a generator of another kind of device.
void register_generator_state(CUDAGraph& cuda_graph, const at::Generator& generator);

/// A stream of libtorch's, of a CUDA device or the host device, as this library sees it.
/// \throws UsageError for a stream of another device.
StreamRef stream_ref(const c10::Stream& stream);

/// A stream as libtorch sees it. One that came from libtorch is the same c10::Stream as it was.
c10::Stream c10_stream(const StreamRef& stream);

}  // namespace reprise::libtorch
