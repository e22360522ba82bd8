// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise::libtorch::optim::detail {

/// `each -= scale * other`, where `scale` is a number on the device, rounded as `each.add_(other, -scale)` with a
/// number of the host: once, after the sum. All tensors are of one type and device; `scale` is a float64 without
/// dimensions. An operator, `reprise::subtract_scaled_`.
void subtract_scaled_(at::TensorList tensors, at::TensorList others, const at::Tensor& scale);

}  // namespace reprise::libtorch::optim::detail
