// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "reprise/detail/export.h"
#include "reprise/libtorch/detail/install.h"

/// \file
/// Gradient clipping that can be captured: unlike torch::nn::utils::clip_grad_norm_, it does not wait for the device.

namespace reprise::libtorch {

/// Scales the gradients of parameters, in place, so that their norm, as that of one vector, is at most `max_norm`. In a
/// graph it uses the gradients of each replay.
/// \param parameters on one device; those without gradient are left alone.
/// \param max_norm zero or more.
/// \param norm_type the order of the norm, above zero; infinity for the maximum.
/// \returns the norm before, without dimensions, on the device of the gradients; in a capture it is memory of the
///          graph. Zero if there are no gradients. It may be infinite or not a number, as the gradients then are.
/// \throws UsageError for a norm that is negative or not a number, or a type that is not above zero.
REPRISE_EXPORT at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type = 2);

/// Limits each value of the gradients of parameters, in place, to between `-clip_value` and `clip_value`.
/// \throws UsageError for a value that is negative or not a number.
REPRISE_EXPORT void clip_grad_value_(at::TensorList parameters, double clip_value);

}  // namespace reprise::libtorch
