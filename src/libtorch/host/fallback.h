// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace reprise::libtorch {

/// Any operator on tensors of the host device that has no kernel of its own here: its outputs are allocated, and the
/// CPU's kernel becomes work of the current stream, one node in a graph.
///
///     out=, in-place     the outputs are there
///     views              the result is a view of the same memory; nothing runs
///     others             the outputs' sizes and types come from the meta kernel, or, where there is none, from one run
///                        on CPU tensors of ones (output_shapes.h)
///     whose result depends on values (nonzero, equal, ...)   runs now, and waits for the stream: refused in a capture
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace reprise::libtorch
