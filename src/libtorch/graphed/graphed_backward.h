// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "libtorch/graphed/pool_order.h"

namespace reprise::libtorch::detail {

class CapturedFunction;

/// Connects the results of a call to autograd's graph: with the function's backward, from the differentiable results to
/// the arguments and parameters.
void attach_backward(const std::shared_ptr<CapturedFunction>& function, const std::shared_ptr<GraphedCall>& call,
                     std::uint64_t versions, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results);

}  // namespace reprise::libtorch::detail
