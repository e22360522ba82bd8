// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace reprise::libtorch {

/// What an operator would return, as far as that does not depend on values: tensors without values (of the device
/// "meta", or of the CPU), everything else as it is. `stack` has the arguments last; it is not changed.
/// \throws c10::Error what the operator's own checks of its arguments throw.
torch::jit::Stack output_shapes(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

}  // namespace reprise::libtorch
