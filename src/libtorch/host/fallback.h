// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace reprise::libtorch {

/// Runs any operator on tensors of the host device without its own kernel here: allocates its outputs, and submits the
/// CPU's kernel to the current stream, one node in a graph.
///
///     out=, in-place     the outputs exist
///     others             the outputs' sizes and types come from one run on CPU tensors of ones (output_shapes.h)
///     whose result depends on values (nonzero, equal, ...)   runs now, and waits for the stream: refused in a capture
///
/// Operators with a kernel of their own are in
///
///     memory_kernels         memory, views, copies, values for the host
///     cuda_like_kernels      those that libtorch implements differently on CUDA than on an unknown device
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace reprise::libtorch
