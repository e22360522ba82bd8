// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace reprise::libtorch {

/// Returns the results of an operator as far as they do not depend on values: tensors of the device "meta", which have
/// no values, and other results unchanged. Determined once for an operator, the sizes, strides and types of its tensors
/// and its other arguments, by one run on CPU tensors of ones (integers: zeros). `stack` ends with the arguments; it is
/// not changed.
/// \throws c10::Error from the operator's own checks of its arguments.
torch::jit::Stack output_shapes(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace reprise::libtorch
