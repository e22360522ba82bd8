// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace reprise::libtorch {

/// What an operator would return, as far as that does not depend on values: tensors of the device "meta", which have
/// no values, and everything else as it is. It is found once for an operator, the sizes, strides and types of its
/// tensors and its other arguments, by the operator's meta kernel or, where there is none, by one run on CPU tensors
/// of ones (integers: zeros), and kept. One such run checks each new combination of types in any case: meta kernels do
/// not. `stack` has the arguments last; it is not changed.
/// \throws c10::Error what the operator's own checks of its arguments throw.
torch::jit::Stack output_shapes(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace reprise::libtorch
