// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Stream.h>

#include "reprise/capture.h"
#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// Captures of libtorch's tensors. In a program that is linked with the component `libtorch` and includes one of its
/// headers, reprise::capture(), reprise::graph and CUDAGraph::capture_begin() take work on tensors of CUDA devices, and
/// of the host device (host_device.h); CUDA devices have one current stream and one space of pool ids for both
/// libraries: docs/libtorch-cuda.md.
///
///     at::Tensor y;
///     reprise::CUDAGraph g = reprise::capture([&] { y = model->forward(x); });
///     g.replay();

namespace reprise::libtorch {

/// Random numbers that are drawn from a generator in captures of this graph are others at each replay: those that eager
/// work would have drawn in its place. The default generator of the capture's device takes part without this; it is for
/// others, of CUDA devices and host devices. docs/random-numbers.md says what a generator cannot do while a capture is
/// underway.
/// \throws UsageError unless the graph is empty, or for a generator of another kind of device.
REPRISE_EXPORT void register_generator_state(CUDAGraph& cuda_graph, const at::Generator& generator);

/// A stream of libtorch's, of a CUDA device or the host device, as this library sees it.
/// \throws UsageError for a stream of another device.
REPRISE_EXPORT StreamRef stream_ref(const c10::Stream& stream);

/// A stream as libtorch sees it. One that came from libtorch is the same c10::Stream as it was.
REPRISE_EXPORT c10::Stream c10_stream(const StreamRef& stream);

}  // namespace reprise::libtorch
